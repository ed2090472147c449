// SPDX-License-Identifier: Apache-2.0
// A model of hosts joined by switches, in the caller's time: each frame waits in the queue of each
// egress port on its path and occupies the line for the time of its bits. Switches mark, drop and
// pause frames as real ones do. Pure.
#include "pipeline/fabric/fabric.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

namespace uroce::fabric {
namespace {

constexpr uint32_t kUnreached = UINT32_MAX;
constexpr uint32_t kNoLink = UINT32_MAX;
/// The most PFC pauses and resumptions on a link at a time. When a link has so many, the next one
/// is sent after one has arrived.
constexpr uint32_t kReservePerLink = 4;
constexpr uint32_t kPauseFrameBytes = 60;
/// A full packet of the largest path MTU, with all its headers.
constexpr uint32_t kRoomFrameBytes = 4200;

uint32_t Opposite(uint32_t link) { return link ^ 1; }

uint64_t NumberOf(const Mac& mac) {
  uint64_t number = 0;
  std::memcpy(&number, mac.data(), sizeof mac);
  return number;
}

/// The path that a switch chooses for a flow. Each switch mixes the hash differently; otherwise all
/// switches behind the first would choose alike.
uint32_t Choice(uint32_t flow_hash, uint32_t switch_index, uint64_t seed, size_t ways) {
  uint64_t mixed = (flow_hash ^ (seed << 32)) + (switch_index + 1) * 0x9e3779b97f4a7c15;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
  return static_cast<uint32_t>(mixed >> 32) % static_cast<uint32_t>(ways);
}

}  // namespace

// ---- hosts ----

size_t HostTable::PlaceOf(const Mac& mac) const {
  const size_t mask = entries_.size() - 1;
  const uint64_t number = NumberOf(mac);
  size_t place = (number * 0x9e3779b97f4a7c15) >> 40 & mask;
  while (entries_[place].host != kNone && NumberOf(entries_[place].mac) != number) {
    place = (place + 1) & mask;
  }
  return place;
}

uint32_t HostTable::Find(const Mac& mac) const { return entries_[PlaceOf(mac)].host; }

void HostTable::Set(const Mac& mac, uint32_t host) {
  if (2 * (used_ + 1) > entries_.size()) Grow();
  Entry& entry = entries_[PlaceOf(mac)];
  used_ += entry.host == kNone;
  entry = {.mac = mac, .host = host};
}

void HostTable::Grow() {
  std::vector<Entry> former(2 * entries_.size());
  former.swap(entries_);
  used_ = 0;
  for (const Entry& each : former) {
    if (each.host != kNone) Set(each.mac, each.host);
  }
}

// ---- routes ----

Routes::Routes(uint32_t switches, std::span<const RouteEdge> edges)
    : switches_(switches),
      next_ways_(size_t{switches} * switches),
      tree_links_(size_t{switches} * switches) {
  std::map<std::vector<uint32_t>, uint32_t> known;
  EdgesOf entering(switches);
  for (const RouteEdge& edge : edges) entering[edge.to].push_back(edge);
  for (uint32_t target = 0; target < switches; ++target) {
    const std::vector<uint32_t> distances = DistancesTo(target, entering);
    std::vector<std::vector<uint32_t>> ways(switches);
    for (const RouteEdge& edge : edges) {
      if (distances[edge.to] == kUnreached || distances[edge.from] != distances[edge.to] + 1)
        continue;
      ways[edge.from].push_back(edge.link);
    }
    for (uint32_t at = 0; at < switches; ++at) {
      const auto number = static_cast<uint32_t>(known.size());
      next_ways_[Index(at, target)] = known.try_emplace(std::move(ways[at]), number).first->second;
    }
    AddTree(target, entering);
  }
  ways_.resize(known.size());
  for (const auto& [ways, number] : known) ways_[number] = ways;
}

std::vector<uint32_t> Routes::DistancesTo(uint32_t target, const EdgesOf& entering) const {
  std::vector<uint32_t> distances(switches_, kUnreached);
  std::vector<uint32_t> reached{target};
  distances[target] = 0;
  for (size_t i = 0; i < reached.size(); ++i) {
    for (const RouteEdge& edge : entering[reached[i]]) {
      if (distances[edge.from] != kUnreached) continue;
      distances[edge.from] = distances[edge.to] + 1;
      reached.push_back(edge.from);
    }
  }
  return distances;
}

/// Adds the tree of `root`: the first link that reaches each switch. Links go both ways, so a link
/// that enters a switch is the opposite of one that leaves it.
void Routes::AddTree(uint32_t root, const EdgesOf& entering) {
  std::vector<bool> is_reached(switches_);
  std::vector<uint32_t> reached{root};
  is_reached[root] = true;
  for (size_t i = 0; i < reached.size(); ++i) {
    for (const RouteEdge& edge : entering[reached[i]]) {
      if (is_reached[edge.from]) continue;
      is_reached[edge.from] = true;
      reached.push_back(edge.from);
      tree_links_[Index(root, edge.to)].push_back(Opposite(edge.link));
    }
  }
}

// ---- the fabric ----

Fabric::Fabric(Surroundings& surroundings, const FabricConfig& config)
    : surroundings_(surroundings),
      config_(config),
      store_(config.max_frames),
      random_(config.seed) {}

Fabric::~Fabric() {
  for (Link& link : links_) {
    Clear(link.control);
    Clear(link.data);
    Clear(link.flight);
  }
}

// ---- making it ----

uint32_t Fabric::AddSwitch(const SwitchConfig& config) {
  switches_.push_back({.config = config, .egress = {}});
  are_routes_known_ = false;
  return switches() - 1;
}

uint32_t Fabric::AddHost(uint32_t switch_index, const Mac& mac, const LinkConfig& config) {
  const uint32_t host = hosts();
  const uint32_t cable = AddCable(Link::kHost, switch_index, host, config);
  hosts_.push_back({.mac = mac, .cable = cable, .switch_index = switch_index});
  host_of_mac_.Set(mac, host);
  return host;
}

uint32_t Fabric::Join(uint32_t first_switch, uint32_t second_switch, const LinkConfig& config) {
  const uint32_t cable = AddCable(first_switch, second_switch, 0, config);
  are_routes_known_ = false;
  return cable;
}

uint32_t Fabric::AddCable(uint32_t first_switch, uint32_t second_switch, uint32_t host,
                          const LinkConfig& config) {
  const auto cable = static_cast<uint32_t>(links_.size() / 2);
  for (const auto& [from, to] :
       {std::pair(first_switch, second_switch), std::pair(second_switch, first_switch)}) {
    if (from != Link::kHost) {
      switches_[from].egress.push_back(static_cast<uint32_t>(links_.size()));
    }
    links_.push_back({.from_switch = from, .to_switch = to, .host = host, .config = config});
  }
  reserve_ += 2 * kReservePerLink;
  store_.Grow(2 * kReservePerLink);
  events_.Resize(static_cast<uint32_t>(2 * links_.size()));
  return cable;
}

void Fabric::FindRoutes() {
  std::vector<RouteEdge> edges;
  for (uint32_t index = 0; index < links_.size(); ++index) {
    const Link& link = links_[index];
    if (!link.is_up || link.from_switch == Link::kHost || link.to_switch == Link::kHost) continue;
    edges.push_back({.from = link.from_switch, .to = link.to_switch, .link = index});
  }
  routes_ = Routes(switches(), edges);
  are_routes_known_ = true;
  ForgetEgress();
}

/// Frames on their way find again where the next switch forwards them.
void Fabric::ForgetEgress() {
  for (const Link& link : links_) {
    uint32_t slot = link.flight.front();
    for (uint32_t left = link.flight.frames(); left != 0; --left, slot = store_[slot].next) {
      store_[slot].next_egress = Slot::kUnknown;
    }
  }
}

// ---- frames ----

uint32_t Fabric::SendRoom(uint32_t host) const {
  const Link& link = links_[2 * hosts_[host].cable];
  const uint32_t free_slots = store_.free_slots() > reserve_ ? store_.free_slots() - reserve_ : 0;
  if (!link.is_up) return std::max(free_slots, 1u);
  const uint64_t waiting = link.queue_bytes();
  if (waiting >= link.config.host_queue_bytes) return 0;
  const uint64_t left = (link.config.host_queue_bytes - waiting) / kRoomFrameBytes + 1;
  return static_cast<uint32_t>(std::min<uint64_t>(free_slots, left));
}

void Fabric::Send(uint32_t host, const Frame& frame, Nanos now) {
  if (!are_routes_known_) FindRoutes();
  const uint32_t egress = 2 * hosts_[host].cable;
  if (!links_[egress].is_up || store_.free_slots() <= reserve_) {
    ++(links_[egress].is_up ? lost_slots_ : links_[egress].counters.down_drops);
    surroundings_.Free(frame);
    return;
  }
  const uint32_t index = store_.Take();
  Slot& slot = store_[index];
  const FrameHeaders headers = ReadHeaders(frame.headers());
  slot = {.bytes = frame.bytes,
          .owner = frame.owner,
          .length_bytes = frame.length_bytes,
          .flow_hash = headers.flow_hash,
          .source_host = host,
          .target_host = host_of_mac_.Find(headers.destination),
          .destination = headers.destination,
          .is_ecn_capable = headers.is_ecn_capable,
          .is_control = headers.is_control};
  slot.goes_everywhere = slot.target_host == HostTable::kNone;
  Queue(egress, index, now);
}

void Fabric::RunNext() {
  const Nanos time = events_.next();
  const uint32_t event = events_.first();
  PrefetchSoon();
  if (event < links_.size()) {
    OnArrival(event, time);
  } else {
    Kick(event - static_cast<uint32_t>(links_.size()), time);
  }
}

// ---- prefetching ----

/// Fetches into the cache what the next events look at: of the third the objects, of the second and
/// first what these refer to. Memory takes about as long as an event or two.
void Fabric::PrefetchSoon() {
  const auto [first, second, third] = events_.Soon();
  if (third != EventQueue::kNone) PrefetchObjects(third);
  if (second != EventQueue::kNone) PrefetchFrame(second);
  if (first >= links_.size() || links_[first].to_switch != Link::kHost) return;
  const Slot& slot = store_[events_.HintOf(first)];
  if (slot.kind == Slot::Kind::kFrame) surroundings_.Expect(links_[first].host, slot.frame());
}

void Fabric::PrefetchObjects(uint32_t event) const {
  if (event < links_.size()) {
    __builtin_prefetch(&links_[event]);
    __builtin_prefetch(&store_[events_.HintOf(event)]);
  } else {
    const Link& link = links_[event - links_.size()];
    __builtin_prefetch(&link.control, 1);
    __builtin_prefetch(&link.config.delay, 1);
  }
}

void Fabric::PrefetchFrame(uint32_t event) const {
  if (event >= links_.size()) {
    const Link& link = links_[event - links_.size()];
    if (!link.data.empty()) __builtin_prefetch(&store_[link.data.front()]);
    return;
  }
  const Slot& slot = store_[events_.HintOf(event)];
  __builtin_prefetch(&store_[slot.next < store_.size() ? slot.next : 0]);
  if (slot.next_egress < links_.size()) {
    const Link& egress = links_[slot.next_egress];
    __builtin_prefetch(&egress);
    __builtin_prefetch(&egress.control, 1);
    __builtin_prefetch(&egress.config.delay, 1);
  } else {
    __builtin_prefetch(slot.bytes);
  }
}

// ---- at the head of a link ----

void Fabric::Queue(uint32_t index, uint32_t slot, Nanos now) {
  Link& link = links_[index];
  (store_[slot].is_control ? link.control : link.data).Append(store_, slot);
  link.peak_queue_bytes = std::max(link.peak_queue_bytes, link.queue_bytes());
  Kick(index, now);
}

/// Sends the next frame now, or schedules it for when the line is free.
void Fabric::Kick(uint32_t index, Nanos now) {
  Link& link = links_[index];
  if (link.NextQueue() != nullptr && link.free_at <= now) Transmit(index, now);
  if (link.NextQueue() != nullptr) {
    events_.Set(TransmitEvent(index), link.free_at);
  } else {
    events_.Remove(TransmitEvent(index));
  }
}

void Fabric::Transmit(uint32_t index, Nanos now) {
  Link& link = links_[index];
  const uint32_t slot = link.NextQueue()->Pop(store_);
  const uint32_t length_bytes = store_[slot].length_bytes;
  ++link.counters.frames;
  link.counters.bytes += length_bytes;
  link.Occupy(WireBytes(length_bytes), now);
  if (link.from_switch != Link::kHost) {
    LeaveSwitch(link.from_switch, store_[slot], now);
  } else {
    surroundings_.OnDeparture(link.host);
  }
  if (!Happens(link.config.loss)) return Launch(index, slot);
  ++link.counters.losses;
  Drop(slot);
}

/// Puts `slot`, which occupied the line last, on its way to the end of the link.
void Fabric::Launch(uint32_t index, uint32_t slot) {
  Link& link = links_[index];
  // Frames stay in order even when the delay of the link was made shorter.
  link.last_arrival = std::max(link.last_arrival, link.free_at + link.config.delay);
  Slot& its = store_[slot];
  its.due = link.last_arrival;
  const bool is_forwarded =
      link.to_switch != Link::kHost && its.kind == Slot::Kind::kFrame && !its.goes_everywhere;
  its.next_egress = is_forwarded ? EgressFor(link.to_switch, its) : Slot::kUnknown;
  const bool is_first = link.flight.empty();
  link.flight.Append(store_, slot);
  if (is_first) events_.Set(ArrivalEvent(index), link.last_arrival, slot);
}

// ---- at the end of a link ----

void Fabric::OnArrival(uint32_t index, Nanos now) {
  Link& link = links_[index];
  const uint32_t slot = link.flight.Pop(store_);
  if (link.flight.empty()) {
    events_.Remove(ArrivalEvent(index));
  } else {
    const uint32_t next = link.flight.front();
    events_.Set(ArrivalEvent(index), store_[next].due, next);
  }
  if (store_[slot].kind != Slot::Kind::kFrame) {
    const bool pause = store_[slot].kind == Slot::Kind::kPause;
    store_.Give(slot);
    --link.pauses_in_flight;
    OnPause(Opposite(index), pause, now);
    Regulate(Opposite(index), now);
  } else if (link.to_switch == Link::kHost) {
    const Frame frame = store_[slot].frame();
    store_.Give(slot);
    surroundings_.Deliver(link.host, frame, now);
  } else {
    store_[slot].arrived_by = index;
    Forward(link.to_switch, slot, now);
  }
}

void Fabric::OnPause(uint32_t index, bool pause, Nanos now) {
  Link& link = links_[index];
  if (link.is_paused == pause) return;
  link.is_paused = pause;
  if (pause) {
    ++link.counters.pauses;
    link.paused_at = now;
    return;
  }
  link.counters.paused = link.counters.paused + (now - link.paused_at);
  Kick(index, now);
}

// ---- in a switch ----

void Fabric::Forward(uint32_t switch_index, uint32_t slot, Nanos now) {
  if (store_[slot].goes_everywhere) return ForwardToAll(switch_index, slot, now);
  const uint32_t known = store_[slot].next_egress;
  const uint32_t egress = known != Slot::kUnknown ? known : EgressFor(switch_index, store_[slot]);
  if (egress != kNoLink) return EnterSwitch(egress, slot, now);
  ++switches_[switch_index].lost_ways;
  Drop(slot);
}

/// kNoLink when there is no path. A frame to its own sender has none: no frame goes back.
uint32_t Fabric::EgressFor(uint32_t switch_index, const Slot& slot) const {
  if (slot.target_host == slot.source_host) return kNoLink;
  const Host& target = hosts_[slot.target_host];
  if (target.switch_index == switch_index) {
    const bool is_there =
        NumberOf(target.mac) == NumberOf(slot.destination);  // Or another has its place.
    return is_there ? 2 * target.cable + 1 : kNoLink;
  }
  const auto ways = routes_.NextLinks(switch_index, target.switch_index);
  if (ways.empty()) return kNoLink;
  return ways[Choice(slot.flow_hash, switch_index, config_.seed, ways.size())];
}

/// Sends a copy of the frame to each host of this switch and each next switch of the tree, and the
/// frame itself to the last of them.
void Fabric::ForwardToAll(uint32_t switch_index, uint32_t slot, Nanos now) {
  const uint32_t root = hosts_[store_[slot].source_host].switch_index;
  const auto tree = routes_.TreeLinks(root, switch_index);
  uint32_t last = kNoLink;
  for (const uint32_t egress : switches_[switch_index].egress) {
    const Link& link = links_[egress];
    const bool is_meant = link.to_switch == Link::kHost
                              ? link.host != store_[slot].source_host
                              : std::find(tree.begin(), tree.end(), egress) != tree.end();
    if (!is_meant) continue;
    const uint32_t before = std::exchange(last, egress);
    if (before == kNoLink) continue;
    const uint32_t copy = CopyOf(slot);
    if (copy != FrameStore::kNone) EnterSwitch(before, copy, now);
  }
  if (last == kNoLink) return Drop(slot);
  EnterSwitch(last, slot, now);
}

uint32_t Fabric::CopyOf(uint32_t slot) {
  const std::optional<Frame> frame =
      store_.free_slots() > reserve_ ? surroundings_.Copy(store_[slot].frame()) : std::nullopt;
  if (!frame) {
    ++lost_slots_;
    return FrameStore::kNone;
  }
  const uint32_t copy = store_.Take();
  store_[copy] = store_[slot];
  store_[copy].bytes = frame->bytes;
  store_[copy].owner = frame->owner;
  return copy;
}

/// RED is applied before the check of the buffer, as in the pipeline of real switches.
void Fabric::EnterSwitch(uint32_t index, uint32_t slot, Nanos now) {
  Link& link = links_[index];
  const Switch& owner = switches_[link.from_switch];
  const uint64_t after = owner.buffered_bytes + store_[slot].length_bytes;
  if (!link.is_up) {
    ++link.counters.down_drops;
  } else if (!PassesRed(link, store_[slot])) {
    ++link.counters.early_drops;
  } else if (after > owner.config.buffer_bytes) {
    ++link.counters.tail_drops;
  } else {
    return Admit(index, slot, now);
  }
  Drop(slot);
}

/// Applies RED: may mark the frame. Returns false when the frame is to be dropped.
bool Fabric::PassesRed(Link& link, Slot& slot) {
  const SwitchConfig& config = switches_[link.from_switch].config;
  const bool is_exempt = slot.is_control || (config.pfc.on && !slot.is_ecn_capable);
  if (is_exempt || !Happens(MarkProbability(config.ecn, link.data.bytes()))) return true;
  if (!slot.is_ecn_capable) return false;
  if (MarkCongestionExperienced(slot.frame().headers())) ++link.counters.marks;
  return true;
}

bool Fabric::Happens(double probability) {
  if (probability <= 0) return false;
  if (probability >= 1) return true;
  constexpr double kOne = 1.0 / 9007199254740992.0;  // 2^-53
  return static_cast<double>(random_() >> 11) * kOne < probability;
}

void Fabric::Admit(uint32_t index, uint32_t slot, Nanos now) {
  Switch& owner = switches_[links_[index].from_switch];
  const uint32_t length_bytes = store_[slot].length_bytes;
  owner.buffered_bytes += length_bytes;
  owner.peak_buffered_bytes = std::max(owner.peak_buffered_bytes, owner.buffered_bytes);
  if (!store_[slot].is_control) {
    const uint32_t arrived_by = store_[slot].arrived_by;
    links_[arrived_by].share_bytes += length_bytes;
    Regulate(arrived_by, now);
  }
  Queue(index, slot, now);
}

void Fabric::LeaveSwitch(uint32_t switch_index, const Slot& slot, Nanos now) {
  switches_[switch_index].buffered_bytes -= slot.length_bytes;
  if (slot.is_control) return;
  links_[slot.arrived_by].share_bytes -= slot.length_bytes;
  Regulate(slot.arrived_by, now);
}

/// Pauses or resumes the sender of a link, according to the link's share of the buffer.
void Fabric::Regulate(uint32_t index, Nanos now) {
  Link& link = links_[index];
  if (link.to_switch == Link::kHost) return;
  const PfcConfig& pfc = switches_[link.to_switch].config.pfc;
  const bool must_pause = pfc.on && link.share_bytes > pfc.xoff_bytes;
  const bool may_resume = !pfc.on || link.share_bytes <= pfc.xon_bytes;
  if (link.is_pausing ? may_resume : must_pause) TellPause(index, !link.is_pausing, now);
}

/// Sends a pause or resumption to the head of a link, by the other direction: ahead of the frames
/// that wait there, and behind the frame that is on the line.
void Fabric::TellPause(uint32_t index, bool pause, Nanos now) {
  Link& back = links_[Opposite(index)];
  if (!back.is_up || back.pauses_in_flight == kReservePerLink) return;
  links_[index].is_pausing = pause;
  ++back.pauses_in_flight;
  const uint32_t slot = store_.Take();
  store_[slot] = {.kind = pause ? Slot::Kind::kPause : Slot::Kind::kResume};
  back.Occupy(WireBytes(kPauseFrameBytes), std::max(now, back.free_at));
  Launch(Opposite(index), slot);
}

// ---- changes ----

void Fabric::SetSwitch(uint32_t switch_index, const SwitchConfig& config, Nanos now) {
  switches_[switch_index].config = config;
  for (const uint32_t egress : switches_[switch_index].egress) Regulate(Opposite(egress), now);
}

void Fabric::SetLink(uint32_t cable, const LinkConfig& config) {
  for (Link* link : {&links_[2 * cable], &links_[2 * cable + 1]}) {
    link->config = config;
    link->fraction = 0;
    link->usual_bytes = 0;
  }
}

void Fabric::SetUp(uint32_t cable, bool is_up, Nanos now) {
  if (links_[2 * cable].is_up == is_up) return;
  for (const uint32_t index : {2 * cable, 2 * cable + 1}) {
    links_[index].is_up = is_up;
    if (!is_up) Empty(index, now);
  }
  FindRoutes();
}

void Fabric::SetHost(uint32_t host, const Mac& mac) {
  hosts_[host].mac = mac;
  host_of_mac_ = {};
  for (uint32_t each = 0; each < hosts(); ++each) host_of_mac_.Set(hosts_[each].mac, each);
  ForgetEgress();
}

/// Drops the frames that wait for a link that went down or are on it; both ends forget pauses.
void Fabric::Empty(uint32_t index, Nanos now) {
  Link& link = links_[index];
  for (FrameList* queue : {&link.control, &link.data}) {
    while (!queue->empty()) {
      const uint32_t slot = queue->Pop(store_);
      if (link.from_switch != Link::kHost) LeaveSwitch(link.from_switch, store_[slot], now);
      ++link.counters.down_drops;
      Drop(slot);
    }
  }
  link.counters.down_drops += link.flight.frames() - link.pauses_in_flight;
  Clear(link.flight);
  link.pauses_in_flight = 0;
  events_.Remove(ArrivalEvent(index));
  events_.Remove(TransmitEvent(index));
  OnPause(index, false, now);
  link.is_pausing = false;
}

void Fabric::Drop(uint32_t slot) {
  surroundings_.Free(store_[slot].frame());
  store_.Give(slot);
}

void Fabric::Clear(FrameList& list) {
  while (!list.empty()) {
    const uint32_t slot = list.Pop(store_);
    if (store_[slot].kind == Slot::Kind::kFrame) surroundings_.Free(store_[slot].frame());
    store_.Give(slot);
  }
}

}  // namespace uroce::fabric
