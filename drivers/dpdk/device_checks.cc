// SPDX-License-Identifier: Apache-2.0
#include "drivers/dpdk/device_checks.h"

#include <linux/capability.h>
#include <net/if.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "drivers/dpdk/dpdk_device.h"
#include "drivers/kernel/kernel_interface.h"
#include "pipeline/os/credentials.h"
#include "pipeline/os/unix_socket.h"

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

struct Need {
  int capability;
  const char* name;
};

absl::Status CheckRights(const DeviceArguments& arguments, absl::string_view what,
                         std::initializer_list<Need> needs) {
  for (const Need& need : needs) {
    if (HasCapability(need.capability)) continue;
    return absl::PermissionDeniedError(
        absl::StrCat("dev \"", arguments.name, "\": ", what, " needs the capability ", need.name));
  }
  return absl::OkStatus();
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
  if (!kernel.ok()) {
    return absl::Status(kernel.status().code(),
                        Bad(arguments, kernel.status().message()).message());
  }
  if (options.flow_control) {
    return Bad(arguments, absl::StrCat("flow-control=", NameOf(*options.flow_control),
                                       ": the kernel sets that of ", kernel->name, "; ",
                                       EthtoolCommand(kernel->name, *options.flow_control)));
  }
  const std::string what = absl::StrCat("iface=", kernel->name);
  absl::Status rights = absl::OkStatus();
  if (!arguments.rules().needs_no_privilege) {
    rights = CheckRights(arguments, what, {{CAP_NET_RAW, "CAP_NET_RAW"}});
  }
  if (rights.ok() && arguments.rules().wake_up == WakeUp::kXdpSocket) {
    rights = CheckRights(arguments, what, {{CAP_NET_ADMIN, "CAP_NET_ADMIN"}, {CAP_BPF, "CAP_BPF"}});
  }
  if (!rights.ok()) return rights;
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

absl::Status CheckTap(const DeviceArguments& arguments) {
  constexpr char kDevice[] = "/dev/net/tun";
  const std::string interface = arguments.Value("iface");
  if (access(kDevice, R_OK | W_OK) != 0) {
    return Bad(arguments, absl::StrCat(kDevice, ": ", std::strerror(errno), "; modprobe tun"));
  }
  if (ReadKernelInterface(interface).ok()) {
    return Bad(arguments, absl::StrCat("iface=", interface,
                                       ": there is such an interface; the TAP is made anew"));
  }
  if (interface.size() >= IFNAMSIZ) {
    return Bad(arguments, absl::StrCat("iface=", interface, " is longer than ", IFNAMSIZ - 1));
  }
  return CheckRights(arguments, absl::StrCat("iface=", interface),
                     {{CAP_NET_ADMIN, "CAP_NET_ADMIN"}});
}

/// The worker reads and writes these files, so files that could make it block are refused.
absl::Status CheckFile(const DeviceArguments& arguments, absl::string_view key, int access_mode) {
  const std::string* path = arguments.Find(key);
  if (path == nullptr) return absl::OkStatus();
  struct stat status {};
  const bool exists = stat(path->c_str(), &status) == 0;
  if (exists && !S_ISREG(status.st_mode)) {
    return Bad(arguments, absl::StrCat(key, "=", *path, ": is no file"));
  }
  const std::filesystem::path parent = std::filesystem::path(*path).parent_path();
  const std::string directory = parent.empty() ? std::string(1, '.') : parent.string();
  const bool makes_it = !exists && access_mode == W_OK;
  if (access(makes_it ? directory.c_str() : path->c_str(), access_mode) == 0) {
    return absl::OkStatus();
  }
  return Bad(arguments, absl::StrCat(key, "=", *path, ": ", std::strerror(errno)));
}

absl::Status CheckFiles(const DeviceArguments& arguments) {
  const absl::Status status = CheckFile(arguments, "rx_pcap", R_OK);
  return status.ok() ? CheckFile(arguments, "tx_pcap", W_OK) : status;
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
  if (absl::Status status = CheckFiles(arguments); !status.ok()) return status;
  if (!arguments.Interface().empty()) return CheckInterface(arguments, options);
  if (arguments.driver == "net_tap") return CheckTap(arguments);
  if (arguments.driver == "net_vhost") return CheckVhost(arguments);
  if (arguments.driver == "net_virtio_user") return CheckVirtioUser(arguments);
  return absl::OkStatus();
}

}  // namespace uroce::drivers
