// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/networks/scenario_tables.h"

#include <cstdio>
#include <string>
#include <utility>

#include "tests/networks/attacks.h"
#include "tests/networks/mixed_traffic.h"
#include "tests/networks/published.h"

namespace uroce::networks {
namespace {

using congestion::DefaultsOf;
using congestion::Profile;

unsigned long long Kilobytes(uint64_t bytes) { return bytes / 1000; }

/// Peers as rdma_rxe: they answer no mark, obey no CNP, and go back to a lost packet.
NetworkConfig BesidePlainPeers(Kind kind, const congestion::Settings& settings, bool reads) {
  constexpr uint32_t kSenders = 8;
  NetworkConfig config = Star(kind, kSenders + 1, settings);
  const congestion::Settings off = DefaultsOf(Profile::kOff);
  if (reads) {
    for (uint32_t i = 1; i <= kSenders; ++i) config.settings_of[i] = off;
  } else {
    config.settings_of[0] = off;
  }
  config.selective = false;
  config.traffic_class = 2;
  return config;
}

void PrintShares(const std::string& scenario, Kind kind, const std::string& name,
                 const Shares& shares, const std::string& more) {
  std::printf("| %s | %s | %s | %.3f | %.3f | %.3f %% | %s |\n", scenario.c_str(),
              NameOf(kind).data(), name.c_str(), shares.jain, shares.use, shares.lost * 100,
              more.c_str());
  std::fflush(stdout);
}

std::string Text(const char* format, auto... values) {
  char text[200];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

}  // namespace

void MixedTable(const std::vector<Candidate>& candidates) {
  std::printf(
      "| scenario | network | profile | Jain | use | lost | |\n|---|---|---|---|---|---|---|\n");
  for (const Kind kind : {Kind::kMarked, Kind::kUnmarked, Kind::kLossless}) {
    for (const auto& [name, settings] : candidates) {
      const UnresponsiveShares unresponsive = RunUnresponsive(kind, settings, {});
      PrintShares("4 beside an unresponsive one of 10 Gb/s", kind, name, unresponsive.responsive,
                  Text("the 4: %.3f of the line", unresponsive.responsive_use));
      const BurstResult bursts = RunBursts(kind, settings, {});
      PrintShares(
          "4 beside bursts of 8 x 8 x 4 KB each ms", kind, name, bursts.others,
          Text("bursts p50 %.0f, p99 %.0f us", bursts.messages.p50_us, bursts.messages.p99_us));
      for (const bool reads : {false, true}) {
        const NetworkConfig config = BesidePlainPeers(kind, settings, reads);
        PrintShares(reads ? "8 READs of peers without RP" : "8 to a peer without NP", kind, name,
                    RunIncast(config, {.senders = 8, .reads = reads}), "");
      }
      const VictimShares victim = RunVictim(Star(kind, 1, settings), 8);
      PrintShares("8 and a victim", kind, name, victim.incast,
                  Text("victim %.3f, %llu pauses", victim.victim,
                       static_cast<unsigned long long>(victim.pauses)));
    }
  }
}

void AttackTable(const std::vector<Candidate>& candidates) {
  std::printf("\n| attack | profile | attacked | same NIC | elsewhere | CNPs handled, ignored |\n");
  std::printf("|---|---|---|---|---|---|\n");
  for (const auto& [name, settings] : candidates) {
    for (const auto& [attack, text] :
         {std::pair{Attack::kNone, "none"}, std::pair{Attack::kMarks, "CE on all packets"},
          std::pair{Attack::kForgedCnps, "CNPs of the peer, forged"},
          std::pair{Attack::kAttackerCnps, "CNPs of another host"}}) {
      const AttackShares shares = RunAttack(settings, attack);
      std::printf("| %s | %s | %.4f | %.3f | %.3f | %llu, %llu |\n", text, name.c_str(),
                  shares.attacked, shares.same_nic, shares.elsewhere,
                  static_cast<unsigned long long>(shares.cnps_handled),
                  static_cast<unsigned long long>(shares.cnps_ignored));
      std::fflush(stdout);
    }
  }
}

void PublishedTable(const std::vector<Candidate>& candidates) {
  std::printf(
      "\n| set | senders | Jain | use | lost | queue, 99 %% |\n|---|---|---|---|---|---|\n");
  const auto incasts = [](const std::string& name, const auto& star) {
    for (const uint32_t senders : {2u, 4u, 8u, 16u}) {
      const Shares shares = RunIncast(star(senders + 1), {.senders = senders});
      std::printf("| %s | %u | %.3f | %.3f | %.3f %% | %llu KB |\n", name.c_str(), senders,
                  shares.jain, shares.use, shares.lost * 100, Kilobytes(shares.queue_99));
      std::fflush(stdout);
    }
  };
  const auto off = DefaultsOf(Profile::kOff);
  incasts("40 Gb/s, PFC alone", [&](uint32_t nics) { return PaperStarWithoutMarks(nics, off); });
  for (const auto& [name, settings] : candidates) {
    incasts("DCQCN paper, " + name, [&](uint32_t nics) { return PaperStar(nics, settings); });
  }
  incasts("DCQCN paper, deployed", [](uint32_t nics) { return PaperStar(nics, PaperSettings()); });
  incasts("DCQCN paper, first parameters", PaperFirstStar);
  for (const uint32_t gigabits : {25u, 100u}) {
    incasts(Text("HPCC simulator, %u Gb/s", gigabits),
            [&](uint32_t nics) { return HpccStar(nics, gigabits, HpccSettings(gigabits)); });
  }
  std::printf("\n| set | a second flow comes: unfair for | Jain then |\n|---|---|---|\n");
  const auto converges = [](const std::string& name, const NetworkConfig& config) {
    const Convergence result = RunConvergence(config, Nanos(10'000'000), Nanos(200'000'000));
    std::printf("| %s | %.0f ms | %.3f |\n", name.c_str(),
                static_cast<double>(result.until.count()) / 1e6, result.jain);
    std::fflush(stdout);
  };
  for (const auto& [name, settings] : candidates) {
    converges("DCQCN paper, " + name, PaperStar(3, settings));
  }
  converges("DCQCN paper, deployed", PaperStar(3, PaperSettings()));
  converges("DCQCN paper, first parameters", PaperFirstStar(3));
  converges("HPCC simulator, 25 Gb/s", HpccStar(3, 25, HpccSettings(25)));
}

}  // namespace uroce::networks
