// SPDX-License-Identifier: Apache-2.0
// Keeps the kernel from answering the RoCE packets of an interface that it and the daemon share.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace uroce::drivers {

/// A port on a kernel interface (af_packet, af_xdp, tap) also leaves the frames to the kernel's
/// stack, which would tell each sender that nobody listens on UDP port 4791. This class holds
/// sockets of that UDP port on that interface. Their filter drops everything before it is queued.
class KernelMute {
 public:
  /// No error when another program holds the UDP port: then the kernel does not answer either.
  static absl::StatusOr<KernelMute> Open(const std::string& interface);
  ~KernelMute();
  KernelMute(KernelMute&& other) noexcept : fds_(std::exchange(other.fds_, {})) {}
  KernelMute& operator=(KernelMute&&) = delete;

 private:
  KernelMute() = default;
  std::vector<int> fds_;
};

}  // namespace uroce::drivers
