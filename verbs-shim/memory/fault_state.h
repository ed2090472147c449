// SPDX-License-Identifier: Apache-2.0
// What threads share that meet the handler of SIGSEGV. It lies in a page that a fork child has as
// zeros, however it was made: no window is open there, and no lock is held.
#pragma once

#include <cstdint>

#include "verbs-shim/memory/maps.h"

namespace uroce::memory {

/// All fields are 0 before the first use. The words are used by atomic operations.
struct FaultState {
  uint32_t action_lock;  // of the program's action
  uint32_t sequence;     // odd: a window is open; grows with each change; a futex
  uint32_t unused_word;  // nobody ever waits for it
  uint32_t reserved;
  AddressRange pages;  // of the window
};

/// Makes the state, once. False: the kernel has no memory, or does not wipe it on fork. The caller
/// holds the lock of the registrations.
[[nodiscard]] bool MakeFaultState();
/// The state, or null before it was made. Any thread, signal handlers too.
FaultState* FindFaultState();

/// Sleeps until `sequence` is no longer `value`, or for less.
void AwaitSequence(FaultState& state, uint32_t value);

}  // namespace uroce::memory
