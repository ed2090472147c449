// SPDX-License-Identifier: Apache-2.0
// CPUs and threads: the CPU on which each worker runs, and the CPU time that a thread got.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <ctime>
#include <vector>

#include "pipeline/base/types.h"

namespace uroce::nic {

/// The CPU time of the calling thread so far: what its work cost, however long it waited for a CPU.
inline Nanos ThreadTime() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return Nanos(time.tv_sec * 1'000'000'000 + time.tv_nsec);
}

/// How a thread of this process has shared its CPU with others since the thread began.
struct ThreadSchedule {
  uint64_t running_ns = 0;            ///< On a CPU.
  uint64_t waiting_ns = 0;            ///< Ready to run, but without a CPU.
  uint64_t involuntary_switches = 0;  ///< Times that the kernel gave its CPU to another thread.
};

/// What the kernel tells of the thread with this number (gettid). What it does not tell is 0. Any
/// thread.
ThreadSchedule ReadThreadSchedule(pid_t thread);

/// Returns the CPU of each worker, or -1 for a worker that the scheduler places. Several workers
/// get one CPU of `allowed` each if at least one CPU is left for the programs: then no two share a
/// CPU while another is free. Otherwise the scheduler moves them away from CPUs that programs take:
/// on two CPUs, two pinned workers carry half as much beside two programs that poll.
std::vector<int> WorkerCores(uint32_t workers, const std::vector<int>& allowed);

/// Returns the CPUs that this process may run on.
std::vector<int> AllowedCores();

/// Returns the NUMA node of `core`, or -1 if it is unknown or `core` is -1.
int NumaNodeOf(int core);

}  // namespace uroce::nic
