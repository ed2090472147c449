// SPDX-License-Identifier: Apache-2.0
#include "nic/paths/neighbours.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nic/net/address.h"

namespace uroce::nic {
namespace {

// Pauses between checks get longer, since most neighbours that answer do so at once.
constexpr Nanos kFirstPause{5'000'000};
constexpr Nanos kLongestPause{160'000'000};
// During a lookup: the kernel asks three times, a second apart, then it gives up.
constexpr Nanos kProbeInterval{4'000'000'000};
// Routes may change in bursts. All paths are checked once, this long after the first change.
constexpr Nanos kSettleTime{50'000'000};
// A neighbour that does not answer is asked again after this time, while queue pairs send to it.
constexpr Nanos kAskAgain{2'000'000'000};
constexpr size_t kChecksPerTurn = 32;  // Each takes some 20 us.
// So passes take a fiftieth of the control thread's time at most.
constexpr int64_t kPauseForEachPass = 50;

int InterfaceOf(const PathKey& path) { return path.device->InterfaceOf(path.vlan_id); }

std::string Place(const PathKey& path) {
  const std::string& name = path.device->name();
  return path.vlan_id == 0 ? name : absl::StrCat("VLAN ", path.vlan_id, " of ", name);
}

}  // namespace

Neighbours::~Neighbours() {
  timers_.Cancel(check_timer_);
  timers_.Cancel(pass_timer_);
}

void Neighbours::StartHost(const NetDevice& device, FrameChannel& channel, const HostConfig& config,
                           AddressListener listener) {
  std::unique_ptr<HostStack>& host = hosts_[&device];
  HostStack::Listener host_listener;
  host_listener.on_addresses = [&host, listener = std::move(listener)] {
    listener(host->host().UsableAddresses());
  };
  host_listener.on_neighbour = [this, &device](const struct NextHop& hop,
                                               const std::optional<Mac>& mac) {
    if (!mac) return;  // Retransmission decides how long its queue pairs live.
    Tell({.host = &device, .vlan_id = hop.vlan_id, .address = hop.address}, {.mac = mac});
    Pass();
  };
  host = std::make_unique<HostStack>(timers_, channel, device.name(), config,
                                     std::move(host_listener));
  host->OnLink(device.link_up());
}

void Neighbours::RemoveDevice(const NetDevice& device) {
  std::erase(devices_, &device);
  hosts_.erase(&device);
  std::erase_if(to_check_, [&](const auto& path) { return path->key.device == &device; });
  std::erase_if(moved_, [&](const auto& path) { return path.key.device == &device; });
  std::erase_if(news_, [&](const auto& news) { return news.first.host == &device; });
  std::vector<Id> ended;
  for (const auto& [id, lookup] : lookups_) {
    if (lookup.path.device == &device) ended.push_back(id);
  }
  for (const Id id : ended) {
    if (!lookups_.contains(id)) continue;  // The end of an earlier one has cancelled it.
    timers_.Cancel(lookups_.at(id).timer);
    Finish(id, absl::CancelledError(absl::StrCat(device.name(), " was removed")));
  }
}

void Neighbours::SetGroup(const NetDevice& device, const Gid& group, bool joined) {
  hosts_.at(&device)->SetGroup(group, joined);
}

bool Neighbours::has_tentative_address() const {
  return std::ranges::any_of(
      hosts_, [](const auto& entry) { return entry.second->host().has_tentative_address(); });
}

void Neighbours::OnLink(const NetDevice& device) {
  const auto it = hosts_.find(&device);
  if (it != hosts_.end()) it->second->OnLink(device.link_up());
}

const NetDevice* Neighbours::OwnerOf(const PathKey& path) const {
  const auto owner = std::ranges::find_if(devices_, [&](const NetDevice* device) {
    const bool is_reached = device == path.device || device->wire() == path.device->wire();
    return is_reached && device->gids().Find({path.destination, path.vlan_id});
  });
  return owner == devices_.end() ? nullptr : *owner;
}

std::optional<absl::StatusOr<Mac>> Neighbours::Find(const PathKey& path) {
  if (const NetDevice* owner = OwnerOf(path)) return owner->mac();
  if (path.device->wire() >= 0) {
    return absl::DeadlineExceededError(absl::StrCat("no NIC on the wire of ", Place(path), " has ",
                                                    FormatAddress(path.destination)));
  }
  if (CanAsk(path)) return MacOfAnyPeer(path);
  return absl::UnavailableError(absl::StrCat(Place(path), " has no kernel interface now to find ",
                                             FormatAddress(path.destination), " by"));
}

// The kernel looks for the neighbour itself when a packet leaves.
std::optional<absl::StatusOr<Mac>> Neighbours::MacOfAnyPeer(const PathKey& path) {
  const std::optional<Mac> mac = path.device->peer_mac();
  if (!mac) return std::nullopt;
  const absl::StatusOr<Gid> hop = NextHop(path);
  if (!hop.ok()) return hop.status();
  return *mac;
}

Neighbours::Id Neighbours::Resolve(const PathKey& path, Callback callback, Nanos patience) {
  const Id id = next_id_++;
  const Nanos now = timers_.Now();
  Lookup& lookup = lookups_[id];
  lookup = {.path = path,
            .deadline = now + patience,
            .probe_at = now,
            .pause = kFirstPause,
            .callback = std::move(callback)};
  lookup.timer = timers_.After(Nanos(0), [this, id] { Continue(id); });
  return id;
}

void Neighbours::Cancel(Id id) {
  const auto it = lookups_.find(id);
  if (it == lookups_.end()) return;
  timers_.Cancel(it->second.timer);
  lookups_.erase(it);
}

void Neighbours::Continue(Id id) {
  Lookup& lookup = lookups_.at(id);
  if (lookup.next_hop == Gid{}) {
    const absl::StatusOr<Gid> next_hop = NextHop(lookup.path);
    if (!next_hop.ok()) return Finish(id, next_hop.status());
    lookup.next_hop = *next_hop;
  }
  if (const auto mac = Neighbour(lookup.path, lookup.next_hop)) return Finish(id, *mac);
  const Nanos now = timers_.Now();
  if (now >= lookup.deadline) {
    return Finish(id, absl::DeadlineExceededError(absl::StrCat(FormatAddress(lookup.next_hop),
                                                               " does not answer on the network")));
  }
  if (now >= lookup.probe_at) {
    Probe(lookup.path, lookup.next_hop);
    lookup.probe_at = now + kProbeInterval;
  }
  const Nanos pause = std::min(lookup.pause, lookup.deadline - now);
  lookup.pause = std::min(lookup.pause * 2, kLongestPause);
  lookup.timer = timers_.After(pause, [this, id] { Continue(id); });
}

void Neighbours::Finish(Id id, const absl::StatusOr<Mac>& mac) {
  const Callback callback = std::move(lookups_.at(id).callback);
  lookups_.erase(id);
  callback(mac);
}

HostStack* Neighbours::HostOf(const PathKey& path) const {
  const auto it = hosts_.find(path.device);
  return it == hosts_.end() ? nullptr : it->second.get();
}

// The interface may be removed at any time: its number is looked up again, here and below.
bool Neighbours::CanAsk(const PathKey& path) const {
  return HostOf(path) != nullptr || InterfaceOf(path) != 0;
}

std::optional<Mac> Neighbours::Neighbour(const PathKey& path, const Gid& hop) {
  HostStack* const host = HostOf(path);
  if (host == nullptr) return kernel_.Neighbour(InterfaceOf(path), hop);
  Mac mac{};
  const auto answer = host->Find({hop, path.vlan_id}, mac);
  return answer == NeighbourCache::Answer::kKnown ? std::optional(mac) : std::nullopt;
}

// The host stack keeps asking for a neighbour until it has an answer.
void Neighbours::Probe(const PathKey& path, const Gid& hop) {
  if (HostOf(path) == nullptr) kernel_.Probe(InterfaceOf(path), hop);
}

// Routers do not forward packets with a link-local source or destination (RFC 4291, 2.5.6).
absl::StatusOr<Gid> Neighbours::NextHop(const PathKey& path) {
  if (const HostStack* host = HostOf(path)) {
    const absl::StatusOr<struct NextHop> hop = host->Route(path.source, path.destination);
    if (!hop.ok()) return hop.status();
    return hop->address;
  }
  const absl::StatusOr<Gid> hop = kernel_.NextHop(InterfaceOf(path), path.destination);
  if (!hop.ok() || *hop == path.destination) return hop;
  if (!IsLinkLocal(path.source) && !IsLinkLocal(path.destination)) return hop;
  return absl::UnavailableError(
      absl::StrCat("from ", FormatAddress(path.source), " to ", FormatAddress(path.destination),
                   " is a router, which link-local addresses do not pass"));
}

// Using the neighbour makes the kernel check whether it is still there.
FollowedPaths::Holder Neighbours::Follow(const PathKey& path, const Mac& mac) {
  if (!CanAsk(path) || OwnerOf(path) != nullptr || path.device->peer_mac()) return nullptr;
  const absl::StatusOr<Gid> hop = NextHop(path);
  if (!hop.ok()) return nullptr;
  HostStack* const host = HostOf(path);
  const NeighbourCache::Use use = host == nullptr ? nullptr : host->Hold({*hop, path.vlan_id});
  const FollowedPath followed{path, *hop, mac, use};
  const bool is_news = paths_.IsNews(followed);
  FollowedPaths::Holder holder = paths_.Follow(followed);
  if (is_news) {
    Tell(NeighbourhoodOf(followed), {.mac = mac});
    Pass();
  }
  Probe(path, *hop);
  return holder;
}

void Neighbours::OnNews(const NetlinkNews& news) {
  for (const NeighbourNews& each : news.neighbours) {
    Tell({.ifindex = each.ifindex, .address = each.address}, each);
  }
  Pass();
  if (news.routes || news.links) CheckAll();
}

// What there is no room for is found by a look at all paths.
void Neighbours::Tell(const Neighbourhood& neighbour, const NeighbourNews& news) {
  if (news_.size() == kMostNews && !news_.contains(neighbour)) return CheckAll();
  news_.insert_or_assign(neighbour, news);
}

Neighbours::Neighbourhood Neighbours::NeighbourhoodOf(const FollowedPath& path) const {
  if (HostOf(path.key) == nullptr) {
    return {.ifindex = InterfaceOf(path.key), .address = path.next_hop};
  }
  return {.host = path.key.device, .vlan_id = path.key.vlan_id, .address = path.next_hop};
}

// The first news are taken at once: the queue pairs of a host whose MAC changes go on.
void Neighbours::Pass() {
  if (news_.empty() && moved_.empty()) return;
  const Nanos begin = timers_.Now();
  if (begin < next_pass_) {
    if (pass_timer_ != 0) return;
    pass_timer_ = timers_.After(next_pass_ - begin, [this] {
      pass_timer_ = 0;
      Pass();
    });
    return;
  }
  std::ranges::move(TakeNews(), std::back_inserter(moved_));
  move_paths_(std::exchange(moved_, {}));
  const Nanos end = timers_.Now();
  next_pass_ = end + std::max(kBetweenPasses, (end - begin) * kPauseForEachPass);
}

std::vector<FollowedPath> Neighbours::TakeNews() {
  std::vector<FollowedPath> moved;
  const std::map<Neighbourhood, NeighbourNews> news = std::exchange(news_, {});
  if (news.empty()) return moved;
  std::set<Neighbourhood> used;
  for (const FollowedPaths::Holder& path : paths_.Held()) {
    const auto its = news.find(NeighbourhoodOf(*path));
    if (its == news.end()) continue;
    used.insert(its->first);
    const std::optional<Mac>& mac = its->second.mac;
    if (mac && paths_.Move(*path, path->next_hop, *mac)) moved.push_back(*path);
  }
  for (const Neighbourhood& neighbour : used) OnUsedNeighbour(news.at(neighbour));
  return moved;
}

void Neighbours::OnUsedNeighbour(const NeighbourNews& news) {
  if (!news.needs_probe) return;
  if (news.mac) return kernel_.Probe(news.ifindex, news.address);
  CheckAfter(news.deleted ? kSettleTime : kAskAgain);
}

void Neighbours::CheckAll() {
  check_again_ = !to_check_.empty();
  CheckAfter(kSettleTime);
}

void Neighbours::CheckAfter(Nanos delay) {
  const Nanos at = timers_.Now() + delay;
  if (at >= check_at_) return;
  timers_.Cancel(check_timer_);
  check_at_ = at;
  check_timer_ = timers_.After(delay, [this] { CheckSome(); });
}

void Neighbours::CheckSome() {
  if (to_check_.empty()) to_check_ = paths_.Held();
  for (size_t i = 0; i < kChecksPerTurn && !to_check_.empty(); ++i) {
    Check(*to_check_.back());
    to_check_.pop_back();
  }
  check_at_ = kNever;
  Pass();
  if (!to_check_.empty()) return CheckAfter(Nanos(0));
  if (std::exchange(check_again_, false)) CheckAfter(kSettleTime);
}

// A path without a route or neighbour keeps its MAC: retransmission decides how long it lives.
void Neighbours::Check(FollowedPath& path) {
  const absl::StatusOr<Gid> hop = CanAsk(path.key) ? NextHop(path.key) : absl::UnavailableError("");
  if (!hop.ok()) return;
  const std::optional<Mac> mac = Neighbour(path.key, *hop);
  const Mac before = path.mac;
  paths_.Move(path, *hop, mac.value_or(before));
  if (!mac) return Probe(path.key, *hop);
  if (*mac != before) moved_.push_back(path);
}

NeighbourLookups::~NeighbourLookups() {
  timers_.Cancel(delivery_);
  timers_.Cancel(sweep_);
  for (const auto& [path, asked] : asked_) neighbours_.Cancel(asked.lookup);
}

NeighbourLookups::Id NeighbourLookups::Start(const PathKey& path, uint32_t user, Nanos timeout,
                                             Handler handler) {
  const Id id = ++last_id_;
  waiters_[id] = {path, timers_.Now() + timeout, std::move(handler)};
  if (IsMulticast(path.destination)) {
    Answer(id, absl::OkStatus());
  } else if (const std::optional<absl::StatusOr<Mac>> at_once = neighbours_.Find(path)) {
    Answer(id, at_once->status());
  } else {
    Ask(path, user, id);
  }
  return id;
}

void NeighbourLookups::Ask(const PathKey& path, uint32_t user, Id id) {
  const bool is_new = !asked_.contains(path);
  if (is_new && !shares_.Take(user)) {
    return Answer(id, absl::DeadlineExceededError(
                          absl::StrCat(asked_.size(), " other neighbours are being asked for, ",
                                       shares_.HeldBy(user), " by user ", user)));
  }
  Asked& asked = asked_[path];
  asked.waiters.insert(id);
  deadlines_.insert({waiters_.at(id).deadline, id});
  SweepLater();
  if (!is_new) return;
  asked.user = user;
  asked.lookup = neighbours_.Resolve(
      path, [this, path](const absl::StatusOr<Mac>& mac) { OnAnswer(path, mac.status()); },
      kPatience);
}

void NeighbourLookups::OnAnswer(const PathKey& path, const absl::Status& status) {
  const std::set<Id> waiters = std::move(asked_.at(path).waiters);
  shares_.Return(asked_.at(path).user);
  asked_.erase(path);
  for (const Id id : waiters) {
    deadlines_.erase({waiters_.at(id).deadline, id});
    Answer(id, status);
  }
}

void NeighbourLookups::Answer(Id id, const absl::Status& status) {
  waiters_.at(id).answered = true;
  answers_[id] = status;
  if (delivery_ == 0) delivery_ = timers_.After(Nanos(0), [this] { Deliver(); });
}

// A handler may start and cancel other lookups.
void NeighbourLookups::Deliver() {
  delivery_ = 0;
  while (!answers_.empty()) {
    const auto [id, status] = *answers_.begin();
    answers_.erase(id);
    const Handler handler = std::move(waiters_.at(id).handler);
    waiters_.erase(id);
    handler(status);
    if (delivery_ != 0) return;
  }
}

void NeighbourLookups::Cancel(Id id) {
  const auto found = waiters_.find(id);
  if (found == waiters_.end()) return;
  if (found->second.answered) {
    answers_.erase(id);
  } else {
    Leave(found->second, id);
  }
  waiters_.erase(found);
}

void NeighbourLookups::Leave(const Waiter& waiter, Id id) {
  deadlines_.erase({waiter.deadline, id});
  Asked& asked = asked_.at(waiter.path);
  asked.waiters.erase(id);
  if (!asked.waiters.empty()) return;
  neighbours_.Cancel(asked.lookup);
  shares_.Return(asked.user);
  asked_.erase(waiter.path);
}

void NeighbourLookups::SweepLater() {
  if (sweep_ == 0) sweep_ = timers_.After(kSweep, [this] { Sweep(); });
}

void NeighbourLookups::Sweep() {
  sweep_ = 0;
  const Nanos now = timers_.Now();
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const Id id = deadlines_.begin()->second;
    const Waiter& waiter = waiters_.at(id);
    Leave(waiter, id);
    Answer(id, absl::DeadlineExceededError(absl::StrCat(FormatAddress(waiter.path.destination),
                                                        " does not answer on the network")));
  }
  if (!deadlines_.empty()) SweepLater();
}

}  // namespace uroce::nic
