// SPDX-License-Identifier: Apache-2.0
// The arm word of a completion queue: each arming causes one record on the channel, from the first
// of its workers that has a CQE.
#pragma once

#include <cstdint>

#include "pipeline/shm/abi/uroce_arena.h"
#include "pipeline/shm/rings/shared_word.h"

namespace uroce::rings {

/// Arms for the next CQE, or the next solicited or failed one. NEXT overrides SOLICITED in either
/// order (IBTA vol. 1, 11.4.2.2). The caller polls again afterwards: the full fence here and the
/// one in TakeArming ensure that this poll finds a CQE or that it makes a record. Program.
inline void Arm(uroce_cq_page& page, bool solicited_only) {
  uint32_t current = LoadRelaxed(page.arm.value);
  if (!solicited_only) {
    StoreRelaxed(page.arm.value, uint32_t{UROCE_CQ_ARMED_NEXT});
  } else if (current == UROCE_CQ_DISARMED) {
    __atomic_compare_exchange_n(&page.arm.value, &current, uint32_t{UROCE_CQ_ARMED_SOLICITED},
                                false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  }
  FullFence();
}

/// Whether a record is due for the CQEs just published; if so, disarms the queue. `solicited`: one
/// of them is solicited or has failed. Called once per ring and burst, after the last Push, by any
/// worker that has a ring of the queue.
[[nodiscard]] inline bool TakeArming(uroce_cq_page& page, bool solicited) {
  FullFence();
  uint32_t armed = LoadRelaxed(page.arm.value);
  // The word may change in between: the program raises SOLICITED to NEXT, or another worker takes
  // the arming and the program arms anew. Two tries are enough: a program that arms after the first
  // try polls after that, and finds the CQEs.
  for (int look = 0; look < 2; ++look) {
    const bool due =
        armed == UROCE_CQ_ARMED_NEXT || (armed == UROCE_CQ_ARMED_SOLICITED && solicited);
    if (!due) return false;
    if (__atomic_compare_exchange_n(&page.arm.value, &armed, uint32_t{UROCE_CQ_DISARMED}, false,
                                    __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
      return true;
    }
  }
  return false;
}

}  // namespace uroce::rings
