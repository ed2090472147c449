// SPDX-License-Identifier: Apache-2.0
// Which of the next packets something is true of.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "pipeline/wire/psn.h"

namespace uroce::transport {

/// PSNs of one window of kWindow packets, which its owner moves: members lie within it, and are
/// erased before it leaves them behind.
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
  /// Bits of the 64 packets from `from` on.
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
  /// Packets from `from` to the first member; kWindow: there is none.
  uint32_t ToMember(wire::Psn from) const { return Scan(from, 0); }
  /// Packets from `from` to the first that is no member; kWindow: all are.
  uint32_t ToGap(wire::Psn from) const { return Scan(from, ~uint64_t{0}); }

 private:
  static constexpr uint32_t kWordBits = 64;
  static constexpr uint32_t kWords = kWindow / kWordBits;

  static uint64_t BitOf(wire::Psn psn) { return uint64_t{1} << (psn.value() % kWordBits); }
  uint64_t& WordOf(wire::Psn psn) { return words_[psn.value() / kWordBits % kWords]; }
  const uint64_t& WordOf(wire::Psn psn) const { return words_[psn.value() / kWordBits % kWords]; }
  /// Makes each of the two words that hold `bits`, of the packets from `from` on, a new one.
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
  /// Packets from `from` to the first bit that is set once `flip` has changed them.
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
