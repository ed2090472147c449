// SPDX-License-Identifier: Apache-2.0
// One queue pair of unreliable datagrams (docs/protocol/transport.md, section 10).
#pragma once

#include "pipeline/transport/unreliable_queue_pair.h"
#include "pipeline/wire/packet.h"

namespace uroce::transport {

/// The bytes in front of the payload of a received datagram: those of wire::GrhArea.
inline constexpr uint32_t kGrhAreaBytes = 40;

/// Unreliable datagrams: each SEND is one packet to the destination that its work names. The shell
/// decides which queue pairs get a multicast packet, and calls OnPacket for each.
/// Pure; one thread. The shell's contract is that of UcQueuePair. The effect of an arriving
/// datagram covers its payload, and asks for the GRH area in front of it.
class UdQueuePair : public UnreliableQueuePair {
 public:
  explicit UdQueuePair(const UnreliableConfig& config) : UnreliableQueuePair(config) {}

  /// A work with a payload beyond the MTU fails in its turn, with LOC_LEN_ERR.
  [[nodiscard]] PostResult Post(const SendWork& work);
  [[nodiscard]] bool PollPacket(Nanos now, TxPacket& packet);
  void OnSent(const TxPacket& packet);

  /// Whether this packet takes a receive work that the core does not hold yet.
  bool NeedsReceive(const wire::TransportHeader& header) const;
  [[nodiscard]] ReceiveResult OnPacket(const wire::Packet& packet, Nanos now, Effect& effect);
  void OnEffectDone(EffectOutcome outcome, uint64_t original, Nanos now);

 private:
  ReceiveResult OnTooLong();

  Completion arriving_;  ///< The completion of the datagram whose effect is under way.
};

}  // namespace uroce::transport
