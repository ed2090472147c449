// SPDX-License-Identifier: Apache-2.0
// What the kernel says of a network interface, and whether a port can be opened on it. Control
// thread.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "pipeline/base/types.h"
#include "pipeline/port/port.h"

namespace uroce::drivers {

struct InterfaceState {
  std::string name;
  std::string driver;  ///< As ethtool -i names it; "" when the kernel does not tell it.
  int ifindex = 0;
  Mac mac{};
  uint32_t mtu_bytes = 0;
  bool link_up = false;    ///< Up and running.
  uint64_t speed_bps = 0;  ///< 0 when the kernel does not know.
};

/// Reads the present state of the interface, in this thread's network namespace. A NotFound error
/// names the interface.
absl::StatusOr<InterfaceState> ReadInterface(const std::string& name);

/// Whether the kernel has at least 64 MB of free memory in blocks of 64 KB or more, so that it need
/// not move pages to make one. `buddyinfo` has the text of /proc/buddyinfo, "" where there is none,
/// as in sandboxes. Range: `page_bytes` > 0.
bool HasFreeBlocks(absl::string_view buddyinfo, uint64_t page_bytes);
/// The same for this machine, now.
bool HasFreeBlocks();

/// The command by which an administrator sets the link pause of the kernel's `interface`.
std::string EthtoolCommand(const std::string& interface, FlowControl flow_control);

/// A capability, and its name for messages.
struct Need {
  int capability;
  const char* name;
};
/// Checks that this thread has the capabilities. An error begins with `device`, and says that
/// `what` needs the first one that is missing.
absl::Status CheckRights(absl::string_view device, absl::string_view what,
                         std::initializer_list<Need> needs);

/// Checks that a port with these options can be opened on the interface, which exists and carries
/// the MTU, with the capabilities `needs`. Errors: one line that begins with `device`.
absl::Status CheckInterface(absl::string_view device, const std::string& interface,
                            const PortOptions& options, std::initializer_list<Need> needs);

}  // namespace uroce::drivers
