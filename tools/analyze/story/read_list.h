// SPDX-License-Identifier: Apache-2.0
// The READs and atomics of one requester that wait for their answers or were answered lately, and
// which of the answers were seen at the capture point.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "pipeline/wire/packet.h"
#include "tools/analyze/story/packet_ring.h"

namespace uroce::tools::analyze {

/// A READ asks for as many PSNs as its answer has packets; an atomic for one.
struct OutstandingRead {
  wire::Psn first;
  uint32_t packets = 1;
  uint32_t bytes = 0;
  bool is_atomic = false;
  uint32_t asks = 1;         ///< So many times it was asked for, behind the last RNR NAK.
  PacketMark request;        ///< Its last transmission.
  int64_t time_ns = 0;       ///< Of its first transmission.
  uint32_t first_frame = 0;  ///< As well.
  wire::Psn expected;        ///< The first answer that was not seen.
  wire::Psn round;           ///< The next answer, if those asked for last come in order.
  int64_t asked_ns = 0;      ///< When it was asked for again, the first time in a round trip.
  wire::Psn asked;           ///< The first answer of those asked for last, and behind the last one.
  wire::Psn asked_end;
  wire::Psn pieces_end;  ///< Behind the last piece that was asked for.
  wire::Psn arrived;     ///< Behind the answer that came last, of those asked for last.
  wire::Psn earlier;     ///< As well, of those asked for before, which may still come.
  bool has_earlier = false;
  uint32_t earlier_frame = 0;            ///< The answer that came before such a one.
  std::optional<wire::Psn> behind_late;  ///< Behind the newest late answer.
  uint32_t reordering = 0;               ///< The finding about `overtaker`, if there is one.
  PacketMark overtaker;                  ///< The answer that came before `round`, if one did.
  PacketMark passed_over;  ///< The answer that came before what was then asked for again.

  wire::Psn end() const { return first + packets; }
  bool is_complete() const { return expected == end(); }
  bool WasAskedLast(wire::Psn psn) const {
    return psn.Since(asked) >= 0 && psn.Since(asked_end) < 0;
  }
  /// Some answers were asked for last, and none behind them.
  bool was_piece() const { return asked_end != end(); }
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
      if (read.is_atomic) continue;
      const bool was_whole = read.asked_end == read.end();
      read.packets = std::max(1u, (read.bytes + mtu_bytes - 1) / mtu_bytes);
      if (was_whole) read.asked_end = read.end();
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
