// SPDX-License-Identifier: Apache-2.0
// Requester, sending side: works in, request packets and completions out.
#include "pipeline/transport/requester.h"

#include <algorithm>
#include <cassert>

#include "pipeline/transport/message_packet.h"
#include "pipeline/transport/request_opcode.h"
#include "pipeline/transport/timer_codes.h"

namespace uroce::transport {
namespace {

/// Every so many packets of a long message ask for an ACK, so that the window moves before the
/// message ends.
constexpr uint32_t kAckRequestInterval = 32;
constexpr uint32_t kAtomicBytes = 8;
/// Each timeout in a row doubles the next one, up to 4 times the attribute, which is as late as a
/// requester may expire (docs/protocol/transport.md, section 3.3). A peer that takes longer for
/// what is in flight than the attribute says would else get it again and again, each time with more
/// to do.
constexpr uint8_t kMaxBackoff = 2;
/// Where round trips are measured (selective repeat) the timer waits for so many, within the same
/// bounds: what takes long every time is not lost.
constexpr int64_t kTimeoutRoundTrips = 3;

/// From `timeout`, the attribute, up to four times that.
Nanos AckWait(Nanos timeout, uint8_t backoff, Nanos round_trip) {
  const Nanos longest = timeout * (1 << kMaxBackoff);
  return std::max(timeout * (1 << backoff), std::min(round_trip * kTimeoutRoundTrips, longest));
}

WcStatus LocalFailure(WorkOpcode opcode) {
  return opcode == WorkOpcode::kBindWindow ? WcStatus::kMwBindErr : WcStatus::kLocQpOpErr;
}

}  // namespace

Requester::Requester(const RcConfig& config, QueuePairCounters& counters)
    : counters_(counters),
      ring_(config.max_send_works),
      window_(std::clamp<uint32_t>(config.max_in_flight_packets, 1, kMaxOutstandingPsns - 1)),
      signal_all_(config.signal_all),
      lost_(config.selective_repeat ? std::make_unique<SelectiveResend>() : nullptr),
      placed_(lost_ != nullptr ? std::make_unique<PacketSet>() : nullptr) {}

void Requester::Configure(const QueuePairAttributes& attributes) {
  mtu_ = PathMtu(attributes.path_mtu_bytes);
  max_rd_atomic_ = attributes.max_rd_atomic;
  ack_timeout_ = AckTimeout(attributes.timeout);
  retry_count_ = retries_left_ = attributes.retry_count;
  rnr_retry_ = rnr_retries_left_ = attributes.rnr_retry;
  SetSelective(attributes.selective_repeat);
}

void Requester::Start(wire::Psn first) {
  una_ = next_psn_ = high_psn_ = first;
  ForgetLost();
}

void Requester::Reset() {
  reported_ = done_ = next_ = begun_ = tail_ = 0;
  una_ = next_psn_ = high_psn_ = wire::Psn();
  reads_outstanding_ = response_psns_ = 0;
  credits_ = {};
  window_.Start();
  StopTimers();
  backoff_ = probe_backoff_ = 0;
  selective_ = has_lost_ = hears_maps_ = false;
  round_began_ = kNever;
  round_trip_ = Nanos();
  holding_ = waiting_rnr_ = resending_ = doomed_ = failed_ = flushing_ = false;
  executing_local_ = probing_ = false;
  head_status_ = WcStatus::kWrFlushErr;
}

void Requester::Flush() {
  flushing_ = true;
  executing_local_ = false;
  StopTimers();
}

PostResult Requester::Post(const SendWork& work) {
  if (room() == 0) return PostResult::kQueueFull;
  HeldWork& held = ring_.At(tail_++);
  held.wr_id = work.wr_id;
  held.remote_va = work.remote_va;
  held.compare_add = work.compare_add;
  held.swap = work.swap;
  held.slot = work.slot;
  held.length_bytes = work.length_bytes;
  const bool invalidates =
      work.opcode == WorkOpcode::kSendWithInvalidate || work.opcode == WorkOpcode::kLocalInvalidate;
  held.immediate_or_rkey = invalidates ? work.invalidate_rkey.value() : work.immediate;
  held.rkey = work.rkey;
  held.opcode = work.opcode;
  held.traits = TraitsOf(work);
  held.signaled = work.signaled;
  held.solicited = work.solicited;
  held.xrc_srqn = work.xrc_srqn;
  return PostResult::kPosted;
}

bool Requester::Holds(uint32_t slot) const {
  // Slots are the free-running indices of the shell's queue: consecutive.
  return tail_ != reported_ && slot - ring_.At(reported_).slot < tail_ - reported_;
}

Requester::Gate Requester::NextGate() const {
  if (waiting_rnr_ || flushing_) return Gate::kShut;
  if (has_lost_) return Gate::kOpen;
  if (next_ == tail_) return Gate::kShut;
  if (doomed_ && next_ == doomed_index_) return Gate::kShut;
  if (RequestsInFlight() >= window_.packets() || InFlight() >= kMaxOutstandingPsns)
    return Gate::kShut;
  const HeldWork& work = ring_.At(next_);
  if (next_ == begun_) return StartGate(work);
  return AwaitsProbe(work) ? Gate::kShut : Gate::kOpen;
}

Requester::Gate Requester::StartGate(const HeldWork& work) const {
  if (holding_ || executing_local_) return Gate::kShut;
  if (!work.executable() || work.length_bytes > kMaxMessageBytes) return Gate::kDoomed;
  if (work.is_plain()) return Gate::kOpen;
  if (work.fence() && reads_outstanding_ != 0) return Gate::kShut;
  if (work.is_local()) {
    // An invalidation waits for all before it: they may use the key (docs/protocol/transport.md,
    // section 4.4).
    const bool waits = work.opcode == WorkOpcode::kLocalInvalidate && done_ != begun_;
    return waits ? Gate::kShut : Gate::kLocal;
  }
  // One message may go to where the credits do not reach: its answer tells of new ones.
  if (work.takes_receive() && probing_ && !credits_.Covers()) return Gate::kShut;
  if (!work.is_read_or_atomic()) return Gate::kOpen;
  if (max_rd_atomic_ == 0) return Gate::kDoomed;
  if (reads_outstanding_ >= max_rd_atomic_) return Gate::kShut;
  const uint32_t packets = work.is_read() ? mtu_.PacketsOf(work.length_bytes) : 1;
  return InFlight() + packets <= kMaxOutstandingPsns ? Gate::kOpen : Gate::kShut;
}

void Requester::Doom(uint32_t index, WcStatus status) {
  // Completions come in posting order: what was sent before it may still succeed.
  doomed_ = true;
  doomed_index_ = index;
  doomed_status_ = status;
  if (done_ == index) Fail(status);
}

void Requester::Begin(HeldWork& work) {
  work.first_psn = next_psn_;
  work.packets = work.is_atomic() ? 1 : mtu_.PacketsOf(work.length_bytes);
  if (work.is_read_or_atomic()) ++reads_outstanding_;
  if (work.takes_receive() && !credits_.Covers()) {
    probing_ = true;
    probe_psn_ = work.first_psn;
  }
  credits_.OnMessageBegun();
  ++begun_;
}

bool Requester::PollLocal(LocalEffect& effect) {
  if (NextGate() != Gate::kLocal) return false;
  const HeldWork& work = ring_.At(begun_);
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
  HeldWork& work = ring_.At(begun_);
  if (outcome != EffectOutcome::kDone) return Doom(begun_, LocalFailure(work.opcode));
  work.first_psn = high_psn_;
  work.packets = 0;
  next_ += next_ == begun_;
  done_ += done_ == begun_;
  ++begun_;
}

// Flat: the calls that every packet makes cost a 64-byte WRITE one instruction in 25.
[[gnu::flatten]] bool Requester::PollPacket(Nanos now, TxPacket& packet) {
  const Gate gate = NextGate();
  if (gate == Gate::kShut || gate == Gate::kLocal) return false;
  if (selective_) BeginRound(now);
  if (has_lost_) {
    PollResend(packet);
    return true;
  }
  HeldWork& work = ring_.At(next_);
  if (gate == Gate::kDoomed) {
    const bool too_long = work.executable() && work.length_bytes > kMaxMessageBytes;
    Doom(next_, too_long ? WcStatus::kLocLenErr : WcStatus::kLocQpOpErr);
    return false;
  }
  if (next_ == begun_) Begin(work);
  packet.retransmission = next_psn_ != high_psn_;
  if (packet.retransmission) {
    ++counters_.retransmitted_pkts;
    packet.resend = resend_;
  }
  Advance(work, Fill(work, next_psn_, packet));
  if (deadline_ == kNever) RestartTimer(now);
  return true;
}

uint32_t Requester::Fill(const HeldWork& work, wire::Psn psn, TxPacket& packet) const {
  packet.header.psn = psn;
  packet.header.xrc_srqn = work.xrc_srqn;
  const uint32_t sent = Distance(work.first_psn, psn);
  if (!work.is_read_or_atomic()) return FillMessage(work, sent, packet);
  if (work.is_read()) return FillRead(work, sent, packet);
  return work.is_atomic() ? FillAtomic(work, packet) : FillAtomicWrite(work, packet);
}

uint32_t Requester::IndexOf(wire::Psn psn, uint32_t from) const {
  uint32_t index = from;
  while (Distance(ring_.At(index).first_psn, psn) >= ring_.At(index).packets) ++index;
  return index;
}

uint32_t Requester::FillMessage(const HeldWork& work, uint32_t sent, TxPacket& packet) const {
  const bool last = FillMessagePacket(work, mtu_, sent, packet);
  wire::TransportHeader& header = packet.header;
  const bool window_ends = RequestsInFlight() + 1 >= window_.packets();
  const bool probes = probing_ && next_psn_ == probe_psn_;
  header.ack_request =
      last || sent % kAckRequestInterval == kAckRequestInterval - 1 || window_ends || probes;
  header.immediate = work.immediate_or_rkey;
  header.invalidate_rkey = Rkey(work.immediate_or_rkey);
  return 1;
}

uint32_t Requester::FillRead(const HeldWork& work, uint32_t sent, TxPacket& packet) const {
  // A resent READ asks for the rest from its first missing packet on (docs/protocol/transport.md,
  // section 3.4).
  const uint32_t offset = mtu_.OffsetOf(sent);
  wire::TransportHeader& header = packet.header;
  header.opcode = wire::Opcode::kReadRequest;
  header.solicited = false;
  header.ack_request = true;
  header.reth = {
      .va = work.remote_va + offset, .rkey = work.rkey, .length_bytes = work.length_bytes - offset};
  packet.source = TxPacket::Source::kNone;
  return work.packets - sent;
}

uint32_t Requester::FillAtomic(const HeldWork& work, TxPacket& packet) const {
  const bool swaps = work.opcode == WorkOpcode::kCompareSwap;
  wire::TransportHeader& header = packet.header;
  header.opcode = swaps ? wire::Opcode::kCompareSwap : wire::Opcode::kFetchAdd;
  header.solicited = false;
  header.ack_request = true;
  header.atomic = {.va = work.remote_va,
                   .rkey = work.rkey,
                   .swap_add = swaps ? work.swap : work.compare_add,
                   .compare = swaps ? work.compare_add : 0};
  packet.source = TxPacket::Source::kNone;
  return 1;
}

uint32_t Requester::FillAtomicWrite(const HeldWork& work, TxPacket& packet) const {
  wire::TransportHeader& header = packet.header;
  header.opcode = wire::Opcode::kAtomicWrite;
  header.solicited = false;
  header.ack_request = true;
  header.reth = {.va = work.remote_va, .rkey = work.rkey, .length_bytes = kAtomicBytes};
  packet.source = TxPacket::Source::kSend;
  packet.local = {.slot = work.slot, .offset_bytes = 0, .length_bytes = kAtomicBytes};
  packet.following_bytes = 0;
  return 1;
}

void Requester::Advance(const HeldWork& work, uint32_t packets) {
  const bool is_new = next_psn_ == high_psn_;
  next_psn_ = next_psn_ + packets;
  if (is_new) high_psn_ = next_psn_;
  response_psns_ += packets - 1;
  if (next_psn_ != work.first_psn + work.packets) return;
  do {
    ++next_;
  } while (next_ != begun_ && ring_.At(next_).is_local());
}

void Requester::OnGatherFailed(const TxPacket& packet) {
  // The packet never left: take its PSN back, so that no acknowledgement of it is believed.
  const uint32_t index = IndexOf(packet.header.psn, done_);
  if (!packet.retransmission) high_psn_ = packet.header.psn;
  next_psn_ = packet.header.psn;
  next_ = index;
  ForgetLost();
  Doom(index, WcStatus::kLocProtErr);
}

bool Requester::PollCompletion(Completion& completion) {
  while (reported_ != done_ || (flushing_ && reported_ != tail_)) {
    const bool success = reported_ != done_;
    const HeldWork& work = ring_.At(reported_++);
    if (success && !Reported(work)) continue;
    completion = {.wr_id = work.wr_id,
                  .slot = work.slot,
                  .opcode = CompletionOpcode(work.opcode),
                  .length_bytes = work.is_atomic() ? kAtomicBytes : work.length_bytes};
    if (!success) {
      done_ = begun_ = next_ = reported_;
      completion.status = head_status_;
      head_status_ = WcStatus::kWrFlushErr;
      const bool flushed = completion.status == WcStatus::kWrFlushErr;
      ++(flushed ? counters_.req_cqe_flush_error : counters_.req_cqe_error);
    }
    return true;
  }
  return false;
}

void Requester::RestartTimer(Nanos now) {
  deadline_ = InFlight() == 0 ? kNever : AckDeadline(now);
  if (selective_) StartProbeTimer(now);
}

Nanos Requester::AckDeadline(Nanos now) const {
  return ack_timeout_ == kNever ? kNever : now + AckWait(ack_timeout_, backoff_, round_trip_);
}

void Requester::OnHeld(Nanos now) {
  if (deadline_ == kNever && HasPacket()) deadline_ = AckDeadline(now);
}

void Requester::StopTimers() { deadline_ = probe_deadline_ = kNever; }

void Requester::OnDeadline(Nanos now) {
  if (now >= probe_deadline_) Probe(now);
  if (now < deadline_) return;
  deadline_ = kNever;
  if (waiting_rnr_) {
    waiting_rnr_ = false;
    return;
  }
  ++counters_.local_ack_timeout_err;
  backoff_ = std::min<uint8_t>(backoff_ + 1, kMaxBackoff);
  // A NAK that answers what is resent now is news, whatever came before.
  resending_ = false;
  Retry(ResendCause::kAckTimeout);
  resending_ = false;
}

void Requester::Retry(ResendCause cause) {
  const bool is_timeout = cause == ResendCause::kAckTimeout;
  // At una_ already: gone back and not sent yet, or waiting after an RNR NAK, right behind which
  // some responders send a NAK 0x60 (golden/linux-rxe-5-rnr). There a timeout is one of being held.
  if (resending_ || (next_psn_ == una_ && !is_timeout)) return;
  // Behind a timeout the timer alone counts until something arrives: a NAK tells of the round that
  // the timeout has paid for. Each is answered once (resending_), so this ends as well.
  const bool counts = is_timeout || backoff_ == 0;
  if (counts && retries_left_ == 0) {
    ++counters_.retry_exceeded_err;
    return Fail(WcStatus::kRetryExcErr);
  }
  if (counts) --retries_left_;
  NoteResend(cause);
  resending_ = true;
  StopTimers();
  if (!selective_) window_.OnGoBack();
  GoBack(resend_);
}

void Requester::NoteResend(ResendCause cause) {
  resend_ = {.cause = cause,
             .number = static_cast<uint8_t>(retry_count_ - retries_left_),
             .limit = retry_count_};
}

void Requester::GoBack(const Resend& resend) {
  resend_ = resend;
  next_ = done_;
  next_psn_ = una_;
  response_psns_ = 0;
  if (!selective_) return;
  hears_maps_ = false;
  ForgetLost();
  NextRound();
  window_.Start();
}

void Requester::Fail(WcStatus status, uint8_t syndrome) {
  failed_ = true;
  failure_ = {
      .side = Failure::Side::kRequester, .status = status, .syndrome = syndrome, .psn = una_};
  head_status_ = status;
  StopTimers();
}

}  // namespace uroce::transport
