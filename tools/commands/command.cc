// SPDX-License-Identifier: Apache-2.0
// What all sub-commands of `uroce` share: the daemon's socket, how they print and how they end, and
// the check of flags whose value is a whole number.
#include "tools/commands/command.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "tools/client/control_client.h"

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

std::string Invocation::SocketPath() const { return ResolveSocketPath(socket); }

void AddSocketFlag(CLI::App& app, Invocation& invocation) {
  app.add_option("--socket", invocation.socket, "Control socket of the daemon (or UROCE_SOCKET)");
}

int Report(const absl::Status& status) {
  if (status.ok()) return 0;
  fprintf(stderr, "uroce: %s\n", std::string(status.message()).c_str());
  return status.code() == absl::StatusCode::kDataLoss ? kExitFailed : kExitUsage;
}

int Print(const absl::StatusOr<std::string>& text) {
  if (!text.ok()) return Report(text.status());
  if (fputs(text->c_str(), stdout) >= 0 && fflush(stdout) == 0) return 0;
  return Report(absl::DataLossError(absl::StrCat("standard output: ", strerror(errno))));
}

}  // namespace uroce::tools
