// SPDX-License-Identifier: Apache-2.0
// Runs the negotiation of capabilities with peers: provides the time and the datagrams, and tells
// queue pairs the result.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "nic/base/event_loop.h"
#include "nic/net/followed_paths.h"
#include "nic/paths/gsi.h"
#include "nic/peers/capability_negotiation.h"

namespace uroce::nic {

class Nic;
class NicDevice;

/// Control thread.
class NegotiationHost {
 public:
  NegotiationHost(EventLoop& loop, Nic& nic, Gsi& gsi);
  ~NegotiationHost();
  NegotiationHost(const NegotiationHost&) = delete;
  NegotiationHost& operator=(const NegotiationHost&) = delete;

  /// Returns what is known of the NIC at the other end of a reliable connection's path. The peer is
  /// asked while the result is held. Null when the peer is not asked: the device offers nothing, or
  /// too many peers are being asked.
  peers::Holder Use(const PathKey& path, uint32_t user);
  void AddDevice(const NicDevice& device);
  /// Offers nothing there any more.
  void RemoveDevice(const NicDevice& device);
  const peers::Counters& counters() const { return negotiation_.counters(); }

 private:
  void OnMad(const cm::Route& route, std::span<const uint8_t> mad);
  void OnTimer();
  /// Carries out what the negotiation requests.
  void Settle();
  /// `asked_by`: the MAC of the frame to which answers among them belong.
  void SendDatagrams(const std::optional<Mac>& asked_by);
  void TellQueuePairs();

  EventLoop& loop_;
  Nic& nic_;
  Gsi& gsi_;
  peers::CapabilityNegotiation negotiation_;
  EventLoop::Id timer_ = 0;
  Nanos timer_at_ = kNever;
};

}  // namespace uroce::nic
