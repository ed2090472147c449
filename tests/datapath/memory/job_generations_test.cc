// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/memory/job_generations.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <thread>

namespace uroce::datapath {
namespace {

class JobGenerationsTest : public testing::Test {
 protected:
  JobGenerations jobs_;
};

TEST_F(JobGenerationsTest, WithoutJobsAllHaveEnded) {
  EXPECT_TRUE(jobs_.HaveEnded(0)) << "before the first one";
  EXPECT_TRUE(jobs_.HaveEnded(jobs_.newest()));
  EXPECT_TRUE(jobs_.HaveEnded(jobs_.newest()));
}

TEST_F(JobGenerationsTest, LaterJobsCountForNothing) {
  const uint64_t first = jobs_.Begin();
  const uint64_t mark = jobs_.newest();
  EXPECT_FALSE(jobs_.HaveEnded(mark));
  jobs_.End(jobs_.Begin());
  EXPECT_FALSE(jobs_.HaveEnded(mark));
  const uint64_t later = jobs_.Begin();
  EXPECT_FALSE(jobs_.HaveEnded(mark));
  jobs_.End(first);
  EXPECT_TRUE(jobs_.HaveEnded(mark)) << "a later one is under way";
  EXPECT_FALSE(jobs_.HaveEnded(jobs_.newest()));
  jobs_.End(later);
  EXPECT_TRUE(jobs_.HaveEnded(jobs_.newest()));
}

TEST_F(JobGenerationsTest, SomeOneIsAlwaysUnderWayAndYetAllEarlierOnesEnd) {
  uint64_t under_way = jobs_.Begin();
  for (int i = 0; i < 100; ++i) {
    const uint64_t mark = jobs_.newest();
    EXPECT_FALSE(jobs_.HaveEnded(mark)) << i;
    const uint64_t next = jobs_.Begin();
    jobs_.End(under_way);
    EXPECT_TRUE(jobs_.HaveEnded(mark)) << i;
    under_way = next;
  }
  jobs_.End(under_way);
}

// A job that began before a mark was taken has ended when the mark says so. Runs under
// ThreadSanitizer, too.
TEST_F(JobGenerationsTest, AMarkNeverForgetsAJob) {
  std::atomic<bool> stop{false};
  std::array<std::atomic<uint64_t>, 2> begun{}, ended{};
  const auto work = [&](size_t worker) {
    while (!stop) {
      const uint64_t generation = jobs_.Begin();
      begun[worker].fetch_add(1);
      ended[worker].fetch_add(1);
      jobs_.End(generation);
    }
  };
  std::thread first(work, 0), second(work, 1);
  for (int i = 0; i < 2000; ++i) {
    const uint64_t before[] = {begun[0], begun[1]};
    const uint64_t mark = jobs_.newest();
    while (!jobs_.HaveEnded(mark)) std::this_thread::yield();
    for (const size_t worker : {0, 1}) EXPECT_GE(ended[worker], before[worker]);
  }
  stop = true;
  first.join();
  second.join();
}

}  // namespace
}  // namespace uroce::datapath
