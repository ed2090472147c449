// SPDX-License-Identifier: Apache-2.0
// Doorbells: one bit per queue pair, a summary bit per word of them. Any thread of the program
// rings, one worker takes. They cannot overflow, and a flood costs the worker one bit per queue
// and turn.
#pragma once

#include <bit>
#include <cstdint>

#include "pipeline/rings/shared_word.h"
#include "verbs-shim/abi/uroce_arena.h"

namespace uroce::rings {

/// Rings `slot`. The caller has stored its ring index before. Any thread of the program.
/// Returns true when the worker sleeps and must be woken through its eventfd.
/// Range: slot < UROCE_DOORBELL_SLOTS.
[[nodiscard]] inline bool Ring(uroce_doorbells& doorbells, uint32_t slot) {
  const uint32_t word = slot / 64;
  uint64_t& summary = doorbells.summary[word / 64];
  const uint64_t word_bit = uint64_t{1} << (word % 64);
  // The locked or is a full fence: whoever finds the summary bit set below has its own bit in the
  // word before the worker, which clears the summary first, takes the word.
  __atomic_fetch_or(&doorbells.words[word].value, uint64_t{1} << (slot % 64), __ATOMIC_SEQ_CST);
  if ((LoadRelaxed(summary) & word_bit) == 0) {
    __atomic_fetch_or(&summary, word_bit, __ATOMIC_SEQ_CST);
  }
  return LoadRelaxed(doorbells.sleeping.value) != 0;
}

/// True when Take would find something. One cache line; worker.
inline bool HasRung(const uroce_doorbells& doorbells) {
  uint64_t any = 0;
  for (const uint64_t& summary : doorbells.summary) any |= LoadRelaxed(summary);
  return any != 0;
}

/// The bits below `count`, of 64 or more.
constexpr uint64_t BitsBelow(uint32_t count) {
  return count >= 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
}

/// Takes the doorbells of the first `slots` slots and calls `on_slot(slot)` for each, in rising
/// order. Returns how many. Worker. Whoever rings others has them forgotten: what a program writes
/// here costs no more than the queue pairs that it has.
/// Range: slots <= UROCE_DOORBELL_SLOTS.
template <typename OnSlot>
inline uint32_t TakeBelow(uroce_doorbells& doorbells, uint32_t slots, OnSlot&& on_slot) {
  if (!HasRung(doorbells)) return 0;
  const uint32_t words = (slots + 63) / 64;
  uint32_t taken = 0;
  for (uint32_t i = 0; i < UROCE_DOORBELL_SUMMARIES; ++i) {
    if (LoadRelaxed(doorbells.summary[i]) == 0) continue;
    uint64_t summary = __atomic_exchange_n(&doorbells.summary[i], 0, __ATOMIC_SEQ_CST);
    summary &= words > i * 64 ? BitsBelow(words - i * 64) : 0;
    for (; summary != 0; summary &= summary - 1) {
      const uint32_t word = i * 64 + static_cast<uint32_t>(std::countr_zero(summary));
      uint64_t bits = __atomic_exchange_n(&doorbells.words[word].value, 0, __ATOMIC_SEQ_CST);
      bits &= BitsBelow(slots - word * 64);
      for (; bits != 0; bits &= bits - 1) {
        on_slot(word * 64 + static_cast<uint32_t>(std::countr_zero(bits)));
        ++taken;
      }
    }
  }
  return taken;
}

/// The same for every slot that there can be.
template <typename OnSlot>
inline uint32_t Take(uroce_doorbells& doorbells, OnSlot&& on_slot) {
  return TakeBelow(doorbells, UROCE_DOORBELL_SLOTS, static_cast<OnSlot&&>(on_slot));
}

/// Says that the worker is about to sleep. Returns false when a doorbell came in meanwhile: then it
/// must not. Worker.
[[nodiscard]] inline bool AnnounceSleep(uroce_doorbells& doorbells) {
  StoreRelaxed(doorbells.sleeping.value, uint32_t{1});
  // Either this load sees the bit, or the ringer's load sees the flag.
  FullFence();
  return !HasRung(doorbells);
}

/// Says that the worker is awake: programs spare the eventfd again. Worker.
inline void AnnounceAwake(uroce_doorbells& doorbells) {
  StoreRelaxed(doorbells.sleeping.value, uint32_t{0});
}

}  // namespace uroce::rings
