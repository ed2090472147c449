// SPDX-License-Identifier: Apache-2.0
// libFuzzer target that reads any bytes as what clients of the metrics' HTTP server do. Only clang
// builds it. With --seeds DIRECTORY it writes good scripts there.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "tests/fuzz/http_check.h"
#include "tests/fuzz/seeds.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (!uroce::fuzz::HttpHolds({data, size})) std::abort();
  return 0;
}

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  uroce::fuzz::WriteSeedsIfAsked(*count, *arguments, uroce::fuzz::GoodHttpScripts());
  return 0;
}
