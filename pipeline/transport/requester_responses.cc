// SPDX-License-Identifier: Apache-2.0
// Requester, receiving side: what each response does (docs/protocol/transport.md, section 3.2).
#include "pipeline/transport/requester.h"
#include "pipeline/transport/timer_codes.h"
#include "pipeline/wire/aeth_syndrome.h"

namespace uroce::transport {
namespace {

constexpr uint8_t kRnrRetryForEver = 7;

/// How the payload of a READ response fits the rest of its READ. FIRST and MIDDLE mean the same: a
/// replayed READ starts with FIRST at some peers and goes on with MIDDLE at others; likewise ONLY
/// and LAST (docs/protocol/transport.md, section 3.2).
enum class ResponseFit : uint8_t { kFits, kWrongOpcode, kWrongLength };

ResponseFit FitOf(wire::Opcode opcode, size_t size, uint32_t remaining, uint32_t mtu_bytes) {
  const wire::Opcode operation = wire::OperationOf(opcode);
  const bool more = operation == wire::Opcode::kReadResponseFirst ||
                    operation == wire::Opcode::kReadResponseMiddle;
  if (more != (remaining > mtu_bytes)) return ResponseFit::kWrongOpcode;
  return size == (more ? mtu_bytes : remaining) ? ResponseFit::kFits : ResponseFit::kWrongLength;
}

bool IsAck(const wire::Aeth& aeth) {
  return (aeth.syndrome & wire::kSyndromeKindMask) == wire::kSyndromeAck;
}
}  // namespace

PacketResult Requester::OnResponse(const wire::Packet& packet, Nanos now, Effect& effect) {
  TakeCredits(packet.header);
  // Beyond the last packet sent, or before the oldest unacknowledged: nothing waits for it.
  if (Distance(una_, packet.header.psn) >= Outstanding()) return PacketResult::kGhost;
  if (wire::IsOfManufacturer(packet.header.opcode)) return OnSelectiveAcknowledge(packet, now);
  if (selective_) NoteArrival(packet.header, now);
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
  // Also of an acknowledgement of the past, but of none that cannot be (section 3.2).
  const int32_t ahead = header.psn.Since(una_);
  if (ahead >= 0 && static_cast<uint32_t>(ahead) >= Outstanding()) return;
  credits_.OnAck(header.aeth.msn, header.aeth.syndrome & wire::kSyndromeValueMask);
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
  if (syndrome == wire::kNakSequence) ++counters_.packet_seq_err;
  const bool in_turn = AcknowledgeBefore(header.psn, now);
  // What a selective responder misses has nothing to do with the responses that are missing here.
  const bool is_hole = selective_ && syndrome == wire::kNakSequence;
  if (failed_ || !(in_turn || is_hole)) return PacketResult::kAccepted;
  switch (syndrome) {
    case wire::kNakSequence:
      OnSequenceNak(header);
      break;
    case wire::kNakInvalidRequest:
      ++counters_.req_remote_invalid_request;
      Fail(WcStatus::kRemInvReqErr, syndrome);
      break;
    case wire::kNakRemoteAccess:
      ++counters_.req_remote_access_errors;
      Fail(WcStatus::kRemAccessErr, syndrome);
      break;
    default:
      Fail(WcStatus::kRemOpErr, syndrome);
      break;
  }
  return PacketResult::kAccepted;
}

void Requester::OnSequenceNak(const wire::TransportHeader& header) {
  if (selective_) return OnHoleAt(header.psn);
  Retry(ResendCause::kSequenceNak);
}

PacketResult Requester::OnRnrNak(const wire::TransportHeader& header, Nanos now) {
  if (waiting_rnr_ && rnr_psn_.Since(header.psn) >= 0) return PacketResult::kAccepted;
  // A READ or atomic in front of it whose response is lost goes again with it, after the wait, and
  // at no other cost.
  const bool in_turn = Acknowledge(header.psn, now);
  if (failed_) return PacketResult::kAccepted;
  // Inside a READ there is nothing that could need a receive work.
  if (in_turn && header.psn != una_) return PacketResult::kMalformed;
  const bool for_ever = rnr_retry_ == kRnrRetryForEver;
  if (!for_ever) {
    if (rnr_retries_left_ == 0) {
      ++counters_.retry_rnr_exceeded_err;
      Fail(WcStatus::kRnrRetryExcErr, header.aeth.syndrome);
      return PacketResult::kAccepted;
    }
    --rnr_retries_left_;
  }
  ++counters_.rnr_nak_retry_err;
  counters_.implied_nak_seq_err += !in_turn;
  GoBack({.cause = ResendCause::kRnrNak,
          .number = static_cast<uint8_t>(rnr_retry_ - rnr_retries_left_),
          .limit = for_ever ? Resend::kForEver : rnr_retry_});
  if (in_turn) resending_ = false;
  waiting_rnr_ = true;
  rnr_psn_ = header.psn;
  StopTimers();
  deadline_ = now + RnrWait(header.aeth.syndrome & wire::kSyndromeValueMask);
  return PacketResult::kAccepted;
}

bool Requester::AcknowledgeBefore(wire::Psn end, Nanos now) {
  const bool in_turn = Acknowledge(end, now);
  if (failed_ || in_turn) return !failed_;
  if (selective_) {
    NoteHeard(end);
  } else {
    OnResponseLost();
  }
  return false;
}

bool Requester::Acknowledge(wire::Psn end, Nanos now) {
  const wire::Psn before = una_;
  const uint32_t acknowledged = Distance(before, end);
  bool blocked = false;
  while (done_ != begun_) {
    const HeldWork& work = ring_.At(done_);
    const wire::Psn work_end = work.first_psn + work.packets;
    if (Distance(before, work_end) > acknowledged) {
      // READs move on by their responses alone.
      if (!work.is_read_or_atomic()) una_ = end;
      break;
    }
    blocked = work.is_read_or_atomic();
    if (blocked) break;
    una_ = work_end;
    Retire(work);
  }
  if (una_ != before) {
    window_.OnAcknowledged(Distance(before, una_));
    OnProgress(now);
  }
  return !blocked;
}

void Requester::OnResponseLost() {
  if (!resending_) ++counters_.implied_nak_seq_err;
  Retry(ResendCause::kImpliedNak);
}

void Requester::Retire(const HeldWork& work) {
  if (work.is_read_or_atomic()) --reads_outstanding_;
  do {
    ++done_;
  } while (done_ != begun_ && ring_.At(done_).is_local());
}

void Requester::OnProgress(Nanos now) {
  retries_left_ = retry_count_;
  rnr_retries_left_ = rnr_retry_;
  backoff_ = 0;
  resending_ = false;
  // What is in front of the packet that was refused tells nothing of it.
  if (una_.Since(rnr_psn_) > 0) waiting_rnr_ = false;
  if (selective_) {
    if (lost_->Forget(una_)) EndRound(now);
    has_lost_ = lost_->any();
    if (heard_.Since(una_) < 0) heard_ = una_;
    if (searched_.Since(una_) < 0) searched_ = una_;
  }
  if (probing_ && una_.Since(probe_psn_) > 0) probing_ = false;
  // What was about to be resent has arrived after all.
  if (InFlight() > Outstanding()) {
    next_ = done_;
    next_psn_ = una_;
    response_psns_ = 0;
  }
  if (!waiting_rnr_) RestartTimer(now);
  if (doomed_ && done_ == doomed_index_) Fail(doomed_status_);
}

PacketResult Requester::OnDataResponse(const wire::Packet& packet, Nanos now, Effect& effect) {
  const wire::Psn psn = packet.header.psn;
  const bool in_turn = AcknowledgeBefore(psn, now) && (psn == una_ || !selective_);
  if (failed_) return PacketResult::kAccepted;
  if (!in_turn) return selective_ ? OnEarlyResponse(packet, effect) : PacketResult::kAccepted;
  const HeldWork& work = ring_.At(done_);
  if (!IsAnswer(packet.header, work)) {
    Fail(WcStatus::kBadRespErr);
    return PacketResult::kAccepted;
  }
  if (psn != una_) {
    OnResponseLost();
    return PacketResult::kOutOfSequence;
  }
  effect_psn_ = psn;
  const WcStatus status = PlaceResponse(work, packet, effect);
  if (status != WcStatus::kSuccess) {
    Fail(status);
  } else if (effect.kind == Effect::Kind::kNone) {
    OnEffectDone(EffectOutcome::kDone, now);
  }
  return PacketResult::kAccepted;
}

bool Requester::IsAnswer(const wire::TransportHeader& header, const HeldWork& work) {
  const wire::Opcode operation = wire::OperationOf(header.opcode);
  const bool has_aeth = operation != wire::Opcode::kReadResponseMiddle;
  if (has_aeth && !IsAck(header.aeth)) return false;
  if (operation == wire::Opcode::kAtomicAcknowledge) return work.is_atomic();
  return work.is_read() || work.is_atomic_write();
}

WcStatus Requester::PlaceResponse(const HeldWork& work, const wire::Packet& packet,
                                  Effect& effect) const {
  const wire::TransportHeader& header = packet.header;
  if (work.is_atomic()) {
    effect.kind = Effect::Kind::kPlaceOriginal;
    effect.local = {.slot = work.slot, .offset_bytes = 0, .length_bytes = 8};
    effect.value = header.atomic_original;
    return WcStatus::kSuccess;
  }
  const uint32_t offset = mtu_.OffsetOf(Distance(work.first_psn, header.psn));
  // An ATOMIC WRITE is answered as a READ of nothing.
  const uint32_t remaining = work.is_read() ? work.length_bytes - offset : 0;
  const size_t size = packet.payload.size();
  switch (FitOf(header.opcode, size, remaining, mtu_.bytes())) {
    case ResponseFit::kWrongLength:
      return WcStatus::kLocLenErr;
    case ResponseFit::kWrongOpcode:
      return WcStatus::kBadRespErr;
    case ResponseFit::kFits:
      break;
  }
  if (size == 0) return WcStatus::kSuccess;
  effect.kind = Effect::Kind::kPlaceSend;
  effect.local = {
      .slot = work.slot, .offset_bytes = offset, .length_bytes = static_cast<uint32_t>(size)};
  return WcStatus::kSuccess;
}

void Requester::OnEffectDone(EffectOutcome outcome, Nanos now) {
  if (effect_psn_ != una_) return OnEarlyDone(outcome);
  if (outcome != EffectOutcome::kDone) return Fail(WcStatus::kLocProtErr);
  TakeResponse();
  window_.OnAcknowledged(1);
  if (selective_) TakeHeard();
  OnProgress(now);
}

void Requester::TakeResponse() {
  const HeldWork& work = ring_.At(done_);
  una_ = una_ + 1;
  if (una_ == work.first_psn + work.packets) {
    Retire(work);
  } else if (response_psns_ != 0) {
    --response_psns_;
  }
}

}  // namespace uroce::transport
