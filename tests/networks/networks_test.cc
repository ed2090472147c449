// SPDX-License-Identifier: Apache-2.0
// What round trips make of simulated networks, by the daemon's own devices, workers and switches.
// Virtual time: each run gives the same numbers. tests/bench/networks prints tables of them.
#include <gtest/gtest.h>

#include "tests/networks/scenarios.h"

namespace uroce::networks {
namespace {

using congestion::DefaultsOf;
using congestion::Profile;

/// The most senders: a simulation costs by the turns of all workers.
#ifdef __SANITIZE_ADDRESS__
constexpr uint32_t kMostSenders = 8;
#else
constexpr uint32_t kMostSenders = 64;
#endif

// [cc.net.marks cc.net.taildrop] Senders to one NIC share its line, and nothing is lost.
TEST(NetworksTest, AnIncastByRoundTrips) {
  for (const Kind kind : {Kind::kMarked, Kind::kUnmarked, Kind::kLossless}) {
    for (const uint32_t senders : {2u, 4u, 8u, 16u, 64u}) {
      if (senders > kMostSenders) continue;
      const Shares shares =
          RunIncast(Star(kind, senders + 1, DefaultsOf(Profile::kDelay)), {.senders = senders});
      EXPECT_GE(shares.jain, 0.96) << NameOf(kind) << senders;
      EXPECT_GE(shares.use, 0.95) << NameOf(kind) << senders;
      EXPECT_EQ(shares.lost, 0) << NameOf(kind) << senders;
      EXPECT_EQ(shares.failed, 0u);
    }
  }
}

// [cc.net.taildrop] What would be without: the judge sees losses and unfair shares.
TEST(NetworksTest, AnIncastWithoutControl) {
  const Shares shares =
      RunIncast(Star(Kind::kUnmarked, 9, DefaultsOf(Profile::kOff)), {.senders = 8});
  EXPECT_GE(shares.lost, 0.1);
  EXPECT_LE(shares.jain, 0.5);
  EXPECT_EQ(shares.failed, 0u) << "but all of it arrives";
}

// [cc.net.marks] A NIC that reads from eight.
TEST(NetworksTest, AnIncastOfResponses) {
  const Shares shares =
      RunIncast(Star(Kind::kMarked, 9, DefaultsOf(Profile::kDcqcn)), {.senders = 8, .reads = true});
  EXPECT_GE(shares.jain, 0.97);
  EXPECT_GE(shares.use, 0.95);
  EXPECT_EQ(shares.lost, 0);
}

// [cc.net.alone] Alone on an idle network a flow has all of it.
TEST(NetworksTest, AFlowAloneHasAll) {
  for (const Profile profile : {Profile::kOff, Profile::kDelay, Profile::kDcqcn}) {
    const Shares shares = RunIncast(Star(Kind::kUnmarked, 2, DefaultsOf(profile)), {.senders = 1});
    EXPECT_GE(shares.use, 0.99);
    EXPECT_LE(shares.queue_99, 10'000u);
  }
}

// [cc.net.taildrop] Flows that come and go: the shares follow.
TEST(NetworksTest, FlowsThatComeAndGo) {
  const auto stages = RunComingAndGoing(Star(Kind::kUnmarked, 5, DefaultsOf(Profile::kDelay)), 4,
                                        Nanos(20'000'000));
  ASSERT_EQ(stages.size(), 7u);
  for (const Shares& stage : stages) {
    EXPECT_GE(stage.jain, 0.97);
    EXPECT_GE(stage.use, 0.95);
    EXPECT_EQ(stage.lost, 0);
  }
}

#ifndef __SANITIZE_ADDRESS__
// [cc.net.slow] A slow line and 20 ms there and back are used. Nine seconds of five NICs.
TEST(NetworksTest, ALongPath) {
  NetworkConfig config = Star(Kind::kSlow, 5, DefaultsOf(Profile::kDelay));
  config.turn = drivers::kSwitchStep;
  const Shares shares = RunIncast(
      config, {.senders = 4, .warm = Nanos(8'000'000'000), .measured = Nanos(1'000'000'000)});
  EXPECT_GE(shares.use, 0.9);
  EXPECT_LE(shares.lost, 0.001);
  EXPECT_EQ(shares.failed, 0u);
}
#endif

// [cc.net.hosts] Workers that wait for a CPU after each of their sleeps: round trips are as long as
// these waits, though the network is idle.
TEST(NetworksTest, HostsWithSharedCpus) {
  const auto use = [](Profile profile, Nanos runs, Nanos waits) {
    NetworkConfig config = Star(Kind::kUnmarked, 2, DefaultsOf(profile));
    config.cpu = {.runs = runs, .waits = waits};
    return RunIncast(config,
                     {.senders = 1, .warm = Nanos(200'000'000), .measured = Nanos(400'000'000)})
        .use;
  };
  for (const auto& [runs, waits] :
       {std::pair{Nanos(3'000'000), Nanos(3'000'000)}, std::pair{Nanos(100'000), Nanos(300'000)}}) {
    EXPECT_GE(use(Profile::kDelay, runs, waits), 0.9 * use(Profile::kOff, runs, waits))
        << waits.count();
  }
}

// [cc.net.hosts] The NICs of one daemon at a switch of 1 Gb/s, and other programs on its CPU: the
// network waits with the daemon and then catches up, so frames travel faster than by the clock.
TEST(NetworksTest, ASwitchInsideABusyDaemon) {
  for (const Profile profile : {Profile::kOff, Profile::kDcqcn, Profile::kDelay}) {
    for (const auto& [runs, waits] : {std::pair{Nanos(3'000'000), Nanos(1'000'000)},
                                      std::pair{Nanos(300'000), Nanos(100'000)}}) {
      NetworkConfig config = Star(Kind::kUnmarked, 2, DefaultsOf(profile));
      config.link = {.rate_bps = 1'000'000'000, .delay = Nanos(5'000)};
      config.is_one_daemon = true;
      config.cpu = {.runs = runs, .waits = waits};
      const Shares shares = RunIncast(
          config, {.senders = 1, .warm = Nanos(200'000'000), .measured = Nanos(400'000'000)});
      EXPECT_GE(shares.use, 0.95) << congestion::NameOf(profile) << " " << waits.count();
      EXPECT_EQ(shares.lost, 0);
    }
  }
}

}  // namespace
}  // namespace uroce::networks
