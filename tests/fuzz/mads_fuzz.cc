// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: any bytes as what becomes of management datagrams on their way, and as what
// strangers send. Built by clang alone. With --seeds DIRECTORY it writes good scripts there.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "tests/fuzz/mads_script.h"
#include "tests/fuzz/seeds.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (!uroce::fuzz::MadsHold({data, size})) std::abort();
  return 0;
}

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  uroce::fuzz::WriteSeedsIfAsked(*count, *arguments, uroce::fuzz::GoodMadsScripts());
  return 0;
}
