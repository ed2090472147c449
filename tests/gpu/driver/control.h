// SPDX-License-Identifier: Apache-2.0
// What tests ask of the driver while it runs: words in a file that several processes map, or in
// memory of this process. tests/gpu/README.md lists them.
#pragma once

#include <cstdint>

namespace uroce::test_gpu {

/// The words, in the order of the file. Any process may write the first ones at any time.
struct Control {
  uint32_t delay_us;          ///< Before each copy, on the thread of its stream.
  uint32_t seed;              ///< Of the order of bytes within a copy.
  uint32_t fail_from;         ///< The number of the first copy that fails, from 1; 0: none fails.
  uint32_t fail_count;        ///< So many copies fail; 0: one.
  uint32_t fail_result;       ///< The error; 0: CUDA_ERROR_ILLEGAL_ADDRESS (700).
  uint32_t fail_late;         ///< 1: the call succeeds, and the copy breaks its context.
  uint32_t hang_copy;         ///< While not 0, no stream begins a copy.
  uint32_t hang_synchronize;  ///< While not 0, no stream is synchronized.
  uint32_t hang_call;         ///< While not 0, no call that begins a copy returns.
  uint32_t plain;             ///< Copies are for measurements: see kPlainCopies.
  uint32_t busy_ns;           ///< So long a stream is busy with each such copy,
  uint32_t bytes_per_us;      ///< and so long as its bytes take; 0: no time.
  uint32_t latency_ns;        ///< So long after it is done, those who wait see it.
  uint32_t reserved[3];
  // Written by the driver.
  uint32_t copies;      ///< Calls that begin a copy, of all processes; their numbers.
  uint32_t hanging;     ///< How many calls and copies hang now.
  uint32_t registered;  ///< Ranges of host memory that are registered now, of live processes.
  uint32_t streams;     ///< Streams that programs have created and not destroyed.
};

/// Values of `plain`. A call that begins a copy makes it too, as one memcpy. Its stream is busy
/// with it behind the copies before it, which takes no CPU but that of who waits.
inline constexpr uint32_t kPlainCopies = 1;
/// Such copies move no bytes, as those of a device take no time of a CPU.
inline constexpr uint32_t kNoBytes = 2;

/// The words of this process: those of the file that UROCE_TEST_GPU_CONTROL names, else its own.
/// UROCE_TEST_GPU=name=value,... sets some of them when the driver is loaded.
Control& TheControl();

uint32_t Read(const uint32_t& word);
/// Adds; returns the sum.
uint32_t Add(uint32_t& word, uint32_t amount);

}  // namespace uroce::test_gpu
