// SPDX-License-Identifier: Apache-2.0
// What the profiles of congestion control make of simulated networks: tables for
// pipeline/congestion/profiles.md. Virtual time: the numbers do not depend on the machine.
// usage: network_bench [OPTION...] [PROFILE[,PARAMETER=VALUE]...]...
//   --mixed, --attacks, --published   tables of these (scenario_tables.h), and nothing else
//   --fct             flow completion times of web search in a fat tree, and nothing else
//   --csv=FILE        their numbers, too
//   --pods=2          of 64 NICs        --rate=25     Gb/s of a NIC     --pfc=1
//   --load=50         percent           --mtu=4096    bytes             --ms=20   of flows measured
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "tests/bench/networks/completion_table.h"
#include "tests/bench/networks/scenario_tables.h"
#include "tests/networks/scenarios.h"

namespace uroce::networks {
namespace {

void IncastTable(const std::vector<Candidate>& candidates) {
  std::printf("| senders | network | profile | Jain | use | lost | queue, 99 %% | failed | s |\n");
  std::printf("|---|---|---|---|---|---|---|---|---|\n");
  for (const Kind kind : {Kind::kMarked, Kind::kUnmarked, Kind::kLossless}) {
    for (const auto& [name, settings] : candidates) {
      for (const uint32_t senders : {1u, 2u, 4u, 8u, 16u, 64u}) {
        const auto began = std::chrono::steady_clock::now();
        const Shares shares = RunIncast(Star(kind, senders + 1, settings), {.senders = senders});
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
        std::printf("| %u | %s | %s | %.3f | %.3f | %.3f %% | %llu KB | %llu | %.1f |\n", senders,
                    NameOf(kind).data(), name.c_str(), shares.jain, shares.use, shares.lost * 100,
                    static_cast<unsigned long long>(shares.queue_99 / 1000),
                    static_cast<unsigned long long>(shares.failed), took.count());
        std::fflush(stdout);
      }
    }
  }
}

void LatencyTable(const std::vector<Candidate>& candidates) {
  std::printf("\n| message | network | profile | alone p50, p99 | beside 8 long flows |\n");
  std::printf("|---|---|---|---|---|\n");
  for (const Kind kind : {Kind::kMarked, Kind::kUnmarked, Kind::kLossless}) {
    for (const auto& [name, settings] : candidates) {
      for (const uint32_t bytes : {64u, 4096u}) {
        const NetworkConfig config = Star(kind, 10, settings);
        const Latencies alone = RunBeside(config, 0, bytes);
        const Latencies beside = RunBeside(config, 8, bytes);
        std::printf("| %u | %s | %s | %.1f, %.1f us | %.1f, %.1f us (%.1f x, %llu) |\n", bytes,
                    NameOf(kind).data(), name.c_str(), alone.p50_us, alone.p99_us, beside.p50_us,
                    beside.p99_us, beside.p99_us / alone.p99_us,
                    static_cast<unsigned long long>(beside.messages));
        std::fflush(stdout);
      }
    }
  }
}

void OtherTables(const std::vector<Candidate>& candidates) {
  std::printf(
      "\n| scenario | network | profile | Jain | use | lost |\n|---|---|---|---|---|---|\n");
  for (const Kind kind : {Kind::kMarked, Kind::kUnmarked, Kind::kLossless}) {
    for (const auto& [name, settings] : candidates) {
      const auto print = [&](const char* scenario, const Shares& shares) {
        std::printf("| %s | %s | %s | %.3f | %.3f | %.3f %% |\n", scenario, NameOf(kind).data(),
                    name.c_str(), shares.jain, shares.use, shares.lost * 100);
        std::fflush(stdout);
      };
      print("parking lot, 3 hops", RunParkingLot(Star(kind, 1, settings), 3));
      uint32_t stage = 0;
      for (const Shares& each : RunComingAndGoing(Star(kind, 5, settings), 4, Nanos(20'000'000))) {
        print(("come and go, stage " + std::to_string(++stage)).c_str(), each);
      }
      print("8 readers", RunIncast(Star(kind, 9, settings), {.senders = 8, .reads = true}));
      for (const uint32_t senders : {8u, 64u}) {
        NetworkConfig slow_turns = Star(kind, senders + 1, settings);
        slow_turns.turn = Nanos(20'000);
        const std::string scenario = std::to_string(senders) + " senders, turns of 20 us";
        print(scenario.c_str(), RunIncast(slow_turns, {.senders = senders}));
      }
      for (const auto& [runs, waits] : {std::pair{3'000, 3'000}, {100, 300}, {3'000, 18'000}}) {
        for (const uint32_t senders : {1u, 8u}) {
          NetworkConfig busy = Star(kind, senders + 1, settings);
          busy.cpu = {.runs = Nanos(runs * 1'000), .waits = Nanos(waits * 1'000)};
          const std::string scenario = std::to_string(senders) + " senders, CPUs run " +
                                       std::to_string(runs) + " us, wait " + std::to_string(waits);
          print(scenario.c_str(), RunIncast(busy, {.senders = senders,
                                                   .warm = Nanos(200'000'000),
                                                   .measured = Nanos(400'000'000)}));
        }
      }
    }
  }
}

}  // namespace
}  // namespace uroce::networks

namespace {

/// The settings that "delay,ai=500" stands for; nothing if it stands for none.
std::optional<uroce::congestion::Settings> SettingsOf(const std::string& text) {
  std::vector<std::string> words = absl::StrSplit(text, ',');
  uroce::congestion::Profile profile;
  if (!uroce::congestion::ParseProfile(words[0], profile)) return std::nullopt;
  uroce::congestion::Settings settings = uroce::congestion::DefaultsOf(profile);
  for (size_t i = 1; i < words.size(); ++i) {
    const std::pair<std::string, std::string> pair =
        absl::StrSplit(words[i], absl::MaxSplits('=', 1));
    const uroce::congestion::Parameter* const parameter =
        uroce::congestion::FindParameter(pair.first);
    uint32_t value = 0;
    if (parameter == nullptr || !absl::SimpleAtoi(pair.second, &value)) return std::nullopt;
    parameter->of(settings) = value;
  }
  return settings;
}

/// Options that choose what is printed.
const std::set<std::string> kTables = {"mixed", "attacks", "published", "fct"};

using Options = std::map<std::string, std::string>;

/// Takes "--name=value" out of `words`.
Options TakeOptions(std::vector<std::string>& words) {
  Options options;
  std::erase_if(words, [&](const std::string& word) {
    if (!word.starts_with("--")) return false;
    options.insert(std::pair<std::string, std::string>(
        absl::StrSplit(word.substr(2), absl::MaxSplits('=', 1))));
    return true;
  });
  return options;
}

/// Nothing when an option has no number, or is none.
std::optional<uroce::networks::CompletionOptions> CompletionOptionsOf(const Options& options) {
  std::map<std::string, uint32_t> numbers = {{"pods", 2},   {"rate", 25}, {"load", 50},
                                             {"mtu", 4096}, {"ms", 20},   {"pfc", 1}};
  uroce::networks::CompletionOptions result;
  for (const auto& [name, value] : options) {
    if (kTables.contains(name)) continue;
    if (name == "csv") {
      result.csv = value;
    } else if (!numbers.contains(name) || !absl::SimpleAtoi(value, &numbers[name])) {
      std::fprintf(stderr, "network_bench: --%s=%s\n", name.c_str(), value.c_str());
      return std::nullopt;
    }
  }
  result.tree.pods = numbers["pods"];
  result.tree.rate_bps = numbers["rate"] * uint64_t{1'000'000'000};
  result.tree.pfc = numbers["pfc"] != 0;
  result.load.part = numbers["load"] / 100.0;
  result.load.measured = uroce::Nanos(numbers["ms"] * int64_t{1'000'000});
  result.mtu_bytes = numbers["mtu"];
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> names(argv + 1, argv + argc);
  const Options options = TakeOptions(names);
  const auto completion = CompletionOptionsOf(options);
  if (!completion) return 2;
  if (names.empty()) names = {"off", "dcqcn", "dcqcn-mlx", "delay"};
  std::vector<uroce::networks::Candidate> candidates;
  for (const std::string& name : names) {
    const auto settings = SettingsOf(name);
    if (!settings) {
      std::fprintf(stderr, "network_bench: no profile '%s'\n", name.c_str());
      return 2;
    }
    candidates.push_back({name, *settings});
  }
  if (options.contains("mixed")) uroce::networks::MixedTable(candidates);
  if (options.contains("attacks")) uroce::networks::AttackTable(candidates);
  if (options.contains("published")) uroce::networks::PublishedTable(candidates);
  if (options.contains("fct")) {
    return uroce::networks::CompletionTable(candidates, *completion) ? 0 : 1;
  }
  const bool chooses = std::ranges::any_of(
      kTables, [&](const std::string& table) { return options.contains(table); });
  if (chooses) return 0;
  uroce::networks::IncastTable(candidates);
  uroce::networks::LatencyTable(candidates);
  uroce::networks::OtherTables(candidates);
  return 0;
}
