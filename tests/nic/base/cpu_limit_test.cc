// SPDX-License-Identifier: Apache-2.0
#include "nic/base/cpu_limit.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "nic/base/cpus.h"

namespace uroce::nic {
namespace {

/// A directory like /sys/fs/cgroup, and a process that may run on 16 CPUs.
class CpuLimitTest : public testing::Test {
 protected:
  CpuLimitTest() {
    char path[] = "/tmp/uroce-cpu-limit-XXXXXX";
    mounts_ = mkdtemp(path);
  }
  ~CpuLimitTest() override { std::filesystem::remove_all(mounts_); }
  void Write(const std::string& file, const std::string& text) const {
    const std::string path = mounts_ + "/" + file;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << text << "\n";
  }
  uint32_t Usable(const std::string& groups, uint32_t allowed = 16) const {
    return UsableCpus(allowed, groups, mounts_);
  }

  std::string mounts_;
};

TEST_F(CpuLimitTest, WithoutAQuotaTheMaskCounts) {
  EXPECT_EQ(Usable(""), 16u);
  EXPECT_EQ(Usable("0::/system.slice\n"), 16u);
  Write("system.slice/cpu.max", "max 100000");
  EXPECT_EQ(Usable("0::/system.slice\n"), 16u);
  EXPECT_EQ(Usable("0::/system.slice\n", 3), 3u);
}

TEST_F(CpuLimitTest, IsTheSmallestOfTheGroupAndThoseAboveIt) {
  Write("system.slice/cpu.max", "800000 100000");
  Write("system.slice/uroced.service/cpu.max", "max 100000");
  EXPECT_EQ(Usable("0::/system.slice/uroced.service\n"), 8u);
  Write("system.slice/uroced.service/cpu.max", "250000 50000");
  EXPECT_EQ(Usable("0::/system.slice/uroced.service\n"), 5u);
  EXPECT_EQ(Usable("0::/system.slice/uroced.service\n", 4), 4u);
  EXPECT_EQ(Usable("0::/user.slice\n"), 16u);
}

TEST_F(CpuLimitTest, PartsOfACpuCountAsNoneButOneIsUsable) {
  Write("cpu.max", "399999 100000");
  EXPECT_EQ(Usable("0::/\n"), 3u);
  Write("cpu.max", "50000 100000");
  EXPECT_EQ(Usable("0::/\n"), 1u);
  EXPECT_EQ(Usable("", 0), 1u) << "where the kernel tells no mask";
}

TEST_F(CpuLimitTest, OfAContainerIsInTheFirstGroupThatItSees) {
  Write("cpu.max", "200000 100000");
  EXPECT_EQ(Usable("0::/docker/1234\n"), 2u);
}

TEST_F(CpuLimitTest, OfVersion1IsInTheHierarchyOfCpu) {
  Write("cpu/app/cpu.cfs_quota_us", "600000");
  Write("cpu/app/cpu.cfs_period_us", "100000");
  Write("memory/app/cpu.cfs_quota_us", "100000");
  Write("memory/app/cpu.cfs_period_us", "100000");
  EXPECT_EQ(Usable("5:cpu,cpuacct:/app\n4:memory:/app\n0::/\n"), 6u);
  Write("cpu/app/cpu.cfs_quota_us", "-1");
  EXPECT_EQ(Usable("5:cpu,cpuacct:/app\n"), 16u);
}

TEST_F(CpuLimitTest, FilesThatHoldNoQuotaAreNone) {
  for (const char* text : {"", "100000", "100000 0", "many 100000", "-5 100000"}) {
    Write("cpu.max", text);
    EXPECT_EQ(Usable("0::/\n"), 16u) << text;
  }
}

TEST_F(CpuLimitTest, OfThisProcessIsNotMoreThanItsMask) {
  EXPECT_GE(UsableCpus(), 1u);
  EXPECT_LE(UsableCpus(), AllowedCores().size());
}

constexpr uint64_t kGiB = 1 << 30;

TEST(AutoWorkersTest, ThreeQuartersOfTheCpusAreLeftToOthers) {
  for (const uint32_t cpus : {1, 2, 3, 4, 7}) EXPECT_EQ(AutoWorkers(cpus, 64 * kGiB), 1u) << cpus;
  EXPECT_EQ(AutoWorkers(8, 64 * kGiB), 2u);
  EXPECT_EQ(AutoWorkers(15, 64 * kGiB), 3u);
  EXPECT_EQ(AutoWorkers(16, 64 * kGiB), 4u);
  EXPECT_EQ(AutoWorkers(32, 64 * kGiB), 8u);
  EXPECT_EQ(AutoWorkers(256, 64 * kGiB), 8u);
}

TEST(AutoWorkersTest, FramesTakeASmallPartOfTheMemory) {
  EXPECT_EQ(AutoWorkers(64, 2 * kGiB), 4u);
  EXPECT_EQ(AutoWorkers(64, 2 * kGiB - 1), 3u);
  EXPECT_EQ(AutoWorkers(64, 256 << 20), 1u);
  EXPECT_EQ(AutoWorkers(64, 0), 1u);
  EXPECT_EQ(AutoWorkers(4, 2 * kGiB), 1u);
}

}  // namespace
}  // namespace uroce::nic
