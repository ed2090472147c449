// SPDX-License-Identifier: Apache-2.0
#include "tools/sim/scenario/workload.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <numeric>
#include <optional>
#include <span>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "tools/sim/scenario/flow_sizes.h"
#include "tools/sim/scenario/topology.h"

namespace uroce::tools::sim {
namespace {

constexpr uint64_t kMostBytes = 1'000'000'000'000;
constexpr uint32_t kMostFlows = 10'000'000;
constexpr uint64_t kSeedOfWorkloads = 0x9e3779b97f4a7c15;

/// The keys that all kinds of workloads have.
struct Common {
  FlowPlan flow;
  bool is_endless = false;
  std::span<const FlowSize> sizes;  ///< Of a distribution; empty: all flows have flow.bytes.

  uint64_t SizeFor(Random& random) const {
    if (sizes.empty()) return flow.bytes;
    return std::max<uint64_t>(1, static_cast<uint64_t>(SizeAt(sizes, random.Uniform())));
  }
  double MeanBytes() const {
    return sizes.empty() ? static_cast<double>(flow.bytes) : MeanSize(sizes);
  }
};

class Reader {
 public:
  Reader(Section& section, uint32_t number, const std::string& folder, RunPlan& plan)
      : section_(section),
        folder_(folder),
        plan_(plan),
        group_(static_cast<uint32_t>(plan.groups.size())),
        random_(plan.seed * kSeedOfWorkloads + number) {}

  void Read() {
    using Maker = void (Reader::*)();
    static const std::vector<std::pair<std::string, Maker>> kMakers = {
        {"flow", &Reader::MakeFlow},
        {"incast", &Reader::MakeIncast},
        {"permutation", &Reader::MakePermutation},
        {"all-to-all", &Reader::MakeAllToAll},
        {"all-reduce", &Reader::MakeAllReduce},
        {"poisson", &Reader::MakePoisson},
        {"trace", &Reader::MakeTrace}};
    std::vector<std::string> names;
    for (const auto& [name, maker] : kMakers) names.push_back(name);
    if (!section_.Has("kind")) {
      return section_.Fail("kind",
                           "is missing: one of flow, incast, permutation, all-to-all, "
                           "all-reduce, poisson, trace");
    }
    const uint32_t kind = section_.Choice("kind", names);
    plan_.groups.push_back(section_.Text("name", names[kind]));
    ReadCommon(names[kind]);
    (this->*kMakers[kind].second)();
    section_.Finish();
  }

 private:
  void ReadCommon(const std::string& kind) {
    FlowPlan& flow = common_.flow;
    flow.group = group_;
    flow.operation =
        static_cast<Operation>(section_.Choice("operation", {"write", "read", "send"}));
    flow.start = section_.Time("start", Nanos(0));
    if (section_.Has("stop")) flow.stop = section_.Time("stop", Nanos(0));
    flow.bytes = section_.Amount("bytes", 0, 1, kMostBytes);
    if (section_.Has("sizes")) {
      common_.sizes = FlowSizesOf(section_.Text("sizes"));
      if (common_.sizes.empty()) section_.Fail("sizes", "is none of websearch, hadoop, storage");
    }
    const bool may_be_endless = kind == "flow" || kind == "incast" || kind == "permutation";
    common_.is_endless = flow.bytes == 0 && common_.sizes.empty();
    if (common_.is_endless && !may_be_endless && kind != "trace") {
      section_.Fail("bytes", "is missing, or sizes");
      flow.bytes = 1;
    }
    const uint32_t usual = common_.is_endless ? 65'536 : 1u << 30;
    flow.message_bytes = section_.Count("message", usual, 1, 1u << 31);
    flow.depth = section_.Count("depth", common_.is_endless ? 16 : 1, 1, 4'096);
    spread_ = section_.Time("spread", Nanos(0));
  }

  /// A flow of this workload, whose index is returned.
  uint32_t Add(uint32_t from, uint32_t to, Nanos start, uint64_t bytes) {
    if (from == to) section_.Fail("", "a host sends to itself");
    if (plan_.flows.size() == kMostFlows) {
      section_.Fail("", absl::StrCat("more than ", kMostFlows, " flows"));
    }
    if (plan_.flows.size() >= kMostFlows) return 0;
    FlowPlan flow = common_.flow;
    flow.from = from;
    flow.to = to;
    flow.bytes = bytes;
    flow.start = start;
    plan_.flows.push_back(std::move(flow));
    return static_cast<uint32_t>(plan_.flows.size() - 1);
  }
  /// The same, that starts within `spread` of the workload's start.
  uint32_t AddSpread(uint32_t from, uint32_t to) {
    const auto room = static_cast<uint64_t>(spread_.count()) + 1;
    const Nanos later(spread_ == Nanos(0) ? 0 : static_cast<int64_t>(random_.Below(room)));
    return Add(from, to, common_.flow.start + later,
               common_.is_endless ? 0 : common_.SizeFor(random_));
  }
  void Chain(uint32_t first, uint32_t then) {
    plan_.flows[first].then.push_back(then);
    ++plan_.flows[then].waits_for;
    plan_.flows[then].start = Nanos(0);
  }

  std::vector<uint32_t> Hosts() {
    if (section_.Has("hosts")) return HostsOf(plan_.network, section_, "hosts");
    std::vector<uint32_t> all(plan_.network.hosts.size());
    std::iota(all.begin(), all.end(), 0);
    return all;
  }

  void MakeFlow() {
    const uint32_t from = HostOf(plan_.network, section_, "from");
    const uint32_t to = HostOf(plan_.network, section_, "to");
    const uint32_t count = section_.Count("count", 1, 1, 65'536);
    for (uint32_t i = 0; i < count; ++i) AddSpread(from, to);
  }

  /// `senders` hosts behind `to`, or those of `from`; `rounds`: each waits for the one before.
  void MakeIncast() {
    const uint32_t to = section_.Has("to") ? HostOf(plan_.network, section_, "to") : 0;
    std::vector<uint32_t> from = HostsOf(plan_.network, section_, "from");
    const auto hosts = static_cast<uint32_t>(plan_.network.hosts.size());
    const uint32_t senders = section_.Count("senders", hosts - 1, 1, hosts - 1);
    if (from.empty()) {
      for (uint32_t i = 1; i <= senders; ++i) from.push_back((to + i) % hosts);
    }
    const uint32_t rounds = section_.Count("rounds", 1, 1, 10'000);
    const Nanos pause = section_.Time("pause", Nanos(0));
    std::vector<uint32_t> before;
    for (uint32_t round = 0; round < rounds; ++round) {
      std::vector<uint32_t> now;
      for (const uint32_t sender : from) now.push_back(AddSpread(sender, to));
      for (const uint32_t first : before) {
        for (const uint32_t then : now) Chain(first, then);
      }
      for (const uint32_t flow : before.empty() ? std::vector<uint32_t>() : now) {
        plan_.flows[flow].start = pause;
      }
      before = std::move(now);
    }
  }

  /// Each host sends to one other and receives from one other. `shift`: to the host so many
  /// further; otherwise by the seed.
  void MakePermutation() {
    const std::vector<uint32_t> hosts = Hosts();
    const auto count = static_cast<uint32_t>(hosts.size());
    if (count < 2) return section_.Fail("hosts", "must be two at least");
    if (section_.Has("shift")) {
      const uint32_t shift = section_.Count("shift", 1, 1, count - 1);
      for (uint32_t i = 0; i < count; ++i) AddSpread(hosts[i], hosts[(i + shift) % count]);
      return;
    }
    // One circle through all hosts in random order (Sattolo): no host sends to itself.
    std::vector<uint32_t> targets = hosts;
    for (uint32_t i = count - 1; i > 0; --i) std::swap(targets[i], targets[random_.Below(i)]);
    for (uint32_t i = 0; i < count; ++i) AddSpread(hosts[i], targets[i]);
  }

  /// Each host sends to each other one: in round r to the host r further. A host's next flow begins
  /// when `parallel` of its flows fewer are under way.
  void MakeAllToAll() {
    const std::vector<uint32_t> hosts = Hosts();
    const auto count = static_cast<uint32_t>(hosts.size());
    const uint32_t parallel = section_.Count("parallel", 1, 1, 65'536);
    std::vector<std::vector<uint32_t>> flows(count);
    for (uint32_t round = 1; round < count; ++round) {
      for (uint32_t i = 0; i < count; ++i) {
        flows[i].push_back(AddSpread(hosts[i], hosts[(i + round) % count]));
        if (flows[i].size() > parallel) {
          Chain(flows[i][flows[i].size() - 1 - parallel], flows[i].back());
        }
      }
    }
  }

  /// The ring algorithm: in 2 (n - 1) steps each host sends a part of `bytes` / n to the next one,
  /// once the part before it has come, and its own part before has left.
  void MakeAllReduce() {
    const std::vector<uint32_t> hosts = Hosts();
    const auto count = static_cast<uint32_t>(hosts.size());
    if (count < 2) return section_.Fail("hosts", "must be two at least");
    const uint64_t part = std::max<uint64_t>(1, common_.flow.bytes / count);
    std::vector<uint32_t> before;
    for (uint32_t step = 0; step < 2 * (count - 1); ++step) {
      std::vector<uint32_t> now;
      for (uint32_t i = 0; i < count; ++i) {
        now.push_back(Add(hosts[i], hosts[(i + 1) % count], common_.flow.start, part));
        if (before.empty()) continue;
        Chain(before[i], now.back());
        Chain(before[(i + count - 1) % count], now.back());
      }
      before = std::move(now);
    }
  }

  /// Flows between random hosts that come independently of each other, at `load` of the hosts'
  /// lines, until `stop` or `flows` have come.
  void MakePoisson() {
    const std::vector<uint32_t> hosts = Hosts();
    if (hosts.size() < 2) return section_.Fail("hosts", "must be two at least");
    const uint64_t most = section_.Amount("flows", kMostFlows, 1, kMostFlows);
    double bits = 0;
    for (const uint32_t host : hosts) {
      bits += static_cast<double>(plan_.network.hosts[host].link.rate_bps);
    }
    const bool has_load = section_.Has("load");
    const double load = section_.Number("load", 0.5, 1e-6, 2);
    Nanos end = common_.flow.stop == kNever ? plan_.duration : common_.flow.stop;
    double interval = common_.MeanBytes() * 8e9 / (bits * load);
    if (!has_load && section_.Has("flows")) {
      interval =
          static_cast<double>((end - common_.flow.start).count()) / static_cast<double>(most);
      end = kNever;
    }
    common_.flow.stop = kNever;
    double at = static_cast<double>(common_.flow.start.count());
    for (uint64_t made = 0; made < most; ++made) {
      at += random_.Exponential() * interval;
      const Nanos start(static_cast<int64_t>(at));
      if (start >= end || !section_.errors().status().ok()) return;
      const auto from = static_cast<uint32_t>(random_.Below(hosts.size()));
      const auto to =
          static_cast<uint32_t>((from + 1 + random_.Below(hosts.size() - 1)) % hosts.size());
      Add(hosts[from], hosts[to], start, common_.SizeFor(random_));
    }
  }

  /// A CSV file: start in us, from, to, bytes; a first line without numbers is a head.
  void MakeTrace() {
    const std::string name = section_.Text("file");
    const std::string path = name.empty() || name.front() == '/' ? name : folder_ + name;
    std::ifstream file(path);
    if (!file) return section_.Fail("file", absl::StrCat(path, " cannot be read"));
    std::string line;
    for (uint32_t number = 1; std::getline(file, line); ++number) {
      if (line.empty() || line.front() == '#' || TakeLine(line)) continue;
      if (number == 1) continue;
      return section_.Fail(
          "file", absl::StrCat(path, ":", number, ": must be start in us, from, to, bytes"));
    }
  }

  bool TakeLine(const std::string& line) {
    const std::vector<std::string> parts = absl::StrSplit(line, ',');
    double micros = 0;
    uint64_t bytes = 0;
    if (parts.size() != 4 || !absl::SimpleAtod(parts[0], &micros) || micros < 0 ||
        !absl::SimpleAtoi(parts[3], &bytes) || bytes == 0 || bytes > kMostBytes) {
      return false;
    }
    std::vector<uint32_t> ends;
    for (const std::string& end : {parts[1], parts[2]}) {
      const auto host = FindHost(plan_.network, end);
      if (!host) return false;
      ends.push_back(*host);
    }
    Add(ends[0], ends[1], common_.flow.start + Nanos(std::llround(micros * 1e3)), bytes);
    return true;
  }

  Section& section_;
  const std::string& folder_;
  RunPlan& plan_;
  const uint32_t group_;
  Random random_;
  Common common_;
  Nanos spread_{0};
};

// ---- events ----

constexpr Nanos kMostTime{3'600'000'000'000};

void ReadPacketEvent(Section& section, bool is_lost, RunPlan& plan) {
  const std::string name = section.Text("workload", plan.groups.empty() ? "" : plan.groups[0]);
  const uint32_t wanted = section.Count("flow", 0, 0, kMostFlows);
  const uint64_t packet = section.Amount("packet", 1, 1, kMostBytes);
  const uint64_t count = section.Amount("count", 1, 1, 1'000'000);
  uint32_t seen = 0;
  for (uint32_t flow = 0; flow < plan.flows.size(); ++flow) {
    if (plan.groups[plan.flows[flow].group] != name || seen++ != wanted) continue;
    for (uint64_t i = 0; i < count; ++i) {
      plan.packet_events.push_back({.flow = flow, .packet = packet + i, .is_lost = is_lost});
    }
    return;
  }
  section.Fail("flow", absl::StrCat("the workload \"", name, "\" has ", seen, " flows"));
}

void ReadNetworkEvent(Section& section, uint32_t action, RunPlan& plan) {
  using Kind = NetworkEvent::Kind;
  const bool is_link = action < 2;
  const uint32_t number =
      is_link ? CableOf(plan.network, section, "link") : HostOf(plan.network, section, "host");
  const Nanos at = section.Time("at", Nanos(0), kMostTime);
  const Kind kinds[] = {Kind::kLinkDown, Kind::kLinkUp, Kind::kHostPauses, Kind::kHostResumes};
  plan.network_events.push_back({.at = at, .kind = kinds[action], .number = number});
  if (!section.Has("until") || action % 2 != 0) return;
  const Nanos until = section.Time("until", at, kMostTime);
  if (until <= at) section.Fail("until", "must be later than at");
  plan.network_events.push_back({.at = until, .kind = kinds[action + 1], .number = number});
}

}  // namespace

void ReadWorkloads(Section& scenario, const std::string& folder, RunPlan& plan) {
  uint32_t number = 0;
  for (Section& each : scenario.Tables("workload")) Reader(each, number++, folder, plan).Read();
  if (plan.flows.empty()) scenario.Fail("workload", "there is no flow: write [[workload]]");
}

void ReadEvents(Section& scenario, RunPlan& plan) {
  for (Section& each : scenario.Tables("event")) {
    const std::vector<std::string> actions = {"link-down",   "link-up", "host-pause",
                                              "host-resume", "drop",    "mark"};
    const uint32_t action = each.Choice("action", actions);
    if (!each.Has("action")) each.Fail("action", "is missing");
    action < 4 ? ReadNetworkEvent(each, action, plan) : ReadPacketEvent(each, action == 4, plan);
    each.Finish();
  }
  std::ranges::stable_sort(plan.network_events, {}, &NetworkEvent::at);
}

}  // namespace uroce::tools::sim
