// SPDX-License-Identifier: Apache-2.0
// Many connections between many nodes. UROCE_CM_SIM=seed=N,... replays one run,
// UROCE_CM_SIM_CONNECTIONS=N makes that many; UROCE_CM_SIM_SEED=N is the first seed.
#include "tests/sim/cm/simulation.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <string>

#include "tests/sim/environment.h"

namespace uroce::sim::cm {
namespace {

// How many connections a run of the tests makes. Builds for sanitizers are slow.
#ifdef NDEBUG
constexpr uint64_t kConnections = 100'000;
#else
constexpr uint64_t kConnections = 10'000;
#endif

TEST(CmSimulation, BothSidesAgreeAndNoStateStays) {
  Summary summary;
  if (const char* text = std::getenv("UROCE_CM_SIM")) {
    EXPECT_EQ(RunAndMinimize(Options::FromString(text), summary), "");
    return;
  }
  const uint64_t count = FromEnvironment("UROCE_CM_SIM_CONNECTIONS", kConnections);
  const uint64_t first = FromEnvironment("UROCE_CM_SIM_SEED", 1);
  for (uint64_t runs = 0; summary.connections < count; ++runs) {
    const Options options{.seed = first + runs};
    ASSERT_EQ(RunAndMinimize(options, summary), "")
        << "replay with UROCE_CM_SIM=" << options.ToString() << " build/tests/sim/cm/cm_sim_test";
  }
  std::cout << summary.connections << " connections: " << summary.established << " established, "
            << summary.rejected << " rejected, " << summary.unreachable << " unreachable; "
            << summary.resolved << " resolved; " << summary.messages << " messages, "
            << summary.retransmitted << " again, " << summary.mras << " MRA, " << summary.stale
            << " stale, " << summary.claims << " claims\n";
  // A run in which nothing happens proves nothing.
  EXPECT_GT(summary.established, count / 2);
  EXPECT_GT(summary.rejected, 0u);
  EXPECT_GT(summary.unreachable, 0u);
  EXPECT_GT(summary.resolved, 0u);
  EXPECT_GT(summary.retransmitted, 0u);
  EXPECT_GT(summary.mras, 0u);
  EXPECT_GT(summary.stale, 0u);
  EXPECT_GT(summary.claims, 0u);
}

// The same seed gives the same run.
TEST(CmSimulation, TheSameSeedReplaysTheSameRun) {
  for (uint64_t seed = 1; seed < 6; ++seed) {
    Simulation first({.seed = seed});
    Simulation second({.seed = seed});
    EXPECT_EQ(first.Run(), second.Run());
    Summary of_first;
    Summary of_second;
    first.AddTo(of_first);
    second.AddTo(of_second);
    EXPECT_EQ(of_first, of_second);
  }
}

TEST(CmSimulation, OptionsAreReadAsTheyAreWritten) {
  const Options options{.seed = 7, .connections = 3, .without = 5};
  EXPECT_EQ(options.ToString(), "seed=7,connections=3,without=5");
  EXPECT_EQ(Options::FromString(options.ToString()).ToString(), options.ToString());
}

}  // namespace
}  // namespace uroce::sim::cm
