// SPDX-License-Identifier: Apache-2.0
// libFuzzer targets that read any bytes as a program's messages and actions: from its connection on
// (control_fuzz), or from two connected queue pairs on (rings_fuzz, with UROCE_FUZZ_MADE). Only
// clang builds them. With --seeds DIRECTORY they write scripts of good programs there, for a
// corpus.
#include <cstdlib>

#include "tests/fuzz/program/program_script.h"
#include "tests/fuzz/seeds.h"

namespace {

#ifdef UROCE_FUZZ_MADE
constexpr bool kMade = true;
#else
constexpr bool kMade = false;
#endif

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (!uroce::fuzz::ScriptHolds({data, size}, kMade)) std::abort();
  return 0;
}

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  std::vector<std::vector<uint8_t>> scripts = uroce::fuzz::GoodScripts();
  const std::vector<uint8_t> made = uroce::fuzz::MadeProgram();
  if (!kMade) {
    for (std::vector<uint8_t>& script : scripts) {
      script.insert(script.begin(), made.begin(), made.end());
    }
  }
  uroce::fuzz::WriteSeedsIfAsked(*count, *arguments, scripts);
  return 0;
}
