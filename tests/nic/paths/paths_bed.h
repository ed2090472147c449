// SPDX-License-Identifier: Apache-2.0
// What nic/paths stands on, as the test says it: time, the kernel, devices, and frames.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nic/base/event_loop.h"
#include "nic/net/address.h"
#include "nic/net/net_device.h"
#include "nic/net/netlink.h"
#include "nic/paths/host_stack.h"
#include "nic/paths/neighbours.h"

namespace uroce::nic {

inline constexpr Nanos kMilli{1'000'000};
inline constexpr Nanos kSecond{1'000'000'000};

inline InterfaceAddress Address(const char* text, uint16_t vlan_id = 0) {
  InterfaceAddress address = ParseInterfaceAddress(text).value();
  address.vlan_id = vlan_id;
  return address;
}
inline Gid Ip(const char* text) { return ParseIpPrefix(text).value().gid; }
constexpr Mac MacOf(uint8_t last) { return {0x02, 0, 0, 0, 0, last}; }

/// Time passes in Run alone.
class TestTimers final : public Timers {
 public:
  Nanos Now() const override { return now_; }
  Id After(Nanos delay, std::function<void()> callback) override {
    const Id id = ++last_id_;
    timers_[{now_ + delay, id}] = std::move(callback);
    return id;
  }
  void Cancel(Id id) override {
    std::erase_if(timers_, [id](const auto& timer) { return timer.first.second == id; });
  }

  /// Fires what is due meanwhile, each at its time.
  void Run(Nanos duration) {
    const Nanos end = now_ + duration;
    while (!timers_.empty() && timers_.begin()->first.first <= end) FireNext();
    now_ = end;
  }
  void FireNext() {
    const auto first = timers_.extract(timers_.begin());
    now_ = std::max(now_, first.key().first);
    first.mapped()();
  }
  size_t pending() const { return timers_.size(); }

 private:
  Nanos now_{kSecond};
  Id last_id_ = 0;
  std::map<std::pair<Nanos, Id>, std::function<void()>> timers_;
};

class TestDevice final : public NetDevice {
 public:
  /// A device on the kernel interface with number 10 + `index`.
  TestDevice(uint32_t index, const std::vector<InterfaceAddress>& addresses)
      : name_(absl::StrCat("nic", index)),
        index_(index),
        mac_(MacOf(static_cast<uint8_t>(0xa0 + index))),
        gids_(mac_) {
    interfaces[0] = 10 + static_cast<int>(index);
    gids_.Update(mac_, addresses);
  }
  const std::string& name() const override { return name_; }
  uint32_t index() const override { return index_; }
  const Mac& mac() const override { return mac_; }
  bool link_up() const override { return has_link; }
  int wire() const override { return wire_number; }
  bool at_switch() const override { return is_at_switch; }
  bool IsEcnCapable(uint8_t) const override { return is_ecn_capable; }
  bool is_host() const override { return has_host; }
  int InterfaceOf(uint16_t vlan_id) const override {
    const auto found = interfaces.find(vlan_id);
    return found == interfaces.end() ? 0 : found->second;
  }
  const GidTable& gids() const override { return gids_; }
  const std::vector<Route>& routes() const override { return own_routes; }
  std::optional<Mac> peer_mac() const override { return mac_of_peers; }

  bool has_link = true;
  int wire_number = -1;
  bool is_at_switch = false;
  bool has_host = false;
  bool is_ecn_capable = false;
  std::map<uint16_t, int> interfaces;  ///< By VLAN.
  std::vector<Route> own_routes;
  std::optional<Mac> mac_of_peers;  ///< Of a port whose kernel resolves neighbours itself.

 private:
  const std::string name_;
  const uint32_t index_;
  const Mac mac_;
  GidTable gids_;
};

/// Every destination is a neighbour, unless the test says more.
class TestKernel final : public KernelRouting {
 public:
  using Place = std::pair<int, Gid>;  ///< An address on an interface.

  absl::StatusOr<Gid> NextHop(int ifindex, const Gid& destination) override {
    ++routes_asked;
    if (unreachable.contains(destination)) return absl::UnavailableError("no route");
    const auto found = gateways.find({ifindex, destination});
    return found == gateways.end() ? destination : found->second;
  }
  absl::StatusOr<KernelRoute> RouteTo(const Gid& destination, int ifindex) override {
    const auto found = routes.find({ifindex, destination});
    if (found == routes.end()) return absl::UnavailableError("no route");
    return found->second;
  }
  std::optional<Mac> Neighbour(int ifindex, const Gid& address) override {
    ++neighbours_asked;
    const auto found = neighbours.find({ifindex, address});
    return found == neighbours.end() ? std::nullopt : std::optional(found->second);
  }
  void Probe(int ifindex, const Gid& address) override { probes.emplace_back(ifindex, address); }

  std::set<Gid> unreachable;
  std::map<Place, Gid> gateways;
  std::map<Place, KernelRoute> routes;  ///< The place: where to, and by which interface, or 0.
  std::map<Place, Mac> neighbours;
  std::vector<Place> probes;
  int routes_asked = 0;
  int neighbours_asked = 0;
};

class TestChannel final : public FrameChannel {
 public:
  using Bytes = std::vector<uint8_t>;

  void SetReceiver(Receiver receiver) override { receiver_ = std::move(receiver); }
  bool has_room() const override { return sent.size() < room; }
  void Send(std::span<const uint8_t> frame) override {
    sent.emplace_back(frame.begin(), frame.end());
    if (on_send) on_send(sent.back());
  }
  bool is_idle() const override { return sent.empty(); }

  /// False: the host has no receiver, or the frame is malformed.
  bool Bring(std::span<const uint8_t> frame) { return receiver_ && receiver_(frame); }
  std::vector<Bytes> TakeSent() { return std::exchange(sent, {}); }

  size_t room = SIZE_MAX;
  std::function<void(const Bytes& frame)> on_send;
  std::vector<Bytes> sent;

 private:
  Receiver receiver_;
};

/// Neighbours of two devices, the first with a VLAN 7 too, and what they told of paths.
class PathsBed : public testing::Test {
 protected:
  static constexpr int kInterface = 10;      ///< Of the first device.
  static constexpr int kVlanInterface = 17;  ///< Its VLAN 7.
  static constexpr int kOtherInterface = 11;

  PathsBed() { device_.interfaces[7] = kVlanInterface; }

  PathKey To(const char* destination) const {
    return {&device_, 0, Ip("10.0.0.1"), Ip(destination)};
  }
  void Know(const char* address, uint8_t mac, int ifindex = kInterface) {
    kernel_.neighbours[{ifindex, Ip(address)}] = MacOf(mac);
  }
  /// The kernel found out that the neighbour has this MAC.
  static NetlinkNews News(const char* address, std::optional<Mac> mac, int ifindex = kInterface) {
    return {.neighbours = {{.ifindex = ifindex, .address = Ip(address), .mac = mac}}};
  }

  TestTimers timers_;
  TestKernel kernel_;
  TestDevice device_{0, {Address("10.0.0.1/24"), Address("10.7.0.1/24", 7), Address("fd00::1/64")}};
  TestDevice other_{1, {Address("10.1.0.1/24")}};
  std::vector<FollowedPath> moved_;
  TestChannel channel_;  ///< Of the first device, if it is its own host.
  Neighbours neighbours_{
      timers_, kernel_, {&device_, &other_}, [this](std::span<const FollowedPath> paths) {
        moved_.insert(moved_.end(), paths.begin(), paths.end());
      }};
};

}  // namespace uroce::nic
