// SPDX-License-Identifier: Apache-2.0
// Flows of different kinds that meet, attacks, and the shapes of publications, by the daemon's own
// devices, workers and switches in virtual time.
#include <gtest/gtest.h>

#include "tests/networks/attacks.h"
#include "tests/networks/completion_times.h"
#include "tests/networks/mixed_traffic.h"
#include "tests/networks/published.h"

namespace uroce::networks {
namespace {

using congestion::DefaultsOf;
using congestion::Profile;
using congestion::Settings;

// [cc.net.mixed] A flow that reacts to nothing takes what it sends; the others share the rest.
TEST(MixedTrafficTest, AnUnresponsiveFlow) {
  for (const auto& [kind, profile] :
       {std::pair{Kind::kMarked, Profile::kDcqcn}, std::pair{Kind::kUnmarked, Profile::kDelay}}) {
    const UnresponsiveShares shares = RunUnresponsive(kind, DefaultsOf(profile), {});
    EXPECT_GE(shares.responsive.jain, 0.97) << NameOf(kind);
    EXPECT_GE(shares.responsive.use, 0.95) << NameOf(kind);
    EXPECT_GE(shares.responsive_use, 0.55) << "of the 0.6 that are left";
    EXPECT_LE(shares.responsive_use, 0.6) << "the other one has lost nothing";
    EXPECT_EQ(shares.responsive.lost, 0) << NameOf(kind);
  }
}

// [cc.net.mixed] Bursts of small messages beside long flows: nothing is lost, and both get on.
TEST(MixedTrafficTest, Bursts) {
  const BurstResult result = RunBursts(Kind::kMarked, DefaultsOf(Profile::kDcqcn), {});
  EXPECT_EQ(result.messages.messages, 20u * 8 * 8) << "all of 20 ms";
  EXPECT_LE(result.messages.p99_us, 300) << "83 us are the line's time for a burst";
  EXPECT_GE(result.others.jain, 0.97);
  EXPECT_GE(result.others.use, 0.9);
  EXPECT_EQ(result.others.lost, 0);
}

// [cc.net.plain] A peer that answers no mark: round trips need no answers but acknowledgements.
TEST(MixedTrafficTest, APeerWithoutNotificationPoint) {
  NetworkConfig config = Star(Kind::kUnmarked, 9, DefaultsOf(Profile::kDelay));
  config.settings_of[0] = DefaultsOf(Profile::kOff);
  config.selective = false;
  const Shares shares = RunIncast(config, {.senders = 8});
  EXPECT_GE(shares.jain, 0.97);
  EXPECT_GE(shares.use, 0.95);
  EXPECT_EQ(shares.lost, 0);
}

// [cc.net.plain] Peers that obey no CNP: the reader asks for no more than its rate allows.
TEST(MixedTrafficTest, ReadsOfPeersWithoutReactionPoint) {
  NetworkConfig config = Star(Kind::kMarked, 9, DefaultsOf(Profile::kDcqcn));
  for (uint32_t i = 1; i <= 8; ++i) config.settings_of[i] = DefaultsOf(Profile::kOff);
  config.selective = false;
  config.traffic_class = 2;  // ECT(0), as the administrator of such peers asks for.
  const Shares shares = RunIncast(config, {.senders = 8, .reads = true});
  EXPECT_GE(shares.jain, 0.95);
  EXPECT_GE(shares.use, 0.95);
  EXPECT_EQ(shares.lost, 0);
}

// [cc.net.victim] PFC alone makes a flow slower that goes elsewhere; DCQCN pauses nothing. Nothing
// is lost, at the peak of the queues neither.
TEST(MixedTrafficTest, VictimsOfPauses) {
  const VictimShares alone = RunVictim(PaperStarWithoutMarks(1, DefaultsOf(Profile::kOff)), 8);
  EXPECT_EQ(alone.incast.lost, 0) << "pauses come in time";
  EXPECT_GE(alone.incast.use, 0.99);
  EXPECT_GE(alone.pauses, 10u);
  EXPECT_LE(alone.victim, 0.3);
  const VictimShares controlled = RunVictim(PaperStar(1, PaperSettings()), 8);
  EXPECT_EQ(controlled.incast.lost, 0);
  EXPECT_EQ(controlled.pauses, 0u);
  EXPECT_GE(controlled.victim, 2 * alone.victim);
}

// [cc.net.attack] CE on all packets, and a flood of CNPs: the flow that they mean keeps its floor,
// and no other flow is slower. CNPs of another host do nothing.
TEST(AttacksTest, MarksAndForgedCnps) {
  for (const Profile profile : {Profile::kDcqcn, Profile::kDelay}) {
    Settings settings = DefaultsOf(profile);
    settings.rp.rpg_min_rate = 100;
    constexpr double kFloor = 0.1 / 25;
    const AttackShares none = RunAttack(settings, Attack::kNone);
    EXPECT_GE(none.attacked, 0.48) << "half of its NIC's line";
    for (const Attack attack : {Attack::kMarks, Attack::kForgedCnps}) {
      const AttackShares shares = RunAttack(settings, attack);
      EXPECT_GE(shares.attacked, 0.9 * kFloor);
      EXPECT_LE(shares.attacked, 0.1) << "it is believed";
      EXPECT_GE(shares.same_nic, none.same_nic);
      EXPECT_GE(shares.elsewhere, 0.99 * none.elsewhere);
      EXPECT_EQ(shares.failed, 0u);
    }
    const AttackShares other_address = RunAttack(settings, Attack::kAttackerCnps);
    EXPECT_GE(other_address.cnps_ignored, 100'000u);
    EXPECT_EQ(other_address.cnps_handled, 0u);
    EXPECT_GE(other_address.attacked, 0.99 * none.attacked);
  }
}

// [cc.net.attack] All marks of 30 ms get a CNP each 50 us, no more.
TEST(AttacksTest, MarksGetFewCnps) {
  const AttackShares shares = RunAttack(DefaultsOf(Profile::kDcqcn), Attack::kMarks);
  EXPECT_GE(shares.cnps_sent, 10u);
  EXPECT_LE(shares.cnps_sent, 601u);
}

// [cc.net.published] The DCQCN paper's deployed parameters: 2 to 16 senders share the line, and the
// queue is an order shorter than with PFC alone.
TEST(PublishedTest, IncastsOfTheDcqcnPaper) {
  for (const uint32_t senders : {2u, 4u, 8u, 16u}) {
    const Incast incast{.senders = senders};
    const Shares shares = RunIncast(PaperStar(senders + 1, PaperSettings()), incast);
    EXPECT_GE(shares.jain, 0.97) << senders;
    EXPECT_GE(shares.use, 0.9) << senders;
    EXPECT_EQ(shares.lost, 0) << senders;
    if (senders < 8) continue;
    const Shares alone =
        RunIncast(PaperStarWithoutMarks(senders + 1, DefaultsOf(Profile::kOff)), incast);
    EXPECT_GE(alone.queue_99, 10 * shares.queue_99) << senders;
  }
}

// [cc.net.published] With the deployed parameters a second flow has its share at once; with those
// of the paper's first attempt 8 senders do not recover the line.
TEST(PublishedTest, ConvergenceOfTheDcqcnPaper) {
  const Convergence deployed =
      RunConvergence(PaperStar(3, PaperSettings()), Nanos(10'000'000), Nanos(60'000'000));
  EXPECT_LE(deployed.until, Nanos(20'000'000));
  EXPECT_GE(deployed.jain, 0.98);
  EXPECT_LE(RunIncast(PaperFirstStar(9), {.senders = 8}).use, 0.8);
}

// [cc.net.parking] A flow over three bottlenecks gets something of each.
TEST(PublishedTest, AParkingLot) {
  const Shares shares = RunParkingLot(Star(Kind::kMarked, 1, DefaultsOf(Profile::kDelay)), 3);
  EXPECT_GE(shares.jain, 0.74) << "0.75: the long one has nothing";
  EXPECT_GE(shares.use, 0.9);
  EXPECT_EQ(shares.lost, 0);
}

// [cc.net.tree] Web search's flows in a fat tree of 8 NICs: all complete, nothing is lost, and no
// flow is faster than the network allows.
TEST(PublishedTest, CompletionTimesInAFatTree) {
  const FatTree tree{.pods = 1, .racks_of_pod = 2, .nics_of_rack = 4};
  const CompletionTimes times = RunCompletionTimes(tree, tree.Config(DefaultsOf(Profile::kDelay)),
                                                   {.measured = Nanos(10'000'000)});
  EXPECT_GE(times.all.flows, 30u);
  EXPECT_EQ(times.unfinished + times.failed + times.lost_slots, 0u);
  EXPECT_EQ(times.lost, 0);
  EXPECT_GT(times.all.p50, 1);
  EXPECT_LE(times.all.mean, 10);
}

// The time of the idle network is what an only flow takes, but for the turns of workers.
TEST(PublishedTest, IdleTimeIsThatOfAFlowAlone) {
  const FatTree tree;
  for (const uint32_t to : {1u, 16u, 64u}) {
    for (const uint32_t bytes : {64u, 4096u, 100'000u, 2'000'000u}) {
      NetworkBed bed(tree.Config(DefaultsOf(Profile::kOff)));
      Flow& flow = bed.Connect(0, to, {.depth = 1});
      flow.Post(bytes);
      while (flow.latencies().empty() && flow.failed() == 0) bed.Run(Nanos(1'000));
      ASSERT_EQ(flow.failed(), 0u);
      const Nanos idle = tree.IdleTime(0, to, bytes, 4096);
      EXPECT_GE(flow.latencies()[0], idle) << to << " " << bytes;
      EXPECT_LE(flow.latencies()[0], idle + Nanos(6'000)) << to << " " << bytes;
    }
  }
}

}  // namespace
}  // namespace uroce::networks
