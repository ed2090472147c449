// SPDX-License-Identifier: Apache-2.0
// libFuzzer target that reads any bytes as a MAD of the connection manager or about capabilities.
// Only clang builds it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "tests/fuzz/management/capabilities_check.h"
#include "tests/fuzz/management/cm_check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (!uroce::wire::CmHolds({data, size})) std::abort();
  if (!uroce::wire::CapabilitiesHold({data, size})) std::abort();
  return 0;
}
