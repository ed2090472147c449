// SPDX-License-Identifier: Apache-2.0
// A network namespace for a test, so that it and other processes do not share ports.
#pragma once

#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cstring>

#include "pipeline/os/fd.h"

namespace uroce::drivers {

/// The thread's network has the loopback interface alone, until this object ends. Without the
/// privilege for it, the thread stays in the network of the process.
class OwnNetwork {
 public:
  OwnNetwork() : before_(open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)) {
    is_own_ = before_.get() >= 0 && unshare(CLONE_NEWNET) == 0;
    if (!is_own_) return;
    const Fd any(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ifreq request{};
    std::memcpy(request.ifr_name, "lo", sizeof("lo"));
    request.ifr_flags = IFF_UP;
    ioctl(any.get(), SIOCSIFFLAGS, &request);
  }
  ~OwnNetwork() {
    if (is_own_) setns(before_.get(), CLONE_NEWNET);
  }
  OwnNetwork(const OwnNetwork&) = delete;
  OwnNetwork& operator=(const OwnNetwork&) = delete;

 private:
  Fd before_;
  bool is_own_;
};

}  // namespace uroce::drivers
