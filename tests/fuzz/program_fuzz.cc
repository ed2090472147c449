// SPDX-License-Identifier: Apache-2.0
// libFuzzer targets: any bytes as what a program says and does, from its connection on
// (control_fuzz), or once it has two connected queue pairs (rings_fuzz, with UROCE_FUZZ_MADE).
// Built by clang alone. With --seeds DIRECTORY they write scripts of good programs there, for a
// corpus.
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "tests/fuzz/program_script.h"

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
  if (*count != 3 || std::strcmp((*arguments)[1], "--seeds") != 0) return 0;
  int number = 0;
  for (std::vector<uint8_t> script : uroce::fuzz::GoodScripts()) {
    const std::vector<uint8_t> made = uroce::fuzz::MadeProgram();
    if (!kMade) script.insert(script.begin(), made.begin(), made.end());
    std::ofstream file(std::string((*arguments)[2]) + "/good-" + std::to_string(number++),
                       std::ios::binary);
    file.write(reinterpret_cast<const char*>(script.data()),
               static_cast<std::streamsize>(script.size()));
  }
  _exit(0);
}
