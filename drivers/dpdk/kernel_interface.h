// SPDX-License-Identifier: Apache-2.0
// What the kernel says of a network interface. Control thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "pipeline/base/types.h"

namespace uroce::drivers {

struct KernelInterface {
  std::string name;
  int ifindex = 0;
  Mac mac{};
  uint32_t mtu_bytes = 0;
  bool link_up = false;    ///< Up and running.
  uint64_t speed_bps = 0;  ///< 0 when the kernel does not know.
};

/// Reads the present state of the interface, in this thread's network namespace. A NotFound error
/// names the interface.
absl::StatusOr<KernelInterface> ReadKernelInterface(const std::string& name);

}  // namespace uroce::drivers
