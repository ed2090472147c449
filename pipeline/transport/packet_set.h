// SPDX-License-Identifier: Apache-2.0
// A set of PSNs within a window: a bitmap.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "pipeline/wire/psn.h"

namespace uroce::transport {

/// Members lie within a window of kWindow PSNs. The owner moves the window, and erases members
/// before the window moves past them.
class PacketSet {
 public:
  static constexpr uint32_t kWindow = 2048;

  bool empty() const { return count_ == 0; }
  bool Contains(wire::Psn psn) const { return (WordOf(psn) & BitOf(psn)) != 0; }
  void Insert(wire::Psn psn) {
    count_ += !Contains(psn);
    WordOf(psn) |= BitOf(psn);
  }
  void Erase(wire::Psn psn) {
    count_ -= Contains(psn);
    WordOf(psn) &= ~BitOf(psn);
  }
  void Erase(wire::Psn from, uint32_t packets) {
    if (packets >= kWindow) return Clear();
    for (; packets != 0 && !empty(); --packets, from = from + 1) Erase(from);
  }
  void Clear() {
    if (!empty()) words_ = {};
    count_ = 0;
  }
  /// The bits of the 64 PSNs from `from` on; bit 0 is `from`.
  uint64_t Word(wire::Psn from) const {
    const uint32_t skipped = from.value() % kWordBits;
    const uint64_t low = WordOf(from) >> skipped;
    return skipped == 0 ? low : low | WordOf(from + kWordBits) << (kWordBits - skipped);
  }
  void Insert(wire::Psn from, uint64_t bits) {
    Change(from, bits, [](uint64_t word, uint64_t changed) { return word | changed; });
  }
  void Erase(wire::Psn from, uint64_t bits) {
    Change(from, bits, [](uint64_t word, uint64_t changed) { return word & ~changed; });
  }
  /// The distance from `from` to the first member; kWindow when there is none.
  uint32_t ToMember(wire::Psn from) const { return Scan(from, 0); }
  /// The distance from `from` to the first PSN that is no member; kWindow when all are members.
  uint32_t ToGap(wire::Psn from) const { return Scan(from, ~uint64_t{0}); }

 private:
  static constexpr uint32_t kWordBits = 64;
  static constexpr uint32_t kWords = kWindow / kWordBits;

  static uint64_t BitOf(wire::Psn psn) { return uint64_t{1} << (psn.value() % kWordBits); }
  uint64_t& WordOf(wire::Psn psn) { return words_[psn.value() / kWordBits % kWords]; }
  const uint64_t& WordOf(wire::Psn psn) const { return words_[psn.value() / kWordBits % kWords]; }
  /// Applies `make` to the one or two words that hold the 64 PSNs from `from` on.
  template <typename Make>
  void Change(wire::Psn from, uint64_t bits, Make&& make) {
    const uint32_t skipped = from.value() % kWordBits;
    ChangeWord(WordOf(from), bits << skipped, make);
    if (skipped != 0) ChangeWord(WordOf(from + kWordBits), bits >> (kWordBits - skipped), make);
  }
  template <typename Make>
  void ChangeWord(uint64_t& word, uint64_t bits, Make&& make) {
    const uint64_t made = make(word, bits);
    count_ += static_cast<uint32_t>(std::popcount(made) - std::popcount(word));
    word = made;
  }
  /// The distance from `from` to the first bit that is set after exclusive or with `flip`.
  uint32_t Scan(wire::Psn from, uint64_t flip) const {
    const uint32_t skipped = from.value() % kWordBits;
    for (uint32_t word = 0; word <= kWords; ++word) {
      uint64_t bits = WordOf(from + word * kWordBits) ^ flip;
      if (word == 0) bits &= ~uint64_t{0} << skipped;
      const uint32_t distance = word * kWordBits + static_cast<uint32_t>(std::countr_zero(bits));
      if (bits != 0) return distance - skipped < kWindow ? distance - skipped : kWindow;
    }
    return kWindow;
  }

  std::array<uint64_t, kWords> words_{};
  uint32_t count_ = 0;
};

}  // namespace uroce::transport
