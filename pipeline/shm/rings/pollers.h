// SPDX-License-Identifier: Apache-2.0
// The word on which threads of a program sleep that poll empty completion queues. It has a bit for
// each queue, so that a completion wakes the threads that poll its queue, and no others.
#pragma once

#include <cstdint>

#include "pipeline/shm/abi/uroce_arena.h"
#include "pipeline/shm/rings/shared_word.h"

namespace uroce::rings {

/// The bit of the CQ that the daemon calls `handle`. Two CQs may have the same bit: then a thread
/// wakes for nothing.
constexpr uint32_t PollerBit(uint32_t handle) { return uint32_t{1} << (handle % 32); }

/// Says that the caller is about to sleep for the CQs with these bits. It polls them afterwards:
/// the full fence here and the one of the publisher ensure that this poll finds a CQE, or that the
/// CQE's publisher finds the bit. Returns the value of the word to sleep on. Program.
inline uint32_t AnnouncePoller(uroce_line32& pollers, uint32_t bits) {
  const uint32_t before = __atomic_fetch_or(&pollers.value, bits, __ATOMIC_SEQ_CST);
  FullFenceAfterAtomic();
  return before | bits;
}

/// Whether a thread may sleep for the CQ of `bit`. Called after the CQEs and a full fence. Worker.
inline bool HasPollers(const uroce_line32& pollers, uint32_t bit) {
  return (LoadRelaxed(pollers.value) & bit) != 0;
}

/// Clears the bit. True: the caller must wake the threads that sleep for it. Worker.
[[nodiscard]] inline bool TakePollers(uroce_line32& pollers, uint32_t bit) {
  return (__atomic_fetch_and(&pollers.value, ~bit, __ATOMIC_SEQ_CST) & bit) != 0;
}

}  // namespace uroce::rings
