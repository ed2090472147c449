// SPDX-License-Identifier: Apache-2.0
// libFuzzer targets: any bytes as the life of a queue pair, UROCE_FUZZ_QUEUE_PAIR's kind. Built by
// clang alone. Requester and responder are the same target with another corpus to start from.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "tests/fuzz/core_script.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using Script = uroce::sim::CoreScript<uroce::transport::UROCE_FUZZ_QUEUE_PAIR>;
  if (!Script::Holds({data, size})) std::abort();
  return 0;
}
