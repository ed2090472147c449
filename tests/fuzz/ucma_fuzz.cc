// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: any bytes as what programs write to files of rdma_cm. Built by clang alone.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "tests/fuzz/ucma_script.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (!uroce::nic::ucma::UcmaRun().Holds({data, size})) std::abort();
  return 0;
}
