// SPDX-License-Identifier: Apache-2.0
// libFuzzer target that reads any bytes as a frame. Only clang builds it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "tests/fuzz/decode_check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (!uroce::wire::DecodeHolds({data, size})) std::abort();
  return 0;
}
