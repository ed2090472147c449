// SPDX-License-Identifier: Apache-2.0
// How a thread of this process shares its CPU with others.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace uroce::nic {

/// Since the thread began.
struct ThreadSchedule {
  uint64_t running_ns = 0;            ///< On a CPU.
  uint64_t waiting_ns = 0;            ///< Ready to run, but without a CPU.
  uint64_t involuntary_switches = 0;  ///< Times that the kernel gave its CPU to another thread.
};

/// What the kernel tells of the thread with this number (gettid). What it does not tell is 0. Any
/// thread.
ThreadSchedule ReadThreadSchedule(pid_t thread);

}  // namespace uroce::nic
