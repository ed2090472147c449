// SPDX-License-Identifier: Apache-2.0
// The READs and atomics of one requester that wait for their answers or were answered lately, and
// which of the answers were seen at the capture point.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>

#include "pipeline/wire/packet.h"
#include "tools/analyze/story/packet_ring.h"

namespace uroce::tools::analyze {

/// A READ asks for as many PSNs as its answer has packets; an atomic for one.
struct OutstandingRead {
  wire::Psn first;
  uint32_t packets = 1;
  uint32_t bytes = 0;
  bool is_atomic = false;
  PacketMark request;       ///< Its last transmission.
  int64_t time_ns = 0;      ///< Of its first transmission.
  wire::Psn expected;       ///< The first answer that was not seen.
  wire::Psn round;          ///< The next answer, if those asked for last come in order.
  uint32_t reordering = 0;  ///< The finding about `overtaker`, if there is one.
  PacketMark overtaker;     ///< The answer that came before `round`, if one did.
  PacketMark passed_over;   ///< The answer that came before what was then asked for again.

  wire::Psn end() const { return first + packets; }
  bool is_complete() const { return expected == end(); }
  bool Has(wire::Psn psn) const {
    return psn.Since(first) >= 0 && psn.Since(first) < static_cast<int32_t>(packets);
  }
};

/// In order of PSNs. Keeps some that are complete: they may be asked for again.
class ReadList {
 public:
  static constexpr size_t kMost = 4096;
  static constexpr size_t kKept = 64;

  void Add(const OutstandingRead& read) {
    if (reads_.size() == kMost) PopFront();
    reads_.push_back(read);
  }
  OutstandingRead* Find(wire::Psn psn) {
    for (size_t i = hint_; i < reads_.size() && i < hint_ + 2; ++i) {
      if (reads_[i].Has(psn)) return &reads_[hint_ = i];
    }
    for (size_t i = 0; i < reads_.size(); ++i) {
      if (reads_[i].Has(psn)) return &reads_[hint_ = i];
    }
    return nullptr;
  }
  OutstandingRead* Newest() { return reads_.empty() ? nullptr : &reads_.back(); }
  /// The oldest one that misses answers.
  const OutstandingRead* FirstOpen() {
    while (open_ < reads_.size() && reads_[open_].is_complete()) ++open_;
    return open_ < reads_.size() ? &reads_[open_] : nullptr;
  }
  /// No more answers of the oldest one that misses some are waited for.
  void GiveUpFirstOpen() {
    if (FirstOpen() != nullptr) reads_[open_].expected = reads_[open_].end();
  }
  /// Forgets some that end before `una`.
  void Prune(wire::Psn una) {
    while (reads_.size() > kKept && reads_.front().end().Since(una) <= 0) PopFront();
  }
  /// The path MTU is known: how many packets each answer has.
  void SetMtu(uint32_t mtu_bytes) {
    for (OutstandingRead& read : reads_) {
      if (!read.is_atomic) read.packets = std::max(1u, (read.bytes + mtu_bytes - 1) / mtu_bytes);
    }
  }
  /// How many end behind `una`.
  uint32_t Outstanding(wire::Psn una) const {
    uint32_t count = 0;
    for (size_t i = reads_.size(); i > 0 && reads_[i - 1].end().Since(una) > 0; --i) ++count;
    return count;
  }
  void Clear() { *this = ReadList(); }

 private:
  void PopFront() {
    reads_.pop_front();
    hint_ -= hint_ > 0;
    open_ -= open_ > 0;
  }

  std::deque<OutstandingRead> reads_;
  size_t hint_ = 0;
  size_t open_ = 0;
};

}  // namespace uroce::tools::analyze
