// SPDX-License-Identifier: Apache-2.0
// libFuzzer target that reads any bytes as settings. Only clang builds it. With --seeds DIRECTORY
// it writes good settings there.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "tests/fuzz/config_check.h"
#include "tests/fuzz/seeds.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (!uroce::nic::ConfigHolds({reinterpret_cast<const char*>(data), size})) std::abort();
  return 0;
}

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  std::vector<std::vector<uint8_t>> seeds;
  for (const std::string text : uroce::nic::kGoodConfigs)
    seeds.emplace_back(text.begin(), text.end());
  uroce::fuzz::WriteSeedsIfAsked(*count, *arguments, seeds);
  return 0;
}
