// SPDX-License-Identifier: Apache-2.0
// The kernels that an x86-64 processor can run.
#include "pipeline/wire/crc/kernel.h"

namespace uroce::wire {

// __builtin_cpu_supports also checks that the operating system saves the register state.
std::vector<CrcKernel> FindCrcKernels() {
  __builtin_cpu_init();
  const bool pclmul = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
  const bool vpclmul = pclmul && __builtin_cpu_supports("vpclmulqdq");
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi2");
  std::vector<CrcKernel> kernels;
  if (vpclmul && avx512) kernels.push_back(kVpclmul512CrcKernel);
  if (vpclmul && __builtin_cpu_supports("avx2")) kernels.push_back(kVpclmul256CrcKernel);
  if (pclmul) kernels.push_back(kPclmul128CrcKernel);
  kernels.push_back(kPortableCrcKernel);
  return kernels;
}

}  // namespace uroce::wire
