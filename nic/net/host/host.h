// SPDX-License-Identifier: Apache-2.0
// The host of one port whose interface has no IP stack of the kernel: answers ARP, neighbour
// discovery and ping, claims its addresses, finds next hops, joins groups. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "nic/net/address.h"
#include "nic/net/host/address_claim.h"
#include "nic/net/host/frame.h"
#include "nic/net/host/group_membership.h"
#include "nic/net/host/neighbour_cache.h"
#include "nic/net/host/neighbour_messages.h"
#include "nic/net/route.h"
#include "pipeline/base/types.h"

namespace uroce::nic {

/// The answer to an echo request, with the same bytes. It goes back to the MAC that sent the frame:
/// the requester or the router on the way to it. The caller has checked that the request is for an
/// address of ours, and the checksum of ICMPv6.
Frame MakeEchoReply(const EthernetView& ethernet, const IpView& request, const Mac& our_mac);

struct HostConfig {
  Mac mac{};
  std::vector<InterfaceAddress> addresses;
  std::vector<Route> routes;
};

/// A result that the host reports.
struct HostEvent {
  enum class Kind : uint8_t {
    kAddressUsable,     ///< `who` is an address of ours, without a conflict.
    kAddressLost,       ///< `who` is configured for us, but `mac` has it.
    kAddressContested,  ///< `mac` claimed `who`; we defended it.
    kNeighbour,         ///< `who` has `mac` from now on.
    kNeighbourSilent,   ///< `who` does not answer.
  };
  Kind kind = Kind::kAddressUsable;
  NextHop who;
  Mac mac{};
};

/// Implements ARP with conflict detection, neighbour discovery, echo, group memberships, and
/// routes. Ignores router advertisements and redirects: addresses and routes are configured. One
/// thread. `now` never goes back. After any call, poll frames and events until there is none, and
/// call NextDeadline again.
class Host {
 public:
  /// The host has the addresses of `config` and the link-local address of its MAC (which is GID 0).
  /// No address is in use before the first OnLink.
  explicit Host(const HostConfig& config);
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  // ---- events in ----
  void OnLink(bool up, Nanos now);
  FrameResult OnFrame(Bytes frame, Nanos now);
  void OnDeadline(Nanos now);
  Nanos NextDeadline() const;

  // ---- multicast groups, beside those of neighbour discovery ----
  /// Joins on every VLAN with an address of the group's family.
  void Join(const Gid& group, Nanos now) { groups_.Join(group, now); }
  void Leave(const Gid& group) { groups_.Leave(group); }

  // ---- outputs ----
  std::optional<Frame> PollFrame();
  std::optional<HostEvent> PollEvent();

  // ---- the way to a destination ----
  absl::StatusOr<NextHop> Route(const Gid& source, const Gid& destination) const;
  /// As NeighbourCache::Find.
  NeighbourCache::Answer Find(const NextHop& hop, Nanos now, Mac& mac);
  NeighbourCache::Use Hold(const NextHop& hop) { return neighbours_.Hold(hop); }

  // ---- queries ----
  /// The configured addresses that may be used, in their order.
  std::vector<InterfaceAddress> UsableAddresses() const;
  /// Whether conflict detection is still running for an address.
  bool has_tentative_address() const;
  /// Counts of frames by result.
  const std::array<uint64_t, kFrameResultCount>& frame_counts() const { return frame_counts_; }

 private:
  FrameResult Dispatch(Bytes frame, Nanos now);
  FrameResult OnArp(const EthernetView& ethernet, Nanos now);
  FrameResult OnIpv4(const EthernetView& ethernet, Nanos now);
  FrameResult OnIpv6(const EthernetView& ethernet, Nanos now);
  FrameResult OnSolicitation(const EthernetView& ethernet, const IpView& ip, Nanos now);
  FrameResult OnAdvertisement(const EthernetView& ethernet, const IpView& ip, Nanos now);
  FrameResult OnEcho(const EthernetView& ethernet, const IpView& ip);

  AddressClaim* FindClaim(uint16_t vlan_id, const Gid& address);
  bool IsUsable(uint16_t vlan_id, const Gid& address);
  void OnConflict(AddressClaim& claim, const Mac& other, Nanos now);
  void RunClaim(AddressClaim& claim, Nanos now);
  void SendProbe(const InterfaceAddress& address);
  void Announce(const InterfaceAddress& address);
  void AnswerArp(const ArpPacket& request, uint16_t vlan_id);
  void AnswerSolicitation(const NeighbourSolicitation& solicitation, const EthernetView& ethernet);
  void Ask(const NeighbourCache::Question& question);
  void DrainNeighbours();

  const Mac mac_;
  const std::vector<nic::Route> routes_;
  AddressClaims claims_;               ///< The first is the link-local one of the MAC.
  std::vector<InterfaceAddress> own_;  ///< The addresses of `claims_`.
  NeighbourCache neighbours_;
  std::deque<Frame> frames_;
  GroupMembership groups_;
  std::deque<HostEvent> events_;
  std::array<uint64_t, kFrameResultCount> frame_counts_{};
};

}  // namespace uroce::nic
