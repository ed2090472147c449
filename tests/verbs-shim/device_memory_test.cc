// SPDX-License-Identifier: Apache-2.0
// Device memory: ibv_alloc_dm(3), ibv_import_dm(3).
#include <sys/resource.h>

#include <cerrno>
#include <cstring>

#include "tests/verbs-shim/shim_fixture.h"

namespace uroce::shim_test {
namespace {

class DeviceMemoryTest : public ShimTest {
 protected:
  ibv_dm* Alloc(size_t length, uint32_t comp_mask = 0) {
    ibv_alloc_dm_attr attr = {};
    attr.length = length;
    attr.comp_mask = comp_mask;
    return ibv_alloc_dm(context_, &attr);
  }
};

TEST_F(DeviceMemoryTest, BytesAreKeptAndImportsSeeThem) {
  ibv_dm* dm = Alloc(100);
  ASSERT_NE(dm, nullptr);
  ibv_dm* imported = ibv_import_dm(context_, dm->handle);
  ASSERT_NE(imported, nullptr);
  ASSERT_EQ(ibv_memcpy_to_dm(dm, 8, "abcd", 4), 0);
  EXPECT_EQ(ibv_free_dm(dm), 0);
  char text[4] = {};
  EXPECT_EQ(ibv_memcpy_from_dm(text, imported, 8, 4), 0) << "the import keeps the bytes";
  EXPECT_EQ(memcmp(text, "abcd", 4), 0);
  const uint32_t handle = imported->handle;
  ibv_unimport_dm(imported);
  EXPECT_EQ(ibv_import_dm(context_, handle), nullptr);
  EXPECT_EQ(errno, ENOENT);
}

TEST_F(DeviceMemoryTest, AccessIsInWordsAndInside) {
  ibv_dm* dm = Alloc(100);
  ASSERT_NE(dm, nullptr);
  char text[128] = {};
  EXPECT_EQ(ibv_memcpy_to_dm(dm, 96, text, 4), 0);
  EXPECT_EQ(ibv_memcpy_to_dm(dm, 1, text, 4), EINVAL);
  EXPECT_EQ(ibv_memcpy_to_dm(dm, 4, text, 3), EINVAL);
  EXPECT_EQ(ibv_memcpy_to_dm(dm, 100, text, 4), EINVAL);
  EXPECT_EQ(ibv_memcpy_from_dm(text, dm, 0, 104), EINVAL);
  EXPECT_EQ(ibv_memcpy_from_dm(text, dm, ~uint64_t{3}, 8), EINVAL);
  EXPECT_EQ(ibv_free_dm(dm), 0);
}

// The limit is of memfds too, and its signal would end the program.
TEST_F(DeviceMemoryTest, AProgramThatMayWriteNoFilesHasIt) {
  struct rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const struct rlimit none = {.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
  ibv_dm* dm = Alloc(8192);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  ASSERT_NE(dm, nullptr);
  const uint32_t word = 0x12345678;
  uint32_t read = 0;
  EXPECT_EQ(ibv_memcpy_to_dm(dm, 8188, &word, sizeof(word)), 0);
  EXPECT_EQ(ibv_memcpy_from_dm(&read, dm, 8188, sizeof(read)), 0);
  EXPECT_EQ(read, word);
  EXPECT_EQ(ibv_free_dm(dm), 0);
}

TEST_F(DeviceMemoryTest, SizesAndExtensionsAreChecked) {
  EXPECT_EQ(Alloc(0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(Alloc(64, 1), nullptr);
  EXPECT_EQ(errno, EINVAL);
  ibv_device_attr_ex attr = {};
  ASSERT_EQ(ibv_query_device_ex(context_, nullptr, &attr), 0);
  EXPECT_EQ(Alloc(attr.max_dm_size + 1), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  ibv_dm* dm = Alloc(attr.max_dm_size);
  ASSERT_NE(dm, nullptr);
  // Its regions begin at address 0, and say so.
  EXPECT_EQ(ibv_reg_dm_mr(pd_, dm, 0, 64, IBV_ACCESS_LOCAL_WRITE), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_free_dm(dm), 0);
}

}  // namespace
}  // namespace uroce::shim_test
