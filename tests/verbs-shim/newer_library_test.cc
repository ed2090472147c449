// SPDX-License-Identifier: Apache-2.0
// Verbs that only a newer libibverbs knows: our devices refuse them, as any device without them.
#include "tests/verbs-shim/newer_library.h"

#include <cerrno>
#include <cstdint>

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

}  // namespace
}  // namespace uroce::shim_test
