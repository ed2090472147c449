// SPDX-License-Identifier: Apache-2.0
// Acknowledgements and credits: what a responder owes beside the replies to READs and atomics (an
// ACK, a NAK, a map of the packets that it keeps), and how its credits limit the messages that a
// requester begins (docs/protocol/transport.md, section 2).
#pragma once

#include <array>
#include <cstdint>

#include "pipeline/wire/acknowledgement.h"
#include "pipeline/wire/packet.h"
#include "pipeline/wire/psn.h"

namespace uroce::transport {

// End-to-end credits: a responder tells how many receive works it has, and its requester limits
// the messages that it begins by that number (docs/protocol/transport.md, section 2).

/// Receive works that credit codes 0 .. 30 stand for (docs/protocol/wire-format.md, section 4).
inline constexpr std::array<uint16_t, 31> kCreditValues = {
    0,   1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,  192,
    256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768};

/// The largest code that does not promise more than `receives`.
constexpr uint8_t CreditCode(uint32_t receives) {
  uint8_t code = kCreditValues.size() - 1;
  while (kCreditValues[code] > receives) --code;
  return code;
}

/// The requester's side. Messages have numbers (SSN): the message that the responder counts as its
/// n-th has number n. There is no limit before the first credits arrive, or when none are sent.
class SendCredits {
 public:
  /// An acknowledgement with the responder's message count and credit code came.
  void OnAck(uint32_t msn, uint8_t code) {
    if (code >= kCreditValues.size()) {
      limited_ = false;
      return;
    }
    const uint32_t limit = msn + kCreditValues[code];
    // Acknowledgements can overtake each other: an older one does not lower the limit.
    if (!limited_ || Since(limit, limit_) > 0) limit_ = limit;
    limited_ = true;
  }
  void OnMessageBegun() { ++next_; }

  // ---- the credit probe: one message may begin beyond the credits ----
  /// Whether a message that takes a receive work may begin.
  bool MayBegin() const { return !probing_ || Covers(); }
  /// The next message begins with the packet `first`, although the credits do not cover it. The
  /// answer to that packet carries new credits.
  void BeginProbe(wire::Psn first) {
    probing_ = true;
    probe_psn_ = first;
  }
  /// Whether `psn` is the packet that was sent without credit.
  bool IsProbe(wire::Psn psn) const { return probing_ && psn == probe_psn_; }
  /// True when a message from `first` on, whose next packet is `next`, waits for that answer.
  bool AwaitsProbe(wire::Psn first, wire::Psn next) const {
    return IsProbe(first) && next != first;
  }
  /// All packets before `una` are acknowledged.
  void OnAcknowledged(wire::Psn una) {
    if (probing_ && una.Since(probe_psn_) > 0) probing_ = false;
  }

  /// Whether the next message may count on a receive work.
  bool Covers() const { return !limited_ || Since(limit_, next_) >= 0; }

 private:
  /// The distance from b to a. Message numbers have 24 bits and are circular.
  static constexpr int32_t Since(uint32_t a, uint32_t b) {
    return static_cast<int32_t>((a - b) << 8);
  }
  uint32_t next_ = 1;
  uint32_t limit_ = 0;
  bool limited_ = false;
  bool probing_ = false;  ///< The answer to probe_psn_ has not come.
  wire::Psn probe_psn_;
};

/// For OfferCredits: send no credits. RNR NAKs tell the requester that a receive work is missing.
inline constexpr uint32_t kNoCredits = UINT32_MAX;

/// What a responder owes beside the replies to READs and atomics, and the AETH of all its answers.
/// At most one of each kind is due, because an acknowledgement covers all packets before its PSN.
/// Pure, owned by a Responder, which knows their order.
class Acknowledgements {
 public:
  /// The first request must carry `expected`.
  void Start(wire::Psn expected) { executed_ = expected - 1; }
  void Reset() { *this = {}; }

  // ---- the AETH ----
  void CountMessage() { msn_ = (msn_ + 1) & 0xffffff; }
  /// Sets the number of receive works that acknowledgements report; kNoCredits: none is reported.
  void OfferCredits(uint32_t receives) { offered_receives_ = receives; }
  /// `at_hand`: the responder holds a receive work. That work counts too, because its message is
  /// not in the MSN yet (docs/protocol/transport.md, section 2).
  wire::Aeth Aeth(bool at_hand) const {
    const uint32_t receives = offered_receives_ + (at_hand ? 1 : 0);
    const uint8_t credits =
        offered_receives_ == kNoCredits ? wire::kCreditsUnlimited : CreditCode(receives);
    return {.syndrome = static_cast<uint8_t>(wire::kSyndromeAck | credits), .msn = msn_};
  }
  wire::Aeth AethOfNak() const { return {.syndrome = nak_syndrome_, .msn = msn_}; }

  // ---- ACK ----
  /// The packet `psn` of a SEND or WRITE was executed. `asks`: it asks for an acknowledgement.
  void OnExecuted(wire::Psn psn, bool asks) {
    executed_ = psn;
    ack_due_ |= asks;
  }
  void OweAck() { ack_due_ = true; }
  void DropAck() { ack_due_ = false; }
  bool owes_ack() const { return ack_due_; }
  /// The newest packet of a SEND or WRITE that was executed.
  wire::Psn executed() const { return executed_; }

  // ---- NAK ----
  void OweNak(wire::Psn psn, uint8_t syndrome) {
    nak_due_ = gap_reported_ = true;
    nak_psn_ = psn;
    nak_syndrome_ = syndrome;
  }
  void DropNak() { nak_due_ = false; }
  void MoveNak(wire::Psn psn) { nak_psn_ = psn; }
  bool owes_nak() const { return nak_due_; }
  wire::Psn nak_psn() const { return nak_psn_; }
  /// Whether the newest NAK reported a gap: it refused no request.
  bool is_nak_of_gap() const { return nak_syndrome_ == wire::kNakSequence; }
  /// Whether a NAK was sent for ePSN: no further one is, until EndGap.
  bool gap_reported() const { return gap_reported_; }
  void EndGap() { gap_reported_ = false; }

  // ---- map: a selective acknowledgement ----
  void OweMap(bool due) { map_due_ = due; }
  bool owes_map() const { return map_due_; }

  /// Drops the ACK and the NAK.
  void Drop() { ack_due_ = nak_due_ = false; }
  bool owes_any() const { return nak_due_ || ack_due_ || map_due_; }

 private:
  wire::Psn executed_;
  wire::Psn nak_psn_;
  uint32_t msn_ = 0;
  uint32_t offered_receives_ = kNoCredits;
  uint8_t nak_syndrome_ = 0;
  bool ack_due_ = false;
  bool nak_due_ = false;
  bool gap_reported_ = false;
  bool map_due_ = false;
};

}  // namespace uroce::transport
