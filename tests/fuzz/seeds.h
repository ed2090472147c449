// SPDX-License-Identifier: Apache-2.0
// Writes the first inputs of a fuzzer; the fuzzer itself does so on request.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

namespace uroce::fuzz {

/// With the arguments --seeds DIRECTORY writes `scripts` there and ends the process.
inline void WriteSeedsIfAsked(int count, char** arguments,
                              const std::vector<std::vector<uint8_t>>& scripts) {
  if (count != 3 || std::strcmp(arguments[1], "--seeds") != 0) return;
  int number = 0;
  for (const std::vector<uint8_t>& script : scripts) {
    std::ofstream file(std::string(arguments[2]) + "/good-" + std::to_string(number++),
                       std::ios::binary);
    file.write(reinterpret_cast<const char*>(script.data()),
               static_cast<std::streamsize>(script.size()));
  }
  _exit(0);
}

}  // namespace uroce::fuzz
