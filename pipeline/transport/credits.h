// SPDX-License-Identifier: Apache-2.0
// End-to-end credits: a responder tells how many receive works it has, and its requester limits
// the messages that it begins by that number (docs/protocol/transport.md, section 2).
#pragma once

#include <array>
#include <cstdint>

#include "pipeline/wire/aeth_syndrome.h"
#include "pipeline/wire/psn.h"

namespace uroce::transport {

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

}  // namespace uroce::transport
