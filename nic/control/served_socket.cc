// SPDX-License-Identifier: Apache-2.0
#include "nic/control/served_socket.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "nic/base/fd.h"

namespace uroce::nic {
namespace {

constexpr uint64_t Bit(int signal) { return uint64_t{1} << (signal - 1); }
constexpr uint64_t kEnds = Bit(SIGTERM) | Bit(SIGINT) | Bit(SIGKILL);

// Of /proc/PID/stat (proc(5)), behind the name. The kernel sets PF_EXITING before it closes files,
// and after it has taken a SIGKILL from those that are pending.
constexpr size_t kFlags = 6;
constexpr uint32_t kExiting = 0x4;

/// The listener's process; 0 if there is none, or none that this namespace knows.
pid_t ListenerOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return 0;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const Fd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return 0;
  }
  ucred credentials{};
  socklen_t length = sizeof(credentials);
  getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &length);
  return credentials.pid;
}

std::string Text(pid_t pid, const char* name) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/", name));
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Whether one of the signals that end the daemon waits to be taken.
bool IsToldToEnd(const std::string& status) {
  for (const absl::string_view line : absl::StrSplit(status, '\n')) {
    if (!absl::StartsWith(line, "SigPnd:") && !absl::StartsWith(line, "ShdPnd:")) continue;
    uint64_t pending = 0;
    if (!absl::SimpleHexAtoi(line.substr(line.find('\t') + 1), &pending)) return true;
    if ((pending & kEnds) != 0) return true;
  }
  return status.empty();  // It has ended, or nothing is known of it.
}

bool IsExiting(const std::string& stat) {
  const std::vector<std::string> fields =
      absl::StrSplit(stat.substr(stat.rfind(')') + 1), ' ', absl::SkipEmpty());
  uint32_t flags = 0;
  if (fields.size() <= kFlags || !absl::SimpleAtoi(fields[kFlags], &flags)) return true;
  return (flags & kExiting) != 0;
}

}  // namespace

bool IsServed(const std::string& path) {
  const pid_t pid = ListenerOf(path);
  if (pid == 0 || IsToldToEnd(Text(pid, "status")) || IsExiting(Text(pid, "stat"))) return false;
  return access(path.c_str(), F_OK) == 0;  // Looked at last, as it is removed first.
}

}  // namespace uroce::nic
