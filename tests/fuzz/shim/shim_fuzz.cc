// SPDX-License-Identifier: Apache-2.0
// libFuzzer target that reads any bytes as a malicious daemon, for the real shim. Only clang builds
// it. With --seeds DIRECTORY it writes good scripts there, for a corpus.
#include <cstdio>
#include <cstdlib>

#include "tests/fuzz/seeds.h"
#include "tests/fuzz/shim/shim_script.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string failure = uroce::fuzz::ShimFailure({data, size});
  if (failure.empty()) return 0;
  std::fprintf(stderr, "%s\n", failure.c_str());
  std::abort();
}

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  uroce::fuzz::WriteSeedsIfAsked(*count, *arguments, uroce::fuzz::GoodShimScripts());
  return 0;
}
