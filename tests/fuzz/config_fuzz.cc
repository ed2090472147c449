// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: any bytes as settings. Built by clang alone.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "tests/fuzz/config_check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (!uroce::nic::ConfigHolds({reinterpret_cast<const char*>(data), size})) std::abort();
  return 0;
}
