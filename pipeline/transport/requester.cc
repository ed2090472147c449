// SPDX-License-Identifier: Apache-2.0
#include "pipeline/transport/requester.h"

#include "pipeline/transport/loss_recovery.h"
#include "pipeline/transport/send_queue.h"
#include "pipeline/transport/work.h"
#include "pipeline/wire/packet.h"

namespace uroce::transport {
namespace {

WcStatus LocalFailure(WorkOpcode opcode) {
  return opcode == WorkOpcode::kBindWindow ? WcStatus::kMwBindErr : WcStatus::kLocQpOpErr;
}

}  // namespace

Requester::Requester(const RcConfig& config, QueuePairCounters& counters)
    : counters_(counters),
      works_(config.max_send_works),
      recovery_(config, works_, counters),
      signal_all_(config.signal_all) {}

// ---- state ----

void Requester::Configure(const QueuePairAttributes& attributes) {
  works_.SetMtu(PathMtu(attributes.path_mtu_bytes));
  max_rd_atomic_ = attributes.max_rd_atomic;
  recovery_.Configure(attributes);
}

void Requester::Start(wire::Psn first) {
  works_.Start(first);
  recovery_.Start();
}

void Requester::Reset() {
  works_.Reset();
  credits_ = {};
  recovery_.Reset();
  failure_.Reset();
  holding_ = executing_local_ = flushing_ = false;
}

void Requester::Flush() {
  flushing_ = true;
  executing_local_ = false;
  recovery_.Stop();
}

void Requester::FailAtHead(uint32_t index, WcStatus status) {
  failure_.FailAtHead(index, status);
  if (works_.head_index() == index) Fail(status);
}

void Requester::Fail(WcStatus status, uint8_t syndrome) {
  failure_.Fail({.side = Failure::Side::kRequester,
                 .status = status,
                 .syndrome = syndrome,
                 .psn = works_.una()});
  recovery_.Stop();
}

// ---- sending ----

Requester::Gate Requester::NextGate() const {
  if (recovery_.waiting() || flushing_) return Gate::kShut;
  if (recovery_.has_lost()) return Gate::kOpen;
  if (works_.unsent() == 0 || failure_.IsPendingAt(works_.next_index())) return Gate::kShut;
  if (!recovery_.MaySend(works_.RequestsInFlight()) ||
      works_.InFlight() >= wire::kMaxOutstandingPsns)
    return Gate::kShut;
  const HeldWork& work = works_.next();
  if (works_.next_is_new()) return StartGate(work);
  if (allowance_.is_limited() && work.is_read()) [[unlikely]] {
    return allowance_.Covers(CostOf(work)) ? Gate::kOpen : Gate::kRead;
  }
  return credits_.AwaitsProbe(work.first_psn, works_.next_psn()) ? Gate::kShut : Gate::kOpen;
}

Requester::Gate Requester::StartGate(const HeldWork& work) const {
  if (holding_ || executing_local_) return Gate::kShut;
  if (!work.executable() || work.length_bytes > kMaxMessageBytes) return Gate::kUnfit;
  if (work.is_plain()) return Gate::kOpen;
  if (work.fence() && works_.reads_outstanding() != 0) return Gate::kShut;
  if (work.is_local()) {
    // An invalidation waits for all works before it, which may use the key
    // (docs/protocol/transport.md, section 4.4).
    const bool waits = work.opcode == WorkOpcode::kLocalInvalidate && works_.under_way();
    return waits ? Gate::kShut : Gate::kLocal;
  }
  if (work.takes_receive() && !credits_.MayBegin()) return Gate::kShut;
  if (!work.is_read_or_atomic()) return Gate::kOpen;
  if (max_rd_atomic_ == 0) return Gate::kUnfit;
  if (works_.reads_outstanding() >= max_rd_atomic_) return Gate::kShut;
  const uint32_t packets = work.is_read() ? works_.mtu().PacketsOf(work.length_bytes) : 1;
  if (works_.InFlight() + packets > wire::kMaxOutstandingPsns) return Gate::kShut;
  if (!allowance_.is_limited() || !work.is_read()) return Gate::kOpen;
  return allowance_.Covers(CostOf(work)) ? Gate::kOpen : Gate::kRead;
}

uint64_t Requester::CostOf(const HeldWork& work) const {
  const PathMtu mtu = works_.mtu();
  const bool is_new = works_.next_is_new();
  const uint32_t sent = is_new ? 0 : Distance(work.first_psn, works_.next_psn());
  return ReceiveBufferBytes(work.length_bytes - mtu.OffsetOf(sent),
                            mtu.PacketsOf(work.length_bytes) - sent, recovery_.selective());
}

uint64_t Requester::WantedByRead() const {
  return NextGate() == Gate::kRead ? CostOf(works_.next()) : 0;
}

uint64_t Requester::AwaitedByReads() const {
  if (flushing_ || failed()) return 0;
  return ReceiveBufferBytes(works_.ResponseBytesInFlight(), works_.ResponsesInFlight(),
                            recovery_.selective());
}

void Requester::Begin(const HeldWork& work) {
  if (work.takes_receive() && !credits_.Covers()) {
    ++counters_.credit_probes;
    credits_.BeginProbe(works_.next_psn());
  }
  credits_.OnMessageBegun();
  works_.Begin();
}

bool Requester::AsksForAck() const {
  return recovery_.AsksForAck(works_.RequestsInFlight()) || credits_.IsProbe(works_.next_psn());
}

// Flat, because otherwise the calls of each packet are 1 in 25 instructions of a 64-byte WRITE.
[[gnu::flatten]] bool Requester::PollPacket(Nanos now, TxPacket& packet) {
  const Gate gate = NextGate();
  if (gate == Gate::kShut || gate == Gate::kLocal || gate == Gate::kRead) return false;
  recovery_.BeforeSend(works_.next_psn(), now);
  if (recovery_.has_lost()) {
    recovery_.FillLost(packet);
    packet.header.ack_request |= AsksForAck();
    packet.retransmission = true;
    ++counters_.retransmitted_pkts;
    return true;
  }
  const HeldWork& work = works_.next();
  if (gate == Gate::kUnfit) {
    const bool too_long = work.executable() && work.length_bytes > kMaxMessageBytes;
    FailAtHead(works_.next_index(), too_long ? WcStatus::kLocLenErr : WcStatus::kLocQpOpErr);
    return false;
  }
  if (works_.next_is_new()) Begin(work);
  packet.retransmission = works_.resends();
  if (packet.retransmission) {
    ++counters_.retransmitted_pkts;
    packet.resend = recovery_.resend();
  }
  if (allowance_.is_limited() && work.is_read()) [[unlikely]] {
    allowance_.Take(CostOf(work));
  }
  const uint32_t packets = FillRequest(work, works_.mtu(), works_.next_psn(), packet);
  if (!packet.header.ack_request) packet.header.ack_request = AsksForAck();
  const uint32_t in_flight = works_.RequestsInFlight();
  works_.Advance(work, packets);
  // An answer behind a READ waits for the READ's responses, so its time is not measured.
  const bool measurable =
      packet.header.ack_request && works_.reads_outstanding() == 0 && !packet.retransmission;
  recovery_.OnSent(packet.header.psn, in_flight, measurable, now);
  return true;
}

// Each packet that is sent again tells why, so these come one by one.
uint32_t Requester::RunBehind(const TxPacket& packet) const {
  if (recovery_.has_lost() || works_.unsent() == 0 || works_.next_is_new()) return 0;
  if (packet.retransmission || works_.resends()) return 0;
  const HeldWork& work = works_.next();
  const uint32_t sent = Distance(work.first_psn, works_.next_psn());
  const bool is_behind = sent > 1 && packet.header.psn + 1 == works_.next_psn();
  if (!is_behind || work.is_read_or_atomic()) return 0;
  return work.packets - sent - 1;  // The last packet is no MIDDLE.
}

TxRun Requester::PollRun(Nanos now, uint32_t most) {
  const HeldWork& work = works_.next();
  TxRun run;
  for (; run.packets < most && NextGate() == Gate::kOpen; ++run.packets) {
    const wire::Psn psn = works_.next_psn();
    recovery_.BeforeSend(psn, now);
    const bool asks = AsksWithin(Distance(work.first_psn, psn)) || AsksForAck();
    run.asks |= uint64_t{asks} << run.packets;
    const uint32_t in_flight = works_.RequestsInFlight();
    works_.Advance(work, 1);
    recovery_.OnSent(psn, in_flight, asks && works_.reads_outstanding() == 0, now);
  }
  return run;
}

void Requester::OnHeld(Nanos now) {
  if (HasPacket()) recovery_.OnHeld(now);
}

void Requester::OnGatherFailed(const TxPacket& packet) {
  // The packet never left: take its PSN back, so that no acknowledgement may name it.
  const uint32_t index = works_.TakeBack(packet.header.psn, !packet.retransmission);
  recovery_.ForgetLost();
  FailAtHead(index, WcStatus::kLocProtErr);
}

bool Requester::PollLocal(LocalEffect& effect) {
  if (NextGate() != Gate::kLocal) return false;
  const HeldWork& work = works_.local();
  const bool binds = work.opcode == WorkOpcode::kBindWindow;
  effect.kind = binds ? LocalEffect::Kind::kBind : LocalEffect::Kind::kInvalidate;
  effect.slot = work.slot;
  effect.rkey = Rkey(work.immediate_or_rkey);
  executing_local_ = true;
  return true;
}

void Requester::OnLocalDone(EffectOutcome outcome) {
  if (!executing_local_) return;  // The queue pair has failed or was reset meanwhile.
  executing_local_ = false;
  if (outcome == EffectOutcome::kDone) return works_.EndLocal();
  FailAtHead(works_.local_index(), LocalFailure(works_.local().opcode));
}

void Requester::OnDeadline(Nanos now, bool has_heard_all) {
  FailIfExhausted(recovery_.OnDeadline(now, has_heard_all));
}

// ---- completions ----

bool Requester::PollCompletion(Completion& completion) {
  while (works_.has_completed() || (flushing_ && !works_.empty())) {
    const bool success = works_.has_completed();
    const HeldWork& work = success ? works_.TakeCompleted() : works_.TakeFlushed();
    if (success && !signal_all_ && !work.signaled) continue;
    completion = {.wr_id = work.wr_id,
                  .slot = work.slot,
                  .opcode = CompletionOpcode(work.opcode),
                  .length_bytes = work.is_atomic() ? kAtomicBytes : work.length_bytes};
    if (!success) {
      completion.status = failure_.TakeStatus();
      const bool flushed = completion.status == WcStatus::kWrFlushErr;
      ++(flushed ? counters_.req_cqe_flush_error : counters_.req_cqe_error);
    }
    return true;
  }
  return false;
}

// ---- responses: docs/protocol/transport.md, section 3.2 ----

PacketResult Requester::OnResponse(const wire::Packet& packet, Nanos now, Effect& effect) {
  TakeCredits(packet.header);
  // A PSN beyond the last packet sent, or before the oldest unacknowledged one: a ghost.
  if (Distance(works_.una(), packet.header.psn) >= works_.Outstanding())
    return PacketResult::kGhost;
  if (wire::IsOfManufacturer(packet.header.opcode)) return OnSelectiveAcknowledge(packet, now);
  recovery_.OnResponse(packet.header, now);
  switch (wire::OperationOf(packet.header.opcode)) {
    case wire::Opcode::kAcknowledge:
      return OnAcknowledge(packet.header, now);
    default:
      return OnDataResponse(packet, now, effect);
  }
}

void Requester::TakeCredits(const wire::TransportHeader& header) {
  const bool has_aeth = wire::OperationOf(header.opcode) != wire::Opcode::kReadResponseMiddle;
  if (!has_aeth || !IsAck(header.aeth)) return;
  // Credits of old acknowledgements count too, but not those of impossible ones (section 3.2).
  const int32_t ahead = header.psn.Since(works_.una());
  if (ahead >= 0 && static_cast<uint32_t>(ahead) >= works_.Outstanding()) return;
  credits_.OnAck(header.aeth.msn, header.aeth.syndrome & wire::kSyndromeValueMask);
}

PacketResult Requester::OnSelectiveAcknowledge(const wire::Packet& packet, Nanos now) {
  wire::KeptMap map;
  if (!recovery_.offers_selective() || !map.Parse(packet.payload)) return PacketResult::kMalformed;
  const wire::Psn base = packet.header.psn;
  recovery_.OnMapOf(packet.header, now);
  AcknowledgeBefore(base, now);
  if (!failed()) recovery_.OnMap(base, map, now);
  return PacketResult::kAccepted;
}

PacketResult Requester::OnAcknowledge(const wire::TransportHeader& header, Nanos now) {
  switch (header.aeth.syndrome & wire::kSyndromeKindMask) {
    case wire::kSyndromeAck:
      AcknowledgeBefore(header.psn + 1, now);
      return PacketResult::kAccepted;
    case wire::kSyndromeRnrNak:
      return OnRnrNak(header, now);
    case wire::kSyndromeNak:
      return OnNak(header, now);
    default:
      return PacketResult::kMalformed;  // Reserved syndromes are ignored.
  }
}

PacketResult Requester::OnNak(const wire::TransportHeader& header, Nanos now) {
  const uint8_t syndrome = header.aeth.syndrome;
  if (syndrome < wire::kNakSequence || syndrome > wire::kNakRemoteOperation)
    return PacketResult::kMalformed;
  const bool of_sequence = syndrome == wire::kNakSequence;
  counters_.packet_seq_err += of_sequence;
  const bool in_turn = AcknowledgeBefore(header.psn, now);
  if (failed()) return PacketResult::kAccepted;
  if (of_sequence) {
    FailIfExhausted(recovery_.OnSequenceNak(header.psn, in_turn));
  } else if (in_turn) {
    OnFatalNak(syndrome);
  }
  return PacketResult::kAccepted;
}

void Requester::OnFatalNak(uint8_t syndrome) {
  switch (syndrome) {
    case wire::kNakInvalidRequest:
      ++counters_.req_remote_invalid_request;
      return Fail(WcStatus::kRemInvReqErr, syndrome);
    case wire::kNakRemoteAccess:
      ++counters_.req_remote_access_errors;
      return Fail(WcStatus::kRemAccessErr, syndrome);
    default:
      return Fail(WcStatus::kRemOpErr, syndrome);
  }
}

PacketResult Requester::OnRnrNak(const wire::TransportHeader& header, Nanos now) {
  if (recovery_.IsKnownRnr(header.psn)) return PacketResult::kAccepted;
  // A READ or atomic before this PSN whose response is lost is sent again too, after the wait. It
  // costs no further retry.
  const bool in_turn = Acknowledge(header.psn, now);
  if (failed()) return PacketResult::kAccepted;
  // An RNR NAK cannot name a PSN within a READ, which needs no receive work.
  if (in_turn && header.psn != works_.una()) return PacketResult::kMalformed;
  const uint8_t syndrome = header.aeth.syndrome;
  const Nanos deadline = now + RnrWait(syndrome & wire::kSyndromeValueMask);
  if (!recovery_.OnRnrNak(header.psn, deadline, in_turn)) Fail(WcStatus::kRnrRetryExcErr, syndrome);
  return PacketResult::kAccepted;
}

bool Requester::AcknowledgeBefore(wire::Psn end, Nanos now) {
  const bool in_turn = Acknowledge(end, now);
  if (failed() || in_turn) return !failed();
  FailIfExhausted(recovery_.OnResponsePassed(end));
  return false;
}

bool Requester::Acknowledge(wire::Psn end, Nanos now) {
  const SendWorks::Progress progress = works_.AcknowledgeBefore(end);
  if (progress.packets != 0) {
    recovery_.OnAcknowledged(progress.packets, now);
    OnProgress();
  }
  return !progress.blocked;
}

void Requester::OnProgress() {
  credits_.OnAcknowledged(works_.una());
  if (failure_.IsPendingAt(works_.head_index())) Fail(failure_.pending_status());
}

PacketResult Requester::OnDataResponse(const wire::Packet& packet, Nanos now, Effect& effect) {
  const wire::Psn psn = packet.header.psn;
  const bool in_turn = AcknowledgeBefore(psn, now);
  if (failed()) return PacketResult::kAccepted;
  const bool is_next = in_turn && psn == works_.una();
  if (!is_next && recovery_.selective()) return OnEarlyResponse(packet, effect);
  if (!in_turn) return PacketResult::kAccepted;
  const HeldWork& work = works_.head();
  if (!IsAnswer(packet.header, work)) {
    Fail(WcStatus::kBadRespErr);
    return PacketResult::kAccepted;
  }
  if (!is_next) {
    FailIfExhausted(recovery_.OnResponsePassed(psn));
    return PacketResult::kOutOfSequence;
  }
  effect_psn_ = psn;
  const WcStatus status = PlaceResponse(work, works_.mtu(), packet, effect);
  if (status != WcStatus::kSuccess) {
    Fail(status);
  } else if (effect.kind == Effect::Kind::kNone) {
    OnEffectDone(EffectOutcome::kDone, now);
  }
  return PacketResult::kAccepted;
}

bool Requester::PlanRun(const wire::Packet& first, uint32_t packets, Effect& effect) const {
  const wire::TransportHeader& header = first.header;
  if (header.psn != works_.una() || packets > works_.Outstanding() || failed()) return false;
  if (recovery_.has_taken_any()) return false;  // One of these may have come before its turn.
  const HeldWork& work = works_.head();
  if (!work.is_read() || !IsAnswer(header, work)) return false;
  const uint32_t bytes = packets * works_.mtu().bytes();
  const uint32_t offset = works_.mtu().OffsetOf(Distance(work.first_psn, header.psn));
  if (bytes >= work.length_bytes - offset) return false;  // The last one is no MIDDLE.
  Effect of_first;
  if (PlaceResponse(work, works_.mtu(), first, of_first) != WcStatus::kSuccess) return false;
  effect = of_first;
  effect.local.length_bytes = bytes;
  return true;
}

void Requester::CommitRun(const wire::Packet& first, uint32_t packets, Nanos now) {
  wire::Packet packet = first;
  for (uint32_t i = 0; i < packets; ++i) {
    packet.header.psn = first.header.psn + i;
    Effect effect;
    static_cast<void>(OnResponse(packet, now, effect));
    if (effect.kind != Effect::Kind::kNone) OnEffectDone(EffectOutcome::kDone, now);
  }
}

PacketResult Requester::OnEarlyResponse(const wire::Packet& packet, Effect& effect) {
  const wire::Psn psn = packet.header.psn;
  FailIfExhausted(recovery_.OnResponsePassed(psn));
  if (!recovery_.ReachesEarly(psn)) return PacketResult::kOutOfSequence;
  if (recovery_.HasTaken(psn)) return PacketResult::kGhost;
  // A wrong response fails the work only when it comes again in its turn.
  const HeldWork& work = works_.WorkOf(psn);
  if (!IsAnswer(packet.header, work)) return PacketResult::kMalformed;
  const WcStatus status = PlaceResponse(work, works_.mtu(), packet, effect);
  if (status != WcStatus::kSuccess) return PacketResult::kMalformed;
  effect_psn_ = psn;
  recovery_.OnEarlyResponse(psn);
  if (effect.kind == Effect::Kind::kNone) recovery_.OnTaken(psn);
  return PacketResult::kAccepted;
}

void Requester::OnEffectDone(EffectOutcome outcome, Nanos now) {
  const bool done = outcome == EffectOutcome::kDone;
  if (effect_psn_ != works_.una()) {
    if (done) recovery_.OnTaken(effect_psn_);
    return;
  }
  if (!done) return Fail(WcStatus::kLocProtErr);
  works_.TakeResponse();
  recovery_.OnResponseTaken(now);
  OnProgress();
}

}  // namespace uroce::transport
