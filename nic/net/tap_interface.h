// SPDX-License-Identifier: Apache-2.0
// A TAP: an Ethernet interface of the kernel whose other end is an fd.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nic/base/fd.h"
#include "nic/net/address.h"
#include "pipeline/base/types.h"

namespace uroce::nic {

/// Opens the TAP `name`, creates it unless it exists, sets its MAC `mac` and an MTU of `mtu_bytes`,
/// and brings it up. One read or write moves one frame; reads do not block. A TAP created here is
/// removed when the fd is closed. Errors: one line that begins with the name.
absl::StatusOr<Fd> OpenTap(const std::string& name, const Mac& mac, uint32_t mtu_bytes);

/// Opens a TAP that only holds addresses: the kernel treats them as its own, and delivers what
/// programs of this host send to each other at them. Nobody reads the frames that it sends, and the
/// kernel's routes do not change. Errors: as for OpenTap.
absl::StatusOr<Fd> OpenAddressTap(const std::string& name, const Mac& mac, uint32_t mtu_bytes,
                                  const std::vector<InterfaceAddress>& addresses);

/// Tells the kernel whether a cable is at the TAP. Kernels before 5.0 always see a cable.
void SetTapCarrier(const Fd& tap, bool has_carrier);

}  // namespace uroce::nic
