// SPDX-License-Identifier: Apache-2.0
#include "drivers/dpdk/device_fds.h"

#include <sys/socket.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "absl/strings/numbers.h"

namespace uroce::drivers {
namespace {

namespace fs = std::filesystem;

bool IsSocketOf(int fd, int family) {
  int domain = 0;
  socklen_t length = sizeof domain;
  return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0 && domain == family;
}

bool IsTapQueue(const fs::path& link) {
  std::error_code error;
  return fs::read_symlink(link, error) == "/dev/net/tun";
}

bool IsOf(WakeUp kind, int fd, const fs::path& link) {
  switch (kind) {
    case WakeUp::kPacketSocket:
      return IsSocketOf(fd, AF_PACKET);
    case WakeUp::kXdpSocket:
      return IsSocketOf(fd, AF_XDP);
    case WakeUp::kTapQueue:
      return IsTapQueue(link);
    case WakeUp::kTimer:
    case WakeUp::kInterrupt:
      return false;
  }
  return false;
}

}  // namespace

std::vector<int> FdsOf(WakeUp kind) {
  std::vector<int> fds;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd", error)) {
    int fd = -1;
    if (!absl::SimpleAtoi(entry.path().filename().string(), &fd)) continue;
    if (IsOf(kind, fd, entry.path())) fds.push_back(fd);
  }
  std::sort(fds.begin(), fds.end());
  return fds;
}

std::vector<int> FdsSince(WakeUp kind, const std::vector<int>& before) {
  const std::vector<int> now = FdsOf(kind);
  std::vector<int> since;
  std::set_difference(now.begin(), now.end(), before.begin(), before.end(),
                      std::back_inserter(since));
  return since;
}

}  // namespace uroce::drivers
