// SPDX-License-Identifier: Apache-2.0
// What a responder owes beside the replies to READs and atomics: an ACK, a NAK, a map of the
// packets that it keeps; and the AETH that all its answers carry.
#pragma once

#include <cstdint>

#include "pipeline/transport/credits.h"
#include "pipeline/wire/aeth_syndrome.h"
#include "pipeline/wire/packet.h"
#include "pipeline/wire/psn.h"

namespace uroce::transport {

/// For OfferCredits: send no credits. RNR NAKs tell the requester that a receive work is missing.
inline constexpr uint32_t kNoCredits = UINT32_MAX;

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
