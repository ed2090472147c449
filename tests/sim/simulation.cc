// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/simulation.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <tuple>
#include <utility>

#include "pipeline/wire/icrc.h"
#include "tests/sim/environment.h"

namespace uroce::sim {
namespace {

// No good run comes near these limits.
constexpr Nanos kLongestRun{60'000'000'000};
constexpr uint64_t kMostPackets = 300'000;
constexpr uint32_t kDataBytes = 120'000;
constexpr uint32_t kMostConnections = 8;
/// The parts of a run draw from their own seeds, so that leaving one out does not change the
/// others.
enum Draw : uint64_t { kConditions = 1, kNetwork, kRest, kHosts, kConnections = 100 };

Random DrawFor(uint64_t seed, uint64_t part) { return Random(Random(seed * 1000 + part).Next()); }

}  // namespace

std::string SimulationOptions::ToString() const {
  std::string text = "seed=" + std::to_string(seed);
  if (connection != kAll) text += ",connection=" + std::to_string(connection);
  if (works != kAll) text += ",works=" + std::to_string(works);
  if (without != 0) text += ",without=" + std::to_string(without);
  return text;
}

SimulationOptions SimulationOptions::FromString(const std::string& text) {
  SimulationOptions options;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const size_t equals = std::min(text.find('=', begin), end);
    const std::string name = text.substr(begin, equals - begin);
    const char* const digits = text.c_str() + std::min(equals + 1, end);
    const uint64_t value = std::strtoull(digits, nullptr, 0);
    if (name == "seed") {
      options.seed = value;
    } else if (name == "connection") {
      options.connection = static_cast<uint32_t>(value);
    } else if (name == "works") {
      options.works = static_cast<uint32_t>(value);
    } else if (name == "without") {
      options.without = static_cast<uint32_t>(value);
    } else {
      std::fprintf(stderr, "simulation: '%s' in '%s' is none of seed, connection, works, without\n",
                   name.c_str(), text.c_str());
      std::exit(2);
    }
    begin = end + 1;
  }
  return options;
}

Simulation::Conditions::Conditions(const SimulationOptions& options, Random random)
    : faults{.drop = random.OneOf<uint32_t>({0, 0, 5, 20, 50}),
             .duplicate = random.OneOf<uint32_t>({0, 0, 10, 50}),
             .delay = random.OneOf<uint32_t>({0, 0, 20, 100}),
             .corrupt = random.OneOf<uint32_t>({0, 0, 5}),
             .pause = random.OneOf<uint32_t>({0, 0, 1})},
      hosts(2 + random.Below(4)),
      ipv6(random.Happens(500)),
      death(random.Happens(100)),
      dying_host(random.Below(hosts)),
      time_of_death(random.Below(3'000'000)),
      host_pauses(random.OneOf<uint32_t>({0, 0, 2})) {
  faults.far = random.OneOf<uint32_t>({0, 0, 5});
  faults.shrink = random.OneOf<uint32_t>({0, 0, 1});
  const auto leave_out = [&](uint32_t part, uint32_t& chance) {
    if ((options.without & part) != 0) chance = 0;
  };
  leave_out(SimulationOptions::kDrop, faults.drop);
  leave_out(SimulationOptions::kDuplicate, faults.duplicate);
  leave_out(SimulationOptions::kDelay, faults.delay);
  leave_out(SimulationOptions::kCorrupt, faults.corrupt);
  leave_out(SimulationOptions::kPause, faults.pause);
  leave_out(SimulationOptions::kHostPauses, host_pauses);
  leave_out(SimulationOptions::kFar, faults.far);
  leave_out(SimulationOptions::kShrink, faults.shrink);
  if ((options.without & SimulationOptions::kDeath) != 0) death = false;
  if (options.faults) faults = *options.faults;
}

Simulation::Simulation(const SimulationOptions& options)
    : options_(options),
      conditions_(options, DrawFor(options.seed, kConditions)),
      network_(conditions_.faults, conditions_.hosts, DrawFor(options.seed, kNetwork).Next()),
      pauses_(conditions_.host_pauses, conditions_.hosts, DrawFor(options.seed, kHosts).Next()) {
  Random random = DrawFor(options.seed, kRest);
  for (uint32_t host = 0; host < conditions_.hosts; ++host) {
    shared_pools_.push_back(std::make_unique<ReceivePool>(300'000, random.Next()));
  }
  const uint32_t count = 1 + random.Below(kMostConnections);
  const bool datagrams = random.Happens(400);
  const auto stays = [&](uint32_t index) {
    return options.connection == SimulationOptions::kAll || options.connection == index;
  };
  for (uint32_t i = 0; i < count; ++i) {
    if (stays(i)) AddConnection(i);
  }
  if (datagrams && stays(SimulationOptions::kDatagrams)) AddDatagrams(random);
}

void Simulation::AddConnection(uint32_t index) {
  Random random = DrawFor(options_.seed, kConnections + index);
  next_qpn_ = 0x100 + index * 0x10;
  const uint32_t a = random.Below(conditions_.hosts);
  const uint32_t b = (a + 1 + random.Below(conditions_.hosts - 1)) % conditions_.hosts;
  const uint32_t kind = random.Below(10);
  if (kind < 6) return AddRc(a, b, false, random);
  if (kind < 7) return AddRc(a, b, true, random);
  AddUc(a, b, random);
}

uint32_t Simulation::Works(Random& random) const {
  return std::min(1 + random.Below(80), options_.works);
}

bool Simulation::Selective(Random& random) const {
  const bool selective = random.Happens(700);
  return selective && (options_.without & SimulationOptions::kSelectiveRepeat) == 0;
}

RemoteMemory& Simulation::AddMemory(uint32_t bytes, Random& random) {
  const Rkey rkey(static_cast<uint32_t>(random.Next()));
  memories_.push_back(std::make_unique<RemoteMemory>(bytes, rkey, random));
  return *memories_.back();
}

ReceivePool& Simulation::AddPool(Random& random) {
  const uint32_t pause = random.OneOf<uint32_t>({0, 400'000, 400'000});
  pools_.push_back(std::make_unique<ReceivePool>(pause, random.Next()));
  return *pools_.back();
}

template <typename Kind>
Kind& Simulation::Add(Qpn qpn, std::unique_ptr<Kind> party) {
  Kind& result = *party;
  index_of_[qpn] = parties_.size();
  parties_.push_back(std::move(party));
  next_turns_.push_back(Nanos(0));
  return result;
}

void Simulation::AddRc(uint32_t a, uint32_t b, bool xrc, Random& random) {
  // Often so close to the end of the PSN space that PSNs wrap.
  const wire::Psn psn_a(
      random.OneOf<uint32_t>({0xffffff, 0xffffe0, 0x7ffff0, random.Below(1 << 24)}));
  const wire::Psn psn_b(random.OneOf<uint32_t>({0xffffff, 0xffff80, random.Below(1 << 24)}));
  const uint32_t path_mtu = random.OneOf<uint32_t>({256, 256, 512, 1024, 4096});
  const bool illegal = random.Happens(250) && (options_.without & SimulationOptions::kIllegal) == 0;
  transport::QueuePairAttributes attributes{.remote_write = true,
                                            .remote_read = true,
                                            .remote_atomic = true,
                                            .path_mtu_bytes = path_mtu,
                                            .rq_psn = psn_b,
                                            .sq_psn = psn_a,
                                            .max_rd_atomic = random.OneOf<uint8_t>({1, 2, 5, 16}),
                                            .max_dest_rd_atomic = 16,
                                            .min_rnr_timer = random.OneOf<uint8_t>({1, 6, 12}),
                                            // Longer than a host sleeps.
                                            .timeout = uint8_t(pauses_.any() ? 14 : 8),
                                            .retry_count = 7,
                                            .rnr_retry = 7};
  // As many as the peer sends, or more.
  if (random.Happens(700)) attributes.max_dest_rd_atomic = attributes.max_rd_atomic;
  RcPartyConfig config;
  config.has_room = options_.has_room;
  config.core.signal_all = random.Happens(300);
  config.core.max_send_works = random.OneOf<uint32_t>({4, 16, 128});
  config.core.max_in_flight_packets = random.OneOf<uint32_t>({1, 2, 9, 64, 256});
  if (random.Happens(400)) config.core.congestion = &ByDelay();
  config.may_fail = illegal || conditions_.death;
  config.may_die = conditions_.death;
  config.offers_credits = random.Happens(500);
  config.bounds_reads = random.Happens(500);
  const bool shared = xrc || random.Happens(250);
  config.core.shared_receive = shared;
  const Qpn qpn_a = NextQpn();
  const Qpn qpn_b = NextQpn();
  RemoteMemory& memory_a = AddMemory(kDataBytes, random);
  RemoteMemory& memory_b = AddMemory(kDataBytes, random);
  ReceivePool& pool_a = shared ? *shared_pools_[a] : AddPool(random);
  ReceivePool& pool_b = shared ? *shared_pools_[b] : AddPool(random);
  // Mixed pairs: one end supports selective repeat, and the other does not.
  const bool knows_a = Selective(random);
  const bool knows_b = Selective(random);
  // A host may still be believed to support it after it was replaced by one that does not.
  const bool agreed = random.Happens(knows_a && knows_b ? 900 : 50);
  config.core.selective_repeat = knows_a;
  config.agreed = agreed;
  if (xrc) {
    config.core.service = wire::Service::kXrc;
    config.core.role = transport::RcRole::kInitiator;
  }
  const bool ipv6 = conditions_.ipv6;
  RcParty& party_a =
      Add(qpn_a, std::make_unique<RcParty>(a, config, memory_a, pool_a,
                                           Path(network_, a, b, qpn_b, ipv6), random.Next()));
  if (xrc) config.core.role = transport::RcRole::kTarget;
  config.core.selective_repeat = knows_b;
  RcParty& party_b =
      Add(qpn_b, std::make_unique<RcParty>(b, config, memory_b, pool_b,
                                           Path(network_, b, a, qpn_a, ipv6), random.Next()));
  party_a.Connect(attributes);
  std::swap(attributes.rq_psn, attributes.sq_psn);
  party_b.Connect(attributes);
  const WorkloadConfig workload{.path_mtu = path_mtu, .illegal = illegal};
  connections_.push_back({.a = party_a,
                          .b = party_b,
                          .memory_a = memory_a,
                          .memory_b = memory_b,
                          .workload = workload,
                          .one_way = xrc || random.Happens(300),
                          .next_qpn_a = NextQpn(),
                          .next_qpn_b = NextQpn(),
                          .random = random});
  Plan(connections_.back());
  if (!config.may_fail) PlanReset(connections_.back());
}

void Simulation::Plan(Connection& connection) {
  const auto [a, b] = std::tie(connection.a, connection.b);
  Random& random = connection.random;
  WorkloadConfig config = connection.workload;
  config.works = Works(random);
  const Workload* const plan_a = PlanOf(config, connection.memory_b, random);
  config.works = connection.one_way ? 0 : Works(random);
  config.illegal = false;
  const Workload* const plan_b = PlanOf(config, connection.memory_a, random);
  a.SetPeer(plan_a, &b, plan_b);
  b.SetPeer(plan_b, &a, plan_a);
}

Workload* Simulation::PlanOf(const WorkloadConfig& config, const RemoteMemory& target,
                             Random& random) {
  workloads_.push_back(std::make_unique<Workload>(MakeWorkload(config, target, random)));
  return workloads_.back().get();
}

void Simulation::PlanReset(Connection& connection) {
  const bool resets = connection.random.Happens(150);
  const Nanos time(connection.random.Below(2'000'000));
  if (!resets || (options_.without & SimulationOptions::kReset) != 0) return;
  connection.reset = time;
  next_reset_ = std::min(next_reset_, time);
}

void Simulation::Reset(Connection& connection) {
  connection.reset = kNever;
  const Qpn qpn_a = connection.next_qpn_a;
  const Qpn qpn_b = connection.next_qpn_b;
  // The new PSNs begin where the old life ended: leftover packets of the old life have the same
  // PSNs.
  const wire::Psn psn_a = connection.b.expected_psn() - connection.random.Below(4);
  const wire::Psn psn_b = connection.a.expected_psn() - connection.random.Below(4);
  Rename(connection.a, qpn_a);
  Rename(connection.b, qpn_b);
  connection.a.Reconnect(qpn_b, psn_a, psn_b);
  connection.b.Reconnect(qpn_a, psn_b, psn_a);
  Plan(connection);
}

void Simulation::Rename(const Party& party, Qpn qpn) {
  const auto old = std::ranges::find_if(
      index_of_, [&](const auto& entry) { return parties_[entry.second].get() == &party; });
  const size_t index = old->second;
  index_of_.erase(old);
  index_of_[qpn] = index;
  next_turns_[index] = Nanos(0);
}

void Simulation::ResetSome(Nanos now) {
  next_reset_ = kNever;
  for (Connection& connection : connections_) {
    if (connection.reset <= now) Reset(connection);
    next_reset_ = std::min(next_reset_, connection.reset);
  }
}

void Simulation::AddUc(uint32_t a, uint32_t b, Random& random) {
  transport::QueuePairAttributes attributes{
      .remote_write = true,
      .path_mtu_bytes = random.OneOf<uint32_t>({256, 1024, 4096}),
      .rq_psn = wire::Psn(random.OneOf<uint32_t>({0xffffff, random.Below(1 << 24)})),
      .sq_psn = wire::Psn(random.OneOf<uint32_t>({0xffffe0, random.Below(1 << 24)}))};
  const transport::UnreliableConfig config{.signal_all = random.Happens(300),
                                           .max_send_works = random.OneOf<uint32_t>({4, 128})};
  const Qpn qpn_a = NextQpn();
  const Qpn qpn_b = NextQpn();
  const bool ipv6 = conditions_.ipv6;
  const uint32_t works_a = Works(random);
  const uint32_t works_b = Works(random);
  const uint32_t most_bytes = std::max(works_a, works_b) * attributes.path_mtu_bytes;
  RemoteMemory& memory_a = AddMemory(most_bytes, random);
  RemoteMemory& memory_b = AddMemory(most_bytes, random);
  UcParty& party_a =
      Add(qpn_a, std::make_unique<UcParty>(a, config, attributes, memory_a, AddPool(random),
                                           Path(network_, a, b, qpn_b, ipv6), conditions_.faults,
                                           random.Next()));
  std::swap(attributes.rq_psn, attributes.sq_psn);
  UcParty& party_b =
      Add(qpn_b, std::make_unique<UcParty>(b, config, attributes, memory_b, AddPool(random),
                                           Path(network_, b, a, qpn_a, ipv6), conditions_.faults,
                                           random.Next()));
  party_a.Plan(works_a, party_b);
  party_b.Plan(works_b, party_a);
}

void Simulation::AddDatagrams(Random& random) {
  next_qpn_ = 0x10000;
  const uint32_t mtu = random.OneOf<uint32_t>({256, 1024, 4096});
  std::vector<UdParty*> parties;
  for (uint32_t i = 2 + random.Below(3); i != 0; --i) {
    const Qpn qpn = NextQpn();
    const transport::QueuePairAttributes attributes{
        .path_mtu_bytes = mtu, .sq_psn = wire::Psn(0xffffff), .qkey = UdParty::kQkey};
    const transport::UnreliableConfig config{
        .signal_all = random.Happens(300), .max_send_works = 16, .qpn = qpn};
    parties.push_back(
        &Add(qpn, std::make_unique<UdParty>(random.Below(conditions_.hosts), qpn, config,
                                            attributes, AddPool(random), conditions_.ipv6,
                                            conditions_.faults, random.Next())));
  }
  for (UdParty* party : parties) party->Plan(Works(random), network_, parties);
}

std::string Simulation::Run() {
  Nanos now;
  while (!finished() || network_.NextArrival() != kNever || pauses_.NextTake(now) != kNever) {
    if (now > kLongestRun || packets() > kMostPackets) return "hang: " + Describe();
    if (conditions_.death && now >= conditions_.time_of_death) Kill(now);
    if (now >= next_reset_) ResetSome(now);
    TakeArrivals(now);
    const Nanos next = TakeTurns(now);
    if (faulty_) return FirstFault();
    if (next == kNever && finished()) break;
    if (next == kNever) return "nothing will ever happen: " + Describe();
    now = std::max(next, now + Nanos(1));
  }
  // Hosts may have slept since the last frames came, and a party is judged by what others received.
  for (const auto& party : parties_) {
    if (!party->dead()) party->Turn(now);
  }
  for (const auto& party : parties_) party->Judge();
  return FirstFault();
}

void Simulation::TakeArrivals(Nanos now) {
  Arrival arrival;
  for (uint32_t host = 0; pauses_.any() && host < conditions_.hosts; ++host) {
    if (pauses_.Sleeps(host, now)) continue;
    for (uint32_t i = 0; i < HostPauses::kBurst && pauses_.Take(host, arrival); ++i) {
      Deliver(arrival, now);
      network_.GiveBack(std::move(arrival.frame));
    }
  }
  while (network_.TakeArrival(now, arrival)) {
    if (pauses_.Sleeps(arrival.host, now) || pauses_.Waits(arrival.host)) {
      pauses_.Keep(std::move(arrival));
      continue;
    }
    Deliver(arrival, now);
    network_.GiveBack(std::move(arrival.frame));
  }
}

Nanos Simulation::TakeTurns(Nanos now) {
  Nanos next = kNever;
  for (size_t i = 0; i < parties_.size(); ++i) {
    if (next_turns_[i] <= now) next_turns_[i] = TakeTurn(*parties_[i], now);
    next = std::min(next, next_turns_[i]);
  }
  if (pauses_.any()) next = std::min(next, pauses_.NextTake(now));
  return std::min(next, network_.NextArrival());
}

Nanos Simulation::TakeTurn(Party& party, Nanos now) {
  if (party.dead()) return kNever;
  const uint32_t host = party.host();
  if (pauses_.Sleeps(host, now)) return pauses_.Wakes(host);
  const Nanos next = party.Turn(now);
  faulty_ |= !party.fault().empty();
  if (!pauses_.any()) return next;
  pauses_.OnTurn(host, now);
  return std::max(next, pauses_.Wakes(host));
}

void Simulation::Deliver(const Arrival& arrival, Nanos now) {
  wire::Packet packet;
  wire::FrameView view;
  const std::span<const uint8_t> bytes = arrival.frame->bytes();
  const auto decoded = wire::Decode(bytes, packet, view);
  if (decoded != wire::DecodeResult::kOk || !wire::IcrcIsRight(bytes, view)) return;
  const auto found = index_of_.find(packet.header.dest_qpn);
  if (found == index_of_.end()) return;
  Party& party = *parties_[found->second];
  if (party.host() != arrival.host || party.dead()) return;
  party.OnFrame({bytes, packet, view}, now);
  next_turns_[found->second] = now;
}

void Simulation::Kill(Nanos) {
  for (const auto& party : parties_) {
    if (party->host() == conditions_.dying_host) party->Die();
  }
}

bool Simulation::finished() const {
  return std::ranges::all_of(parties_,
                             [](const auto& party) { return party->dead() || party->finished(); });
}

std::string Simulation::FirstFault() const {
  for (size_t i = 0; i < parties_.size(); ++i) {
    const Party& party = *parties_[i];
    if (!party.fault().empty()) {
      return "party " + std::to_string(i) + ": " + party.fault() + "; " + party.Describe();
    }
  }
  return "";
}

std::string Simulation::Describe() const {
  std::string text;
  for (size_t i = 0; i < parties_.size(); ++i) {
    if (parties_[i]->dead() || parties_[i]->finished()) continue;
    text += "party " + std::to_string(i) + " " + parties_[i]->Describe() + "; ";
  }
  return text;
}

uint64_t Simulation::retransmitted() const {
  uint64_t sum = 0;
  for (const Connection& connection : connections_) {
    for (const RcParty* const party : {&connection.a, &connection.b}) {
      sum += party->counters().retransmitted_pkts;
    }
  }
  return sum;
}

namespace {

std::string Outcome(const SimulationOptions& options) { return Simulation(options).Run(); }

/// Takes `less` in place of `options`, if it fails too.
bool Keep(SimulationOptions& options, const SimulationOptions& less) {
  if (Outcome(less).empty()) return false;
  options = less;
  return true;
}

void Minimize(SimulationOptions& options) {
  SimulationOptions less = options;
  for (less.connection = 0; less.connection <= SimulationOptions::kDatagrams; ++less.connection) {
    if (less.connection == kMostConnections) less.connection = SimulationOptions::kDatagrams;
    if (Keep(options, less)) break;
  }
  for (uint32_t works = 64; works != 0; works /= 2) {
    less = options;
    less.works = works;
    if (!Keep(options, less)) break;
  }
  for (uint32_t part = 1; part < SimulationOptions::kAllParts; part <<= 1) {
    less = options;
    less.without |= part;
    Keep(options, less);
  }
}

}  // namespace

std::string RunAndMinimize(const SimulationOptions& options, uint64_t& packets,
                           uint64_t& retransmitted) {
  Simulation simulation(options);
  const std::string outcome = simulation.Run();
  packets += simulation.packets();
  retransmitted += simulation.retransmitted();
  if (outcome.empty()) return "";
  SimulationOptions least = options;
  if (options.connection == SimulationOptions::kAll) Minimize(least);
  return outcome + "\nthe least that fails: UROCE_SIM=" + least.ToString() + "\n" + Outcome(least);
}

}  // namespace uroce::sim
