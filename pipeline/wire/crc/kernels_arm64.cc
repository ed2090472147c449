// SPDX-License-Identifier: Apache-2.0
// The kernels that an arm64 processor can run.
#include <asm/hwcap.h>
#include <sys/auxv.h>

#include "pipeline/wire/crc/kernel.h"

namespace uroce::wire {

std::vector<CrcKernel> FindCrcKernels() {
  std::vector<CrcKernel> kernels;
  if ((getauxval(AT_HWCAP) & HWCAP_PMULL) != 0) kernels.push_back(kPmull128CrcKernel);
  kernels.push_back(kPortableCrcKernel);
  return kernels;
}

}  // namespace uroce::wire
