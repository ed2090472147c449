// SPDX-License-Identifier: Apache-2.0
#include "drivers/device_checks.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "drivers/kernel_interface.h"
#include "drivers/unix_socket_path.h"

namespace uroce::drivers {
namespace {

/// What a slot of a packet ring holds beside the Ethernet payload: the ring's header, the address,
/// padding, and the Ethernet header.
constexpr uint32_t kPacketRingOverhead = 128 + 18;

absl::Status Named(const DeviceArguments& arguments, absl::string_view key,
                   const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat("dev \"", arguments.name, "\": ", key, "=", status.message()));
}

absl::Status Bad(const DeviceArguments& arguments, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("dev \"", arguments.name, "\": ", why));
}

absl::Status CheckPacketSockets(const DeviceArguments& arguments) {
  const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
  if (fd >= 0) {
    close(fd);
    return absl::OkStatus();
  }
  if (errno != EPERM && errno != EACCES) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat("dev \"", arguments.name,
                                                  "\": iface=", arguments.Interface(),
                                                  " needs the capability CAP_NET_RAW"));
}

absl::Status CheckInterfaceMtu(const DeviceArguments& arguments, const DeviceOptions& options,
                               const KernelInterface& kernel) {
  if (options.mtu_bytes > kernel.mtu_bytes) {
    return Bad(arguments, absl::StrCat("mtu=", options.mtu_bytes, " is more than the ",
                                       kernel.mtu_bytes, " of ", kernel.name, "; ip link set ",
                                       kernel.name, " mtu ", options.mtu_bytes));
  }
  const uint32_t limit = arguments.rules().mtu_limit;
  if (limit != 0 && kernel.mtu_bytes > limit) {
    return Bad(arguments, absl::StrCat("iface=", kernel.name, " has the MTU ", kernel.mtu_bytes,
                                       ", and ", arguments.driver, " works up to ", limit,
                                       "; ip link set ", kernel.name, " mtu ", limit));
  }
  return absl::OkStatus();
}

absl::Status CheckInterface(const DeviceArguments& arguments, const DeviceOptions& options) {
  const absl::StatusOr<KernelInterface> kernel = ReadKernelInterface(arguments.Interface());
  if (!kernel.ok()) return Named(arguments, "iface", kernel.status());
  if (absl::Status status = CheckPacketSockets(arguments); !status.ok()) return status;
  return CheckInterfaceMtu(arguments, options, *kernel);
}

absl::Status CheckVhost(const DeviceArguments& arguments) {
  if (arguments.Value("client") == "1") return absl::OkStatus();
  return Named(arguments, "iface", PrepareServerPath(arguments.Value("iface")));
}

absl::Status CheckVirtioUser(const DeviceArguments& arguments) {
  const std::string path = arguments.Value("path");
  if (absl::StartsWith(path, "/dev/")) return absl::OkStatus();
  return Named(arguments, "path", CheckServerListens(path));
}

}  // namespace

uint32_t MtuLimit(const DeviceArguments& arguments) {
  uint32_t frame_bytes = 0;
  if (arguments.driver != "net_af_packet") return arguments.rules().mtu_limit;
  if (!absl::SimpleAtoi(arguments.Value("framesz"), &frame_bytes)) return 0;
  return frame_bytes > kPacketRingOverhead ? frame_bytes - kPacketRingOverhead : 1;
}

absl::Status CheckDevice(const DeviceArguments& arguments, const DeviceOptions& options) {
  const uint32_t limit = MtuLimit(arguments);
  if (limit != 0 && options.mtu_bytes > limit) {
    return Bad(arguments, absl::StrCat("mtu=", options.mtu_bytes, " is more than the ", limit,
                                       " bytes that ", arguments.driver, " carries"));
  }
  if (!arguments.Interface().empty()) return CheckInterface(arguments, options);
  if (arguments.driver == "net_vhost") return CheckVhost(arguments);
  if (arguments.driver == "net_virtio_user") return CheckVirtioUser(arguments);
  return absl::OkStatus();
}

}  // namespace uroce::drivers
