// SPDX-License-Identifier: Apache-2.0
// Verbs that only a newer libibverbs knows: our devices refuse them, as any device without them.
// Devices that the program's own libibverbs has stand behind ours.
#include "tests/verbs-shim/library/newer_library.h"

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/verbs-shim/shim_fixture.h"

namespace uroce::shim_test {
namespace {

class NewerLibraryTest : public ShimTest {};

TEST_F(NewerLibraryTest, AnUnknownVerbIsRefused) {
  EXPECT_EQ(ibv_invented_verb(context_, 7), EOPNOTSUPP);
}

TEST_F(NewerLibraryTest, AnUnknownVerbMakesNoObject) {
  errno = 0;
  EXPECT_EQ(ibv_make_invented(context_), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

/// Each program has one private part, made when it opens its first device.
class UnknownLayoutTest : public ShimTest {
 protected:
  UnknownLayoutTest() { newer_library_makes_contexts = false; }
};

TEST_F(UnknownLayoutTest, AnUnknownVerbIsRefused) {
  EXPECT_EQ(ibv_invented_verb(context_, 7), EOPNOTSUPP);
}

class OtherDevicesTest : public ShimTest {
 protected:
  static std::vector<std::string> Names() {
    int count = 0;
    ibv_device** list = ibv_get_device_list(&count);
    std::vector<std::string> names;
    for (int i = 0; i < count; ++i) names.emplace_back(ibv_get_device_name(list[i]));
    EXPECT_EQ(list[count], nullptr);
    ibv_free_device_list(list);
    return names;
  }
  void TearDown() override {
    unsetenv("UROCE_ONLY");
    ShimTest::TearDown();
  }
};

TEST_F(OtherDevicesTest, TheyStandBehindOurs) {
  EXPECT_EQ(Names(), (std::vector<std::string>{"fake0", "fake1", "mana_0"}));
}

TEST_F(OtherDevicesTest, AProgramMayHaveOursAlone) {
  setenv("UROCE_ONLY", "1", 1);
  EXPECT_EQ(Names(), (std::vector<std::string>{"fake0", "fake1"}));
  setenv("UROCE_ONLY", "0", 1);
  EXPECT_EQ(Names().size(), 3u);
}

}  // namespace
}  // namespace uroce::shim_test
