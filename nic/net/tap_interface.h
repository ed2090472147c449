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

/// Opens the TAP `name`, which is made unless it is there, gives it `mac` and an MTU of
/// `mtu_bytes`, and brings it up. One frame a read or write; reads do not block. One that was made
/// here goes with the fd. Errors: one line that begins with the name.
absl::StatusOr<Fd> OpenTap(const std::string& name, const Mac& mac, uint32_t mtu_bytes);

/// A TAP that is there for its addresses: the kernel takes them for its own, and delivers what
/// programs of this host send to each other at them. Nobody reads what goes out of it, and the
/// kernel's routes stay as they are. Errors: as above.
absl::StatusOr<Fd> OpenAddressTap(const std::string& name, const Mac& mac, uint32_t mtu_bytes,
                                  const std::vector<InterfaceAddress>& addresses);

/// Shows the kernel a cable at the TAP's other end, or none. Kernels before 5.0 always see one.
void SetTapCarrier(const Fd& tap, bool has_carrier);

}  // namespace uroce::nic
