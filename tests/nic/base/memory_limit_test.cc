// SPDX-License-Identifier: Apache-2.0
#include "nic/base/memory_limit.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace uroce::nic {
namespace {

constexpr uint64_t kMegabyte = 1 << 20;

/// A directory like /sys/fs/cgroup.
class MemoryLimitTest : public testing::Test {
 protected:
  MemoryLimitTest() {
    char path[] = "/tmp/uroce-memory-limit-XXXXXX";
    mounts_ = mkdtemp(path);
  }
  ~MemoryLimitTest() override { std::filesystem::remove_all(mounts_); }
  void Write(const std::string& file, const std::string& text) const {
    const std::string path = mounts_ + "/" + file;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << text << "\n";
  }

  std::string mounts_;
};

TEST_F(MemoryLimitTest, IsTheSmallestOfTheGroupAndThoseAboveIt) {
  Write("system.slice/memory.max", std::to_string(8 * kMegabyte));
  Write("system.slice/uroced.service/memory.max", "max");
  EXPECT_EQ(CgroupMemoryLimit("0::/system.slice/uroced.service\n", mounts_), 8 * kMegabyte);
  Write("system.slice/uroced.service/memory.max", std::to_string(kMegabyte));
  EXPECT_EQ(CgroupMemoryLimit("0::/system.slice/uroced.service\n", mounts_), kMegabyte);
  EXPECT_EQ(CgroupMemoryLimit("0::/user.slice\n", mounts_), UINT64_MAX);
}

TEST_F(MemoryLimitTest, OfAContainerIsInTheFirstGroupThatItSees) {
  Write("memory.max", std::to_string(3 * kMegabyte));
  EXPECT_EQ(CgroupMemoryLimit("0::/\n", mounts_), 3 * kMegabyte);
  EXPECT_EQ(CgroupMemoryLimit("0::/docker/1234\n", mounts_), 3 * kMegabyte);
}

TEST_F(MemoryLimitTest, OfVersion1IsInTheHierarchyOfMemory) {
  Write("memory/app/memory.limit_in_bytes", std::to_string(5 * kMegabyte));
  Write("cpu/memory.limit_in_bytes", "1");
  EXPECT_EQ(CgroupMemoryLimit("5:cpu:/\n4:hugetlb,memory:/app\n0::/\n", mounts_), 5 * kMegabyte);
  EXPECT_EQ(CgroupMemoryLimit("", mounts_), UINT64_MAX);
}

TEST_F(MemoryLimitTest, OfThisProcessIsNotMoreThanTheMachines) {
  EXPECT_GT(MemoryLimit(), 0u);
  EXPECT_LT(MemoryLimit(), UINT64_MAX / 2);
}

}  // namespace
}  // namespace uroce::nic
