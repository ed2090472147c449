// SPDX-License-Identifier: Apache-2.0
// End-to-end credits: how many receive works a responder says it has, and how far its requester
// goes by that (docs/protocol/transport.md, section 2).
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

/// The requester's side. Messages have numbers (SSN): the one that the responder counts as its n-th
/// has number n. Without credits, and before the first, there is no limit.
class SendCredits {
 public:
  /// An acknowledgement with the responder's message count and credit code came.
  void OnAck(uint32_t msn, uint8_t code) {
    if (code >= kCreditValues.size()) {
      limited_ = false;
      return;
    }
    const uint32_t limit = msn + kCreditValues[code];
    // Acknowledgements overtake each other: an older one takes nothing back.
    if (!limited_ || Since(limit, limit_) > 0) limit_ = limit;
    limited_ = true;
  }
  void OnMessageBegun() { ++next_; }

  // ---- the credit probe: one message may go to where the credits do not reach ----
  /// Whether a message that takes a receive work may begin.
  bool MayBegin() const { return !probing_ || Covers(); }
  /// The next message begins with the packet `first`, although the credits do not cover it. The
  /// answer to that packet tells of new ones.
  void BeginProbe(wire::Psn first) {
    probing_ = true;
    probe_psn_ = first;
  }
  /// Whether `psn` is the packet that was sent without credit.
  bool IsProbe(wire::Psn psn) const { return probing_ && psn == probe_psn_; }
  /// The rest of a message from `first` on, of which `next` is sent next, waits for that answer.
  bool AwaitsProbe(wire::Psn first, wire::Psn next) const {
    return IsProbe(first) && next != first;
  }
  /// All before `una` is acknowledged.
  void OnAcknowledged(wire::Psn una) {
    if (probing_ && una.Since(probe_psn_) > 0) probing_ = false;
  }

  /// Whether the next message may count on a receive work.
  bool Covers() const { return !limited_ || Since(limit_, next_) >= 0; }

 private:
  /// Numbers are of 24 bits, circular.
  static constexpr int32_t Since(uint32_t a, uint32_t b) {
    return static_cast<int32_t>((a - b) << 8);
  }
  uint32_t next_ = 1;
  uint32_t limit_ = 0;
  bool limited_ = false;
  bool probing_ = false;  ///< For the answer to probe_psn_.
  wire::Psn probe_psn_;
};

}  // namespace uroce::transport
