// SPDX-License-Identifier: Apache-2.0
// The responder half of a reliable connection: executes requests in PSN order and answers them
// (docs/protocol/transport.md, section 4).
#pragma once

#include <cstdint>

#include "pipeline/base/types.h"
#include "pipeline/transport/queue_pair_types.h"
#include "pipeline/transport/responder_state.h"
#include "pipeline/transport/selective_repeat.h"
#include "pipeline/transport/work.h"
#include "pipeline/wire/packet.h"

namespace uroce::transport {

/// Pure, one thread, owned by an RcQueuePair, which knows the state and calls accordingly.
///
/// OnRequest checks a request, the effect that it returns executes it, and OnEffectDone counts it
/// (ePSN, MSN, completion, acknowledgement). Without an effect OnRequest counts it.
/// Answers leave in PSN order: replies to READs and atomics first, then one NAK or one ACK, which
/// covers all SENDs and WRITEs that were executed (section 4.2).
class Responder {
 public:
  Responder(const RcConfig& config, QueuePairCounters& counters, EventSet& events);

  // ---- state ----
  void Configure(const QueuePairAttributes& attributes);
  /// INIT to RTR: the first request must carry `expected`.
  void Start(wire::Psn expected);
  void Reset();
  /// Error state: the receive work held, and all posted later, complete flushed. Answers are
  /// dropped, except those owed up to a request that the responder itself refused.
  void Flush();
  /// A request was refused with a fatal NAK: the queue pair must enter ERR.
  bool failed() const { return failed_; }
  /// How it failed; meaningful once failed().
  const Failure& failure() const { return failure_; }
  /// Why the last request was not executed.
  const RequestReport& report() const { return report_; }

  // ---- selective repeat ----
  /// Sets whether the requester agrees to selective repeat.
  void SetSelective(bool agreed);
  /// Yields ePSN when its packet is kept: the shell gives it to OnRequest now, or has lost it.
  [[nodiscard]] bool PollKept(wire::Psn& psn);
  bool HasKept() const { return kept_.is_next_kept(); }
  bool keeps() const { return kept_.keeps(); }

  // ---- events ----
  bool NeedsReceive(const wire::TransportHeader& header) const;
  void PostReceive(const ReceiveWork& work);
  uint32_t receive_queue() const { return message_.has_receive() ? message_.receive().queue : 0; }
  uint32_t receive_room() const { return completions_.room(); }
  /// See Acknowledgements::OfferCredits.
  void OfferCredits(uint32_t receives) { acks_.OfferCredits(receives); }
  [[nodiscard]] PacketResult OnRequest(const wire::Packet& packet, SrqAccess srq, Effect& effect);
  /// See RcQueuePair::PlanRun.
  [[nodiscard]] bool PlanRun(const wire::Packet& first, uint32_t packets, Effect& effect) const;
  void CommitRun(uint32_t packets, bool asks_for_ack);
  void OnEffectDone(EffectOutcome outcome, uint64_t original);
  void OnGatherFailed(const TxPacket& packet);

  // ---- outputs ----
  bool HasPacket() const { return resources_.owes() || acks_.owes_any(); }
  /// True while a READ is being answered, with possibly more than one packet.
  bool streaming() const {
    return resources_.owes() && resources_.Front().kind == ResponderResource::Kind::kRead;
  }
  [[nodiscard]] bool PollPacket(TxPacket& packet);
  /// See RcQueuePair.
  uint32_t RunBehind(const TxPacket& packet) const;
  [[nodiscard]] TxRun PollRun(uint32_t most);
  [[nodiscard]] bool PollCompletion(Completion& completion) {
    return completions_.Poll(completion);
  }
  wire::Psn expected_psn() const { return epsn_; }

 private:
  /// The request whose effect is under way: OnRequest fills it in, OnEffectDone reads it.
  struct Step {
    enum class Kind : uint8_t {
      kMessage,
      kRefuseNotReady,
      kRead,
      kAtomic,
      kAtomicWrite,
      kReplay,
      kKeep
    };
    Kind kind = Kind::kMessage;
    bool ack_request = false;
    wire::Reth reth;                      // kRead
    uint32_t xrc_srqn = 0;                // kRead
    ResponderResource* replay = nullptr;  // kReplay
    wire::Psn replay_psn;                 // kReplay
    uint32_t repeats = 0;                 // kReplay: responses; 0: all from replay_psn on.
    wire::Psn kept_psn;                   // kKeep
    uint32_t kept_packets = 0;            // kKeep: PSNs that the packet takes.
  };

  PacketResult OnAhead(const wire::Packet& packet, Effect& effect);
  PacketResult OnGap();
  // For peers that agree to selective repeat.
  PacketResult OnBehindHole(const wire::Packet& packet, Effect& effect);
  void OnKeepDone(EffectOutcome outcome);
  /// A packet that is kept has come again.
  PacketResult OnKeptAgain();
  /// ePSN has moved while packets ahead of it were known.
  void AdvanceKept();
  void ForgetKept();
  /// A map is due only while there is a hole.
  void TendMap() { acks_.OweMap(acks_.owes_map() && kept_.is_open()); }
  PacketResult OnDuplicate(const wire::TransportHeader& header, Effect& effect);
  /// Whether a SEND or WRITE packet may have had this PSN, which is before ePSN.
  bool WasMessagePacket(wire::Psn psn) const;
  PacketResult OnDuplicateRead(const wire::TransportHeader& header, Effect& effect);
  /// Whether the request asks for the rest of `resource` from its PSN on. With selective repeat it
  /// may ask for a part of the rest.
  bool AsksAgainFor(const ResponderResource& resource, const wire::TransportHeader& header) const;
  PacketResult OnDuplicateAtomic(const wire::TransportHeader& header);
  PacketResult OnSend(const wire::Packet& packet, Effect& effect);
  PacketResult OnWrite(const wire::Packet& packet, Effect& effect);
  PacketResult OnWriteWithoutReceive(const wire::Packet& packet, Effect& effect);
  PacketResult ExecutePacket(Effect& effect);
  PacketResult OnRead(const wire::Packet& packet, Effect& effect);
  PacketResult OnAtomic(const wire::Packet& packet, Effect& effect);
  PacketResult OnAtomicWrite(const wire::Packet& packet, Effect& effect);
  bool receive_ready() const { return message_.has_receive() && completions_.room() > 1; }

  void CommitPacket();
  void CommitMessage();
  void CommitRead();
  void CommitAtomic(ResponderResource::Kind kind, uint64_t original);
  void FailReceive(WcStatus status);

  PacketResult RefuseNotReady();
  /// Sends a fatal NAK; the connection ends.
  PacketResult Refuse(uint8_t syndrome, Refusal refusal);
  /// Does as Refuse, and completes the receive work in use with `status`.
  PacketResult RefuseReceive(uint8_t syndrome, WcStatus status, Refusal refusal);
  PacketResult RefuseInvalid(Refusal refusal);
  PacketResult RefuseAccess();
  /// The connection ends.
  void Fail(WcStatus status, uint8_t syndrome, Refusal refusal);
  void RefuseEffect(EffectOutcome outcome);

  void FillReply(TxPacket& packet);
  void FillReadResponse(const ResponderResource& resource, TxPacket& packet);
  static void FillAcknowledge(wire::Psn psn, const wire::Aeth& aeth, TxPacket& packet);
  void FillSelectiveAcknowledge(TxPacket& packet);
  wire::Aeth AethOfAck() const { return acks_.Aeth(message_.has_receive()); }

  /// What the program has set: see Configure.
  struct Settings {
    PathMtu mtu;
    bool remote_write = false;
    bool remote_read = false;
    bool remote_atomic = false;
    uint8_t min_rnr_timer = 0;
  };

  QueuePairCounters& counters_;
  EventSet& events_;
  const bool xrc_;
  wire::Psn epsn_;
  Settings settings_;
  bool failed_ = false;
  bool flushing_ = false;
  Acknowledgements acks_;
  KeptPackets kept_;
  InboundMessage message_;
  RequestReport report_;
  Failure failure_;
  Step step_;
  ResponderResources resources_;
  ReceiveCompletions completions_;
};

}  // namespace uroce::transport
