// SPDX-License-Identifier: Apache-2.0
// One queue pair of an unreliable connection (docs/protocol/transport.md, section 9).
#pragma once

#include "pipeline/transport/unreliable_queue_pair.h"
#include "pipeline/wire/packet.h"

namespace uroce::transport {

/// Unreliable connection: SEND and WRITE, with or without immediate. Nothing is acknowledged. A
/// message with a missing packet is lost, but bytes that a lost WRITE has placed stay.
/// Pure; one thread. `now` never goes back. No allocation after construction.
///
/// The shell's contract, per arriving packet (ICRC, addresses and P_Key already checked):
///   if (NeedsReceive(header)) PostReceive(next RQ entry, if there is one);
///   result = OnPacket(packet, now, effect);
///   if (effect.kind != kNone) OnEffectDone(outcome, 0, now);
/// For each packet from PollPacket the shell calls OnSent when its bytes are read, or
/// OnGatherFailed, before the next packet. Then PollLocal, PollCompletion, PollEvent.
class UcQueuePair : public UnreliableQueuePair {
 public:
  explicit UcQueuePair(const UnreliableConfig& config) : UnreliableQueuePair(config) {}

  [[nodiscard]] PostResult Post(const SendWork& work);
  [[nodiscard]] bool PollPacket(Nanos now, TxPacket& packet);
  void OnSent(const TxPacket& packet);

  /// Whether executing this packet takes a receive work that the core does not hold yet.
  bool NeedsReceive(const wire::TransportHeader& header) const;
  [[nodiscard]] ReceiveResult OnPacket(const wire::Packet& packet, Nanos now, Effect& effect);
  void OnEffectDone(EffectOutcome outcome, uint64_t original, Nanos now);
  wire::Psn expected_psn() const { return epsn_; }

 private:
  /// Whether the packet begins a message or is the next of the one under way; moves ePSN.
  bool Follows(const wire::TransportHeader& header, const RequestShape& shape);
  /// Gives the message up; its receive work waits for the next one.
  ReceiveResult Drop(ReceiveResult why);
  void Commit();
};

}  // namespace uroce::transport
