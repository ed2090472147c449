// SPDX-License-Identifier: Apache-2.0
// libFuzzer target that reads any bytes as a program's writes to files of rdma_cm. Only clang
// builds it. With --seeds DIRECTORY it writes good scripts there.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "tests/fuzz/management/ucma_script.h"
#include "tests/fuzz/seeds.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (!uroce::nic::ucma::UcmaRun().Holds({data, size})) std::abort();
  return 0;
}

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  using uroce::nic::ucma::GoodUcmaScript;
  uroce::fuzz::WriteSeedsIfAsked(*count, *arguments,
                                 {GoodUcmaScript(RDMA_PS_TCP), GoodUcmaScript(RDMA_PS_UDP)});
  return 0;
}
