// SPDX-License-Identifier: Apache-2.0
// libFuzzer target that reads any bytes as messages of a packet socket. Only clang builds it. With
// --seeds DIRECTORY it writes good scripts there.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "tests/fuzz/seeds.h"
#include "tests/fuzz/superframes_check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (!uroce::fuzz::SuperframesHold({data, size})) std::abort();
  return 0;
}

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  uroce::fuzz::WriteSeedsIfAsked(*count, *arguments, uroce::fuzz::GoodSuperframes());
  return 0;
}
