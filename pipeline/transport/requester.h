// SPDX-License-Identifier: Apache-2.0
// The requester half of a reliable connection: turns works into requests, and responses into
// completions (docs/protocol/transport.md, section 3).
#pragma once

#include <cstdint>

#include "pipeline/base/types.h"
#include "pipeline/transport/loss_recovery.h"
#include "pipeline/transport/queue_pair_types.h"
#include "pipeline/transport/responder_state.h"
#include "pipeline/transport/send_queue.h"
#include "pipeline/transport/work.h"
#include "pipeline/wire/packet.h"

namespace uroce::transport {

/// Pure, one thread, owned by an RcQueuePair, which knows the state and calls accordingly.
/// SendWorks holds the works and PSNs. LossRecovery decides what is sent again, and how many
/// packets may be in flight.
class Requester {
 public:
  Requester(const RcConfig& config, QueuePairCounters& counters);
  Requester(const Requester&) = delete;
  Requester& operator=(const Requester&) = delete;

  // ---- state ----
  void Configure(const QueuePairAttributes& attributes);
  /// RTR to RTS: the first request carries `first`.
  void Start(wire::Psn first);
  /// Hold is for SQD: works under way are finished, no other work begins.
  void SetHold(bool hold) { holding_ = hold; }
  /// Forgets all works.
  void Reset();
  /// Error state: all works held, and all that are posted later, complete with WR_FLUSH_ERR; a work
  /// that failed comes first with its own status.
  void Flush();
  /// The work at the head has failed, its status is set: the queue pair must enter ERR.
  bool failed() const { return failure_.failed(); }
  /// How it failed; meaningful once failed().
  const Failure& failure() const { return failure_.failure(); }
  /// True while works are under way.
  bool busy() const { return works_.under_way() || executing_local_; }

  // ---- works ----
  [[nodiscard]] PostResult Post(const SendWork& work) { return works_.Post(work); }
  const SendWorks& works() const { return works_; }
  /// True when the turn of a local work has come: no later work begins before OnLocalDone.
  bool HasLocal() const { return NextGate() == Gate::kLocal; }
  [[nodiscard]] bool PollLocal(LocalEffect& effect);
  void OnLocalDone(EffectOutcome outcome);

  // ---- events ----
  /// Applies an ACK, NAK, READ response or atomic acknowledgement. The response also acknowledges
  /// SENDs and WRITEs before its PSN; a READ or atomic before has lost its response and is resent.
  [[nodiscard]] PacketResult OnResponse(const wire::Packet& packet, Nanos now, Effect& effect);
  void OnEffectDone(EffectOutcome outcome, Nanos now);
  /// See RcQueuePair: responses to one READ.
  [[nodiscard]] bool PlanRun(const wire::Packet& first, uint32_t packets, Effect& effect) const;
  void CommitRun(const wire::Packet& first, uint32_t packets, Nanos now);
  void OnGatherFailed(const TxPacket& packet);
  /// Ends an RNR wait, or resends, or fails the oldest work when its retries are spent.
  void OnDeadline(Nanos now, bool has_heard_all);
  /// The next packet may not leave for now. The ACK timer runs as if the packet were sent and lost.
  void OnHeld(Nanos now);

  // ---- READs: for a shell that bounds what is asked for ----
  /// Lets READs ask for as much as takes `bytes` of the receive buffer (ReceiveBufferBytes).
  /// Without a call they ask for as much as they want.
  void AllowReads(uint64_t bytes) { allowance_.Set(bytes); }
  const ReadAllowance& read_allowance() const { return allowance_; }
  /// What the READ takes that only waits for an allowance; 0: none waits.
  uint64_t WantedByRead() const;
  /// What the responses take that are asked for and have not come.
  uint64_t AwaitedByReads() const;

  // ---- outputs ----
  bool HasPacket() const {
    const Gate gate = NextGate();
    return gate == Gate::kOpen || gate == Gate::kUnfit;
  }
  [[nodiscard]] bool PollPacket(Nanos now, TxPacket& packet);
  /// See RcQueuePair.
  bool IsWithinMessage() const {
    return works_.unsent() != 0 && !works_.next_is_new() && !recovery_.has_lost();
  }
  uint32_t RunBehind(const TxPacket& packet) const;
  [[nodiscard]] TxRun PollRun(Nanos now, uint32_t most);
  /// False: PollCompletion yields nothing.
  bool MayComplete() const { return works_.has_completed() || flushing_; }
  [[nodiscard]] bool PollCompletion(Completion& completion);
  /// The deadline, what was lost, and what congestion control knows.
  LossRecovery& recovery() { return recovery_; }
  const LossRecovery& recovery() const { return recovery_; }

 private:
  /// Whether the next packet may leave.
  enum class Gate : uint8_t {
    kShut,
    kOpen,
    kLocal,  ///< The next work is local: PollLocal yields it.
    kUnfit,  ///< The next work cannot be executed: it fails at the head.
    kRead,   ///< The next packet is a READ request that waits for an allowance.
  };

  Gate NextGate() const;
  Gate StartGate(const HeldWork& work) const;
  /// What the next request of `work`, a READ, takes of the receive buffer.
  uint64_t CostOf(const HeldWork& work) const;
  void Begin(const HeldWork& work);
  void FailAtHead(uint32_t index, WcStatus status);
  /// `syndrome` is that of the NAK that caused the failure; 0 when none did.
  void Fail(WcStatus status, uint8_t syndrome = 0);
  /// Fails unless LossRecovery `goes_on`: its retries are exhausted.
  void FailIfExhausted(bool goes_on) {
    if (!goes_on) Fail(WcStatus::kRetryExcErr);
  }
  bool AsksForAck() const;

  void TakeCredits(const wire::TransportHeader& header);
  PacketResult OnSelectiveAcknowledge(const wire::Packet& packet, Nanos now);
  PacketResult OnAcknowledge(const wire::TransportHeader& header, Nanos now);
  PacketResult OnNak(const wire::TransportHeader& header, Nanos now);
  /// A NAK that ends the connection.
  void OnFatalNak(uint8_t syndrome);
  PacketResult OnRnrNak(const wire::TransportHeader& header, Nanos now);
  /// A READ response or an atomic acknowledgement.
  PacketResult OnDataResponse(const wire::Packet& packet, Nanos now, Effect& effect);
  /// A response ahead of its turn: its bytes are placed at once.
  PacketResult OnEarlyResponse(const wire::Packet& packet, Effect& effect);
  /// Acknowledges all before `end`. False when a READ or atomic before `end` has lost its response:
  /// a resend from there has begun, or the requester has failed.
  bool AcknowledgeBefore(wire::Psn end, Nanos now);
  /// Acknowledges all before `end`. False when a READ or atomic before it is incomplete.
  bool Acknowledge(wire::Psn end, Nanos now);
  /// Something new was acknowledged.
  void OnProgress();

  QueuePairCounters& counters_;
  SendWorks works_;
  LossRecovery recovery_;
  SendCredits credits_;
  HeadFailure failure_;
  ReadAllowance allowance_;
  wire::Psn effect_psn_;  ///< Of the response whose effect is under way.
  uint8_t max_rd_atomic_ = 0;
  const bool signal_all_;
  bool holding_ = false;
  bool executing_local_ = false;
  bool flushing_ = false;
};

}  // namespace uroce::transport
