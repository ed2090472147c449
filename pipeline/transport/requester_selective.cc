// SPDX-License-Identifier: Apache-2.0
// Requester, selective repeat: with a responder that names what it misses, that alone is sent again
// (selective_repeat.h).
#include <algorithm>

#include "pipeline/transport/requester.h"

namespace uroce::transport {
namespace {

/// A probe waits for so many round trips without a word, and at least so long: acknowledgements
/// wait for the end of a burst, and programs for their CPU.
constexpr int64_t kProbeRoundTrips = 3;
constexpr Nanos kLeastProbeWait{100'000};
/// Where the QP has no ACK timeout, there are no probes beyond this wait.
constexpr Nanos kLongestProbeWait{64'000'000};
constexpr uint8_t kMaxProbeBackoff = 16;
/// The weight of a new sample of the round trip is one in so many.
constexpr int64_t kSmoothing = 8;

}  // namespace

void Requester::PollResend(TxPacket& packet) {
  const wire::Psn psn = lost_->Next();
  const uint32_t packets = Fill(ring_.At(IndexOf(psn)), psn, packet);
  lost_->OnResent(psn, packets);
  has_lost_ = lost_->any();
  packet.header.ack_request |= !has_lost_;
  packet.retransmission = true;
  packet.resend = resend_;
  ++counters_.retransmitted_pkts;
}

void Requester::TakeMark(uint8_t mark, Nanos now) {
  if (!IsResponseMark(mark)) {
    // A responder of another make: it is not asked again.
    if (!selective_) mark_ = 0;
    return;
  }
  if (!selective_) ForgetLost();
  selective_ = true;
  probe_backoff_ = 0;
  StartProbeTimer(now);
  if ((mark & kMarkRoundMask) != (mark_ & kMarkRoundMask)) return;
  if (round_began_ != kNever) {
    const Nanos sample = now - round_began_;
    const int64_t change = (sample - round_trip_).count() / kSmoothing;
    round_trip_ = round_trip_ == Nanos() ? sample : round_trip_ + Nanos(change);
  }
  NextRound();
  // What was resent before this round has arrived by now, or is lost once more.
  resending_ = false;
}

void Requester::ForgetLost() {
  if (lost_ != nullptr) lost_->Start(una_);
  has_lost_ = false;
}

void Requester::NextRound() {
  lost_->NextRound();
  mark_ = kMarkRequest | ((mark_ + 1) & kMarkRoundMask);
  round_began_ = kNever;
}

void Requester::OnHole(const Hole& hole) {
  const uint32_t end = std::min({hole.offset + hole.packets, PacketSet::kWindow, InFlight()});
  bool oldest = false;
  NoteResend(ResendCause::kSequenceNak);
  for (uint32_t i = hole.offset; i < end; ++i) {
    const bool added = lost_->Add(una_ + i);
    oldest |= added && i == 0;
  }
  has_lost_ = lost_->any();
  // Each time that the oldest packet goes again is a retry, as everywhere.
  if (oldest) static_cast<void>(CountRetry(ResendCause::kSequenceNak));
}

void Requester::StartProbeTimer(Nanos now) {
  probe_deadline_ = kNever;
  if (InFlight() == 0 || waiting_rnr_) return;
  const Nanos wait =
      std::max(round_trip_ * kProbeRoundTrips, kLeastProbeWait) * (int64_t{1} << probe_backoff_);
  const Nanos longest = ack_timeout_ == kNever ? kLongestProbeWait : ack_timeout_;
  if (wait < longest) probe_deadline_ = now + wait;
}

bool Requester::MayProbe() const {
  if (waiting_rnr_ || has_lost_ || next_psn_ != high_psn_ || InFlight() == 0) return false;
  // A READ that is asked for once more is answered once more.
  uint32_t last = begun_ - 1;
  while (ring_.At(last).is_local()) --last;
  return !ring_.At(last).is_read_or_atomic() && InFlight() <= PacketSet::kWindow;
}

void Requester::Probe(Nanos now) {
  probe_backoff_ = std::min<uint8_t>(probe_backoff_ + 1, kMaxProbeBackoff);
  StartProbeTimer(now);
  if (!MayProbe()) return;
  NextRound();
  NoteResend(ResendCause::kAckTimeout);
  lost_->AddProbe(high_psn_ - 1);
  has_lost_ = true;
}

}  // namespace uroce::transport
