// SPDX-License-Identifier: Apache-2.0
// Doorbells: one bit per queue pair, and a summary bit per word of these bits. Any thread of the
// program rings, one worker takes. Doorbells cannot overflow: many rings of a queue pair cost the
// worker one bit per turn.
#pragma once

#include <bit>
#include <cstdint>

#include "pipeline/shm/abi/uroce_arena.h"
#include "pipeline/shm/rings/shared_word.h"

namespace uroce::rings {

/// Rings `slot`. The caller has stored its ring index before. Any thread of the program.
/// Returns true when the worker sleeps and must be woken through its eventfd.
/// Range: slot < UROCE_DOORBELL_SLOTS.
[[nodiscard]] inline bool Ring(uroce_doorbells& doorbells, uint32_t slot) {
  const uint32_t word = slot / 64;
  uint64_t& summary = doorbells.summary[word / 64];
  const uint64_t word_bit = uint64_t{1} << (word % 64);
  // A ringer that finds the summary bit set below has set its own bit before the worker takes the
  // word: both change the word atomically, and the worker clears the summary bit before.
  __atomic_fetch_or(&doorbells.words[word].value, uint64_t{1} << (slot % 64), __ATOMIC_SEQ_CST);
  if ((LoadRelaxed(summary) & word_bit) == 0) {
    __atomic_fetch_or(&summary, word_bit, __ATOMIC_SEQ_CST);
    FullFenceAfterAtomic();  // Before the look at `sleeping`: see AnnounceSleep.
  }
  return LoadRelaxed(doorbells.sleeping.value) != 0;
}

/// True when Take would find a doorbell. Reads one cache line. Worker.
inline bool HasRung(const uroce_doorbells& doorbells) {
  uint64_t any = 0;
  for (const uint64_t& summary : doorbells.summary) any |= LoadRelaxed(summary);
  return any != 0;
}

/// A word with the lowest `count` bits set; all 64 when `count` is 64 or more.
constexpr uint64_t BitsBelow(uint32_t count) {
  return count >= 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
}

/// The position at which the worker continues with a program's doorbells.
struct DoorbellCursor {
  uint32_t slot = 0;
};

/// Takes doorbells of the first `slots` slots, in rising order from `cursor` on, with wrap-around,
/// and calls `on_slot(slot)` for each, until `most` are taken. Returns the number taken; a word
/// without doorbells whose summary bit is set counts as one. Doorbells of other slots are dropped,
/// so that the cost is bounded by the queue pairs that the program has. Worker.
/// Range: slots <= UROCE_DOORBELL_SLOTS.
template <typename OnSlot>
inline uint32_t TakeSome(uroce_doorbells& doorbells, uint32_t slots, uint32_t most,
                         DoorbellCursor& cursor, OnSlot&& on_slot) {
  const uint32_t words = (slots + 63) / 64;
  const uint32_t first = cursor.slot / 64;
  // The word of the cursor comes twice: its slots before the cursor come last.
  const uint64_t before_cursor = BitsBelow(cursor.slot % 64);
  bool first_again = false;
  uint32_t taken = 0;
  for (uint32_t step = 0; step <= UROCE_DOORBELL_SUMMARIES; ++step) {
    const uint32_t i = (first / 64 + step) % UROCE_DOORBELL_SUMMARIES;
    uint64_t& shared = doorbells.summary[i];
    uint64_t summary = LoadRelaxed(shared);
    if (summary == 0) continue;
    const uint64_t ours = words > i * 64 ? BitsBelow(words - i * 64) : 0;
    if ((summary & ~ours) != 0) __atomic_fetch_and(&shared, ours, __ATOMIC_SEQ_CST);
    summary &= ours;
    if (step == 0) summary &= ~BitsBelow(first % 64);
    if (step == UROCE_DOORBELL_SUMMARIES) summary &= BitsBelow(first % 64 + 1);
    for (; summary != 0; summary &= summary - 1) {
      const uint64_t word_bit = summary & -summary;
      const uint32_t word = i * 64 + static_cast<uint32_t>(std::countr_zero(summary));
      cursor.slot = word * 64;
      if (taken >= most) return taken;
      __atomic_fetch_and(&shared, ~word_bit, __ATOMIC_SEQ_CST);
      uint64_t& bells = doorbells.words[word].value;
      const uint64_t rung =
          __atomic_exchange_n(&bells, 0, __ATOMIC_SEQ_CST) & BitsBelow(slots - word * 64);
      uint64_t bits = rung;
      if (word == first) {
        bits &= first_again ? before_cursor : ~before_cursor;
        first_again = true;
      }
      if (rung == 0) ++taken;
      uint64_t left = rung & ~bits;
      cursor.slot = (word + 1) * 64 % UROCE_DOORBELL_SLOTS;
      for (; bits != 0; bits &= bits - 1) {
        if (taken >= most) {
          left |= bits;
          cursor.slot = word * 64 + static_cast<uint32_t>(std::countr_zero(bits));
          break;
        }
        on_slot(word * 64 + static_cast<uint32_t>(std::countr_zero(bits)));
        ++taken;
      }
      if (left == 0) continue;
      // As Ring does: the word first.
      __atomic_fetch_or(&bells, left, __ATOMIC_SEQ_CST);
      __atomic_fetch_or(&shared, word_bit, __ATOMIC_SEQ_CST);
      if (taken >= most) return taken;
    }
  }
  return taken;
}

/// Takes all doorbells of all slots.
template <typename OnSlot>
inline uint32_t Take(uroce_doorbells& doorbells, OnSlot&& on_slot) {
  DoorbellCursor cursor;
  return TakeSome(doorbells, UROCE_DOORBELL_SLOTS, UROCE_DOORBELL_SLOTS, cursor,
                  static_cast<OnSlot&&>(on_slot));
}

/// Announces that the worker is about to sleep. Returns false when a doorbell has come: then the
/// worker must not sleep. Worker.
[[nodiscard]] inline bool AnnounceSleep(uroce_doorbells& doorbells) {
  StoreRelaxed(doorbells.sleeping.value, uint32_t{1});
  // Either this load sees the bit, or the ringer's load sees the flag.
  FullFence();
  return !HasRung(doorbells);
}

/// Announces that the worker is awake: programs need not write to the eventfd. Worker.
inline void AnnounceAwake(uroce_doorbells& doorbells) {
  StoreRelaxed(doorbells.sleeping.value, uint32_t{0});
}

}  // namespace uroce::rings
