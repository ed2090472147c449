// SPDX-License-Identifier: Apache-2.0
#include "tools/client/whole_number.h"

#include <cerrno>
#include <cstdlib>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace uroce::tools {

CLI::Validator WholeNumber(uint64_t least, uint64_t most) {
  const bool is_bounded = most != std::numeric_limits<uint64_t>::max();
  const std::string named =
      is_bounded ? absl::StrCat(least, " to ", most) : absl::StrCat(least, " up");
  const auto check = [least, most, named](std::string& text) {
    char* end = nullptr;
    errno = 0;
    const uint64_t number = strtoull(text.c_str(), &end, 0);
    const bool is_number =
        !text.empty() && absl::ascii_isdigit(static_cast<unsigned char>(text[0])) && *end == 0;
    if (is_number && errno == 0 && number >= least && number <= most) return std::string();
    return absl::StrCat(text, " is no number from ", named);
  };
  return CLI::Validator(check, is_bounded ? absl::StrCat("[", least, " - ", most, "]") : "");
}

}  // namespace uroce::tools
