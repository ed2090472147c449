// SPDX-License-Identifier: Apache-2.0
// One queue pair of unreliable datagrams (docs/protocol/transport.md, section 10).
#pragma once

#include "pipeline/transport/unreliable_queue_pair.h"
#include "pipeline/wire/packet.h"

namespace uroce::transport {

/// What stands in front of the payload of a datagram received: the bytes of wire::GrhArea.
inline constexpr uint32_t kGrhAreaBytes = 40;

/// Unreliable datagrams: each SEND is one packet to wherever its work says. Which queue pairs a
/// multicast packet is for is the shell's business; each gets it by OnPacket.
/// Pure; one thread. The shell's contract is that of UcQueuePair. The effect of an arriving
/// datagram covers its payload and tells that the GRH area goes in front of it.
class UdQueuePair : public UnreliableQueuePair {
 public:
  explicit UdQueuePair(const UnreliableConfig& config) : UnreliableQueuePair(config) {}

  /// A payload beyond the MTU fails in its turn, with LOC_LEN_ERR.
  [[nodiscard]] PostResult Post(const SendWork& work);
  [[nodiscard]] bool PollPacket(Nanos now, TxPacket& packet);
  void OnSent(const TxPacket& packet);

  /// Whether this packet takes a receive work that the core does not hold yet.
  bool NeedsReceive(const wire::TransportHeader& header) const;
  [[nodiscard]] ReceiveResult OnPacket(const wire::Packet& packet, Nanos now, Effect& effect);
  void OnEffectDone(EffectOutcome outcome, uint64_t original, Nanos now);

 private:
  ReceiveResult OnTooLong();

  Completion arriving_;  ///< Of the datagram whose effect is under way.
};

}  // namespace uroce::transport
