// SPDX-License-Identifier: Apache-2.0
// libFuzzer targets that read any bytes as the life of a queue pair of UROCE_FUZZ_QUEUE_PAIR's
// kind. Only clang builds them. Requester and responder are the same target with different corpora.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "tests/fuzz/core/core_script.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using Script = uroce::sim::CoreScript<uroce::transport::UROCE_FUZZ_QUEUE_PAIR>;
  if (!Script::Holds({data, size})) std::abort();
  return 0;
}
