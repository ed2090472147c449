// SPDX-License-Identifier: Apache-2.0
// libFuzzer target that reads any bytes as changes of management datagrams on their way, and as
// datagrams of other hosts. Only clang builds it. With --seeds DIRECTORY it writes good scripts
// there.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "tests/fuzz/management/mads_script.h"
#include "tests/fuzz/seeds.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (!uroce::fuzz::MadsHold({data, size})) std::abort();
  return 0;
}

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  uroce::fuzz::WriteSeedsIfAsked(*count, *arguments, uroce::fuzz::GoodMadsScripts());
  return 0;
}
