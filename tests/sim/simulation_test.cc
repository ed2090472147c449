// SPDX-License-Identifier: Apache-2.0
// Many runs of the simulation. UROCE_SIM=seed=N,... replays one, UROCE_SIM_COUNT=N runs that many;
// UROCE_SIM_SEED=N is the first seed, UROCE_SIM_WITHOUT=N leaves parts out of all runs.
#include "tests/sim/simulation.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdlib>
#include <string>

#include "tests/sim/environment.h"
namespace uroce::sim {
namespace {

// How many runs the tests make by default. Builds for sanitizers are slow.
#ifdef NDEBUG
constexpr uint64_t kPackets = 1'000'000;
#else
constexpr uint64_t kPackets = 100'000;
#endif

/// The memory of one run is kept for the next: to return it to the system takes a fifth of all
/// time.
const bool kMemoryIsKept =
    mallopt(M_MMAP_THRESHOLD, 1 << 30) == 1 && mallopt(M_TRIM_THRESHOLD, 1 << 30) == 1;

TEST(Simulation, EveryProgramSeesWhatItWasPromised) {
  uint64_t packets = 0;
  uint64_t retransmitted = 0;
  if (const char* text = std::getenv("UROCE_SIM")) {
    const SimulationOptions options = SimulationOptions::FromString(text);
    EXPECT_EQ(RunAndMinimize(options, packets, retransmitted), "");
    return;
  }
  const uint64_t count = FromEnvironment("UROCE_SIM_COUNT", 0);
  const uint64_t first = FromEnvironment("UROCE_SIM_SEED", 1);
  const auto without = static_cast<uint32_t>(FromEnvironment("UROCE_SIM_WITHOUT", 0));
  const auto more = [&](uint64_t runs) { return count ? runs < count : packets < kPackets; };
  for (uint64_t runs = 0; more(runs); ++runs) {
    const SimulationOptions options{.seed = first + runs, .without = without};
    const std::string fault = RunAndMinimize(options, packets, retransmitted);
    ASSERT_EQ(fault, "") << "replay with UROCE_SIM=" << options.ToString();
  }
  RecordProperty("packets", std::to_string(packets));
  // A network that never fails proves nothing.
  if (count != 1) {
    EXPECT_GT(retransmitted, 0u);
  }
}

// The same seed gives the same run.
TEST(Simulation, TheSameSeedReplaysTheSameRun) {
  for (uint64_t seed = 1; seed < 4; ++seed) {
    Simulation first({.seed = seed});
    Simulation second({.seed = seed});
    EXPECT_EQ(first.Run(), second.Run());
    EXPECT_EQ(first.packets(), second.packets());
    EXPECT_EQ(first.retransmitted(), second.retransmitted());
  }
}

TEST(Simulation, OptionsAreReadAsTheyAreWritten) {
  const SimulationOptions options{.seed = 7, .connection = 2, .works = 3, .without = 5};
  EXPECT_EQ(options.ToString(), "seed=7,connection=2,works=3,without=5");
  EXPECT_EQ(SimulationOptions::FromString(options.ToString()).ToString(), options.ToString());
}

}  // namespace
}  // namespace uroce::sim
