// SPDX-License-Identifier: Apache-2.0
// The words of the driver for tests in a test's own process.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/gpu/cuda.h"
#include "tests/gpu/driver/control.h"

namespace uroce::gpu {

/// The words that the driver of this process reads; the first call initialises the driver.
inline test_gpu::Control& WordsOfDriver() {
  static auto* const words = [] {
    char path[] = "/dev/shm/uroce-gpu-copies-XXXXXX";
    const int fd = mkstemp(path);
    if (fd < 0 || ftruncate(fd, 4096) != 0) std::abort();
    setenv("UROCE_TEST_GPU_CONTROL", path, 1);
    void* const memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (memory == MAP_FAILED || cuInit(0) != 0) std::abort();
    unlink(path);
    return static_cast<test_gpu::Control*>(memory);
  }();
  return *words;
}

}  // namespace uroce::gpu
