// SPDX-License-Identifier: Apache-2.0
#include "tools/commands/commands.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "tools/client/command_line.h"
#include "tools/client/control_client.h"
#include "tools/client/printable.h"

namespace uroce::tools {

std::string Invocation::SocketPath() const { return ResolveSocketPath(socket); }

void AddSocketFlag(const Command& command, Invocation& invocation) {
  command.AddValue("--socket", invocation.socket, "Control socket of the daemon (or UROCE_SOCKET)");
}

int Report(const absl::Status& status) {
  if (status.ok()) return 0;
  fprintf(stderr, "uroce: %s\n", PrintableLines(std::string(status.message())).c_str());
  return status.code() == absl::StatusCode::kDataLoss ? kExitFailed : kExitUsage;
}

int Print(const absl::StatusOr<std::string>& text) {
  if (!text.ok()) return Report(text.status());
  if (fputs(PrintableLines(*text).c_str(), stdout) >= 0 && fflush(stdout) == 0) return 0;
  return Report(absl::DataLossError(absl::StrCat("standard output: ", strerror(errno))));
}

}  // namespace uroce::tools
