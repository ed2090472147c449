// SPDX-License-Identifier: Apache-2.0
// Many connections between the programs of many hosts. UROCE_RDMA_CM_SIM=N replays the run of a
// seed, UROCE_CM_SIM_CONNECTIONS=N makes that many; UROCE_CM_SIM_SEED=N is the first seed.
#include "tests/sim/rdma_cm/simulation.h"

#include <gtest/gtest.h>

#include <iostream>

#include "tests/sim/environment.h"

namespace uroce::sim::rdma_cm {
namespace {

// How many connections a run of the tests makes. Builds for sanitizers are slow.
#ifdef NDEBUG
constexpr uint64_t kConnections = 100'000;
#else
constexpr uint64_t kConnections = 5'000;
#endif

std::string RunOnce(uint64_t seed, Summary& summary) {
  Simulation simulation(seed);
  const std::string outcome = simulation.Run();
  simulation.AddTo(summary);
  return outcome;
}

TEST(RdmaCmSimulation, BothSidesAgreeAndNoStateStays) {
  Summary summary;
  if (const uint64_t seed = FromEnvironment("UROCE_RDMA_CM_SIM", 0)) {
    EXPECT_EQ(RunOnce(seed, summary), "");
    return;
  }
  const uint64_t count = FromEnvironment("UROCE_CM_SIM_CONNECTIONS", kConnections);
  for (uint64_t seed = FromEnvironment("UROCE_CM_SIM_SEED", 1); summary.connections < count;
       ++seed) {
    ASSERT_EQ(RunOnce(seed, summary), "")
        << "replay with UROCE_RDMA_CM_SIM=" << seed << " build/tests/sim/rdma_cm/rdma_cm_sim_test";
  }
  std::cout << summary.connections << " connections: " << summary.established << " established, "
            << summary.rejected << " rejected; " << summary.unresolved << " addresses not, and "
            << summary.services_found << " services resolved; " << summary.kills << " programs and "
            << summary.deaths << " hosts killed; " << summary.retransmitted << " messages again\n";
  // A run in which nothing happens proves nothing.
  EXPECT_GT(summary.established, count / 2);
  EXPECT_GT(summary.rejected, 0u);
  EXPECT_GT(summary.unresolved, 0u);
  EXPECT_GT(summary.services_found, 0u);
  EXPECT_GT(summary.kills, 0u);
  EXPECT_GT(summary.deaths, 0u);
  EXPECT_GT(summary.retransmitted, 0u);
}

// The same seed gives the same run.
TEST(RdmaCmSimulation, TheSameSeedReplaysTheSameRun) {
  for (uint64_t seed = 1; seed < 4; ++seed) {
    Summary first;
    Summary second;
    EXPECT_EQ(RunOnce(seed, first), RunOnce(seed, second));
    EXPECT_EQ(first, second);
  }
}

}  // namespace
}  // namespace uroce::sim::rdma_cm
