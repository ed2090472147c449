// SPDX-License-Identifier: Apache-2.0
// Findings beside what a simulated network did, for each kind of fault alone. UROCE_SIM_COUNT: how
// many seeds, UROCE_SIM_SEED: the first; UROCE_SHOW=18 prints each wrong or missed finding with 18
// frames before and behind it. Each host of the network is a capture point. Each miss and each
// wrong finding belongs to a class, which is counted: docs/guide/analyze.md says why each class is
// there.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "pipeline/wire/to_string.h"
#include "tests/sim/environment.h"
#include "tests/sim/parties/party.h"
#include "tests/sim/simulation.h"
#include "tests/tools/analyze/known_network.h"

namespace uroce::tools::analyze {
namespace {

constexpr uint32_t kMostHosts = 6;

struct Score {
  uint64_t there = 0;      ///< Faults that leave a trace.
  uint64_t found = 0;      ///< Of these.
  uint64_t claimed = 0;    ///< Packets of findings.
  uint64_t right = 0;      ///< Of these.
  uint64_t as_either = 0;  ///< Late packets, or packets not kept, that are told as "lost or late".
  std::map<std::string, uint64_t> classes;  ///< Of what was missed, and of what is wrong.

  void Add(const Score& other) {
    there += other.there;
    found += other.found;
    claimed += other.claimed;
    right += other.right;
    as_either += other.as_either;
    for (const auto& [name, packets] : other.classes) classes[name] += packets;
  }

  double recall() const { return Part(found, there); }
  double precision() const { return Part(right, claimed); }
  static double Part(uint64_t some, uint64_t all) {
    return all == 0 ? 1 : static_cast<double>(some) / static_cast<double>(all);
  }
};

class Judge {
 public:
  Judge(KnownNetwork& network, bool ipv6, uint64_t seed)
      : network_(network), ipv6_(ipv6), seed_(seed), shows_(std::getenv("UROCE_SHOW") != nullptr) {}

  /// Compares the findings of one kind at one host.
  void Compare(uint32_t host, FindingKind kind, Score& score) {
    for (KnownFault& fault : network_.faults()) fault.is_found = false;
    for (const Finding& finding : network_.analysis(host).log().Sorted()) {
      if (finding.kind != kind || !IsReliable(host, finding)) continue;
      const uint64_t right = Take(host, finding);
      score.claimed += finding.count;
      score.right += std::min(right, finding.count);
      if (right == finding.count) continue;
      const std::string name = ClassOf(host, finding);
      score.classes[name] += finding.count - right;
      if (shows_) Show(host, absl::StrCat("wrong: ", finding.text, " [", name, "]"), finding);
    }
    if (kind == FindingKind::kReordering) TakeEither(host, score);
    for (const KnownFault& fault : network_.faults()) {
      if (!IsVisible(host, kind, fault)) continue;
      ++score.there;
      score.found += fault.is_found;
      if (fault.is_found) continue;
      const std::string name = ClassOf(host, fault);
      ++score.classes[name];
      if (shows_) {
        Show(host,
             absl::StrCat(host == fault.from ? "sender" : "receiver",
                          " missed: ", wire::OpcodeName(fault.opcode), " psn ", fault.psn.value(),
                          " to qp ", fault.dest_qpn.value(), " [", name, "]"),
             fault);
      }
    }
  }

 private:
  static bool IsVisible(uint32_t host, FindingKind kind, const KnownFault& fault) {
    if (fault.kind != kind || !fault.is_needed) return false;
    if (fault.from != host && fault.to != host) return false;
    if (kind != FindingKind::kLoss) return fault.to == host;
    // A damaged packet is no loss to its receiver, which sees it.
    if (fault.to == host && fault.frame != 0) return false;
    const bool is_ack = !wire::InfoOf(fault.opcode).Has(wire::OpcodeInfo::kRead) &&
                        !wire::InfoOf(fault.opcode).Has(wire::OpcodeInfo::kAtomic);
    if (fault.what == LostWhat::kResponse && is_ack) return true;
    if (fault.what == LostWhat::kResponse) {
      return fault.is_named || (fault.to == host && fault.leaves_gap);
    }
    return fault.from == host ? fault.is_named : fault.leaves_gap;
  }

  /// What a repair of one packet takes at most: a timeout. Repairs that overlap hide one another.
  static constexpr int64_t kRepairNs = 1'200'000;

  bool HasNeighbour(uint32_t pair, int64_t time_ns, const KnownFault* self) const {
    return std::ranges::any_of(network_.faults(), [&](const KnownFault& fault) {
      const int64_t passed = static_cast<int64_t>(fault.time.count()) - time_ns;
      const bool is_same = self != nullptr && fault.number == self->number;
      return !is_same && fault.dest_qpn.value() / 2 == pair && passed > -kRepairNs &&
             passed < kRepairNs && fault.kind != FindingKind::kNotCaptured;
    });
  }

  static const char* NameOf(LostWhat what) {
    if (what == LostWhat::kNone) return "a request or an answer";
    return what == LostWhat::kRequest ? "a request" : "an answer";
  }

  std::string ClassOf(uint32_t host, const KnownFault& fault) const {
    const bool is_near =
        HasNeighbour(fault.dest_qpn.value() / 2, static_cast<int64_t>(fault.time.count()), &fault);
    return absl::StrCat("missed ", InfoOf(fault.kind).name, " of ", NameOf(fault.what),
                        host == fault.from ? " behind the point" : " before the point",
                        is_near ? ", beside another fault" : ", alone",
                        ipv6_ ? ", IPv6" : ", IPv4");
  }

  std::string ClassOf(uint32_t host, const Finding& finding) const {
    if (finding.connection == Finding::kNone) return "wrong, of no connection";
    const Connection& connection = *network_.analysis(host).connections()[finding.connection];
    const End& end = connection.ends[connection.ends[0].knows_qpn ? 0 : 1];
    const bool is_near = HasNeighbour(end.qpn.value() / 2, finding.time_ns, nullptr);
    return absl::StrCat("wrong ", InfoOf(finding.kind).name, " of ", NameOf(finding.what),
                        finding.may_be_late ? " that may be late" : "",
                        is_near ? ", beside a fault" : ", alone", ipv6_ ? ", IPv6" : ", IPv4");
  }

  /// A loss that may be lateness, as the finding says, tells of the late packet too.
  void TakeEither(uint32_t host, Score& score) {
    for (const Finding& finding : network_.analysis(host).log().Sorted()) {
      if (finding.kind == FindingKind::kLoss && finding.may_be_late && IsReliable(host, finding)) {
        score.as_either += Take(host, finding);
      }
    }
  }

  void Show(uint32_t host, const std::string& what, const KnownFault& fault) const {
    const uint32_t peer = fault.from == host ? fault.to : fault.from;
    ShowAt(host, what, peer, fault.dest_qpn, fault.time);
  }
  void Show(uint32_t host, const std::string& what, const Finding& finding) const {
    if (finding.connection == Finding::kNone) return ShowAt(host, what, host, Qpn(0), Nanos(0));
    const Connection& connection = *network_.analysis(host).connections()[finding.connection];
    for (uint32_t peer = 0; peer < kMostHosts; ++peer) {
      const bool is_end = std::ranges::any_of(connection.ends, [&](const End& end) {
        return end.address == sim::AddressOf(peer, ipv6_);
      });
      if (peer == host || !is_end) continue;
      const End& end = connection.ends[connection.ends[0].knows_qpn ? 0 : 1];
      ShowAt(host, what, peer, end.qpn, Nanos(static_cast<uint64_t>(finding.time_ns)));
    }
  }
  void ShowAt(uint32_t host, const std::string& what, uint32_t peer, Qpn qpn, Nanos time) const {
    const size_t around = sim::FromEnvironment("UROCE_SHOW", 0);
    std::printf("seed %lu, v%d host %u, %s\n%s", seed_, ipv6_ ? 6 : 4, host, what.c_str(),
                network_.Excerpt(host, peer, qpn, time, around).c_str());
    for (const Finding& finding : network_.analysis(host).log().Sorted()) {
      const auto passed = finding.time_ns - static_cast<int64_t>(time.count());
      if (finding.connection == Finding::kNone || passed < -200'000 || passed > 1'200'000) continue;
      const Connection& connection = *network_.analysis(host).connections()[finding.connection];
      const bool is_pair = std::ranges::any_of(connection.ends, [&](const End& end) {
        return end.knows_qpn && end.qpn.value() / 2 == qpn.value() / 2;
      });
      if (!is_pair) continue;
      std::printf("  %ld %s: %s\n", finding.time_ns, std::string(InfoOf(finding.kind).name).c_str(),
                  finding.text.c_str());
    }
  }

  /// Packets of unreliable connections are judged only by their ICRCs.
  bool IsReliable(uint32_t host, const Finding& finding) const {
    if (finding.kind == FindingKind::kIcrcError || finding.connection == Finding::kNone)
      return true;
    return network_.analysis(host).connections()[finding.connection]->is_reliable();
  }

  /// Marks the faults that a finding is about, and counts them: those of the frames that it names,
  /// then those of its PSNs, at first those that it can know of.
  uint64_t Take(uint32_t host, const Finding& finding) {
    uint64_t right = 0;
    const auto take = [&](auto&& is_wanted) {
      for (KnownFault& fault : network_.faults()) {
        if (right == finding.count) return;
        const bool is_late = finding.may_be_late && (fault.kind == FindingKind::kReordering ||
                                                     fault.kind == FindingKind::kNotCaptured);
        if ((fault.kind != finding.kind && !is_late) || fault.is_found) continue;
        if (fault.from != host && fault.to != host) continue;
        if (!is_wanted(fault) || !IsAbout(host, finding, fault)) continue;
        fault.is_found = true;
        ++right;
      }
    };
    take([&](const KnownFault& fault) {
      return fault.from == host && fault.sent_frame == finding.frames[0];
    });
    take([&](const KnownFault& fault) { return IsVisible(host, finding.kind, fault); });
    take([](const KnownFault&) { return true; });
    return right;
  }

  bool IsAbout(uint32_t host, const Finding& finding, const KnownFault& fault) const {
    using enum FindingKind;
    if (finding.kind == kIcrcError) return fault.frame == finding.frames[0] && fault.to == host;
    if (finding.kind == kDuplicate) return fault.frame == finding.frames[1] && fault.to == host;
    if (finding.connection == Finding::kNone) return false;
    const Connection& connection = *network_.analysis(host).connections()[finding.connection];
    const bool is_request = fault.what == LostWhat::kRequest;
    const uint8_t receiver = is_request ? 1 - finding.requester : finding.requester;
    const End& to = connection.ends[receiver];
    if (to.address != sim::AddressOf(fault.to, ipv6_)) return false;
    if (to.knows_qpn && to.qpn != fault.dest_qpn) return false;
    if (finding.what != LostWhat::kNone && finding.what != fault.what) return false;
    const int32_t offset = fault.psn.Since(wire::Psn(finding.psn));
    if (finding.kind == kReordering) {
      if (fault.to != host) return offset == 0;
      const bool is_near = offset > -64 && offset < 64;
      return finding.count == 1 ? fault.frame == finding.frames[0] : is_near;
    }
    return offset >= 0 &&
           offset < static_cast<int32_t>(std::max<uint64_t>(finding.count, finding.among));
  }

  KnownNetwork& network_;
  bool ipv6_;
  uint64_t seed_;
  bool shows_;
};

constexpr std::array kJudged = {FindingKind::kLoss, FindingKind::kReordering,
                                FindingKind::kDuplicate, FindingKind::kIcrcError};
using Scores = std::array<Score, kJudged.size()>;
/// With IPv4, whose identifications rise, and with IPv6, which has none.
using ScoresOfBoth = std::array<Scores, 2>;

void RunOnce(const sim::NetworkFaults& faults, uint64_t seed, ScoresOfBoth& both) {
  using Options = sim::SimulationOptions;
  uint32_t without = Options::kPause | Options::kDeath | Options::kIllegal | Options::kHostPauses |
                     Options::kFar | Options::kShrink | Options::kReset;
  if (seed % 2 != 0) without |= Options::kSelectiveRepeat;
  sim::Simulation simulation(
      {.seed = seed, .without = without, .faults = faults, .has_room = true});
  KnownNetwork network(kMostHosts, std::getenv("UROCE_SHOW") != nullptr);
  simulation.SetWitness(&network);
  ASSERT_EQ(simulation.Run(), "");
  network.Finish();
  Judge judge(network, simulation.is_ipv6(), seed);
  Scores& scores = both[simulation.is_ipv6() ? 1 : 0];
  for (uint32_t host = 0; host < kMostHosts; ++host) {
    for (size_t i = 0; i < kJudged.size(); ++i) judge.Compare(host, kJudged[i], scores[i]);
  }
}

/// `recall` and `precision` of all kinds together: no less, in parts of one.
struct Case {
  const char* name;
  sim::NetworkFaults faults;
  double recall = 0.99;
  double precision = 0.99;
};

class TruthTest : public testing::TestWithParam<Case> {};

void Print(const char* name, const std::string& what, const Score& score) {
  if (score.there + score.claimed == 0) return;
  std::printf("%s, %s: %lu there, %lu found (%.4f); %lu claimed, %lu right (%.4f); %lu either\n",
              name, what.c_str(), score.there, score.found, score.recall(), score.claimed,
              score.right, score.precision(), score.as_either);
}

TEST_P(TruthTest, FindingsAreThoseOfTheNetwork) {
  const uint64_t count = sim::FromEnvironment("UROCE_SIM_COUNT", 20);
  const uint64_t first = sim::FromEnvironment("UROCE_SIM_SEED", 1);
  ScoresOfBoth scores;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    RunOnce(GetParam().faults, seed, scores);
  }
  std::array<Score, 2> of_version;
  Score all;
  for (size_t i = 0; i < kJudged.size(); ++i) {
    Score score = scores[0][i];
    score.Add(scores[1][i]);
    all.Add(score);
    for (size_t version = 0; version < 2; ++version) of_version[version].Add(scores[version][i]);
    Print(GetParam().name, std::string(InfoOf(kJudged[i]).name), score);
  }
  Print(GetParam().name, "all of IPv4", of_version[0]);
  Print(GetParam().name, "all of IPv6", of_version[1]);
  for (const auto& [name, packets] : all.classes) {
    std::printf("%s, %s: %lu\n", GetParam().name, name.c_str(), packets);
  }
  EXPECT_GE(all.recall(), GetParam().recall);
  EXPECT_GE(all.precision(), GetParam().precision);
}

constexpr uint32_t kOf = 10'000;
constexpr uint32_t kMostDelayNs = 3'000;
INSTANTIATE_TEST_SUITE_P(
    Kinds, TruthTest,
    testing::Values(
        Case{"loss_of_1_in_10000", {.of = kOf, .drop = 1}},
        Case{"loss_of_10_in_10000", {.of = kOf, .drop = 10}},
        Case{"loss_of_50_in_10000", {.of = kOf, .drop = 50}},
        Case{"loss_of_200_in_10000", {.of = kOf, .drop = 200}},
        Case{"damage_of_1_in_10000", {.of = kOf, .corrupt = 1}},
        Case{"damage_of_10_in_10000", {.of = kOf, .corrupt = 10}},
        Case{"damage_of_50_in_10000", {.of = kOf, .corrupt = 50}},
        Case{"damage_of_200_in_10000", {.of = kOf, .corrupt = 200}},
        Case{"copies_of_1_in_10000", {.of = kOf, .duplicate = 1}},
        Case{"copies_of_10_in_10000", {.of = kOf, .duplicate = 10}},
        Case{"copies_of_50_in_10000", {.of = kOf, .duplicate = 50}},
        Case{"copies_of_200_in_10000", {.of = kOf, .duplicate = 200}},
        Case{"late_1_in_10000", {.of = kOf, .delay = 1, .most_delay_ns = kMostDelayNs}},
        Case{"late_10_in_10000", {.of = kOf, .delay = 10, .most_delay_ns = kMostDelayNs}},
        Case{"late_50_in_10000", {.of = kOf, .delay = 50, .most_delay_ns = kMostDelayNs}},
        Case{"late_200_in_10000", {.of = kOf, .delay = 200, .most_delay_ns = kMostDelayNs}}),
    [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace uroce::tools::analyze
