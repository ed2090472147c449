// SPDX-License-Identifier: Apache-2.0
// A TAP: an Ethernet interface of the kernel whose other end is an fd.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "nic/resources/fd.h"
#include "pipeline/base/types.h"

namespace uroce::nic {

/// Opens the TAP `name`, which is made unless it is there, gives it `mac` and an MTU of
/// `mtu_bytes`, and brings it up. One frame a read or write; reads do not block. One that was made
/// here goes with the fd. Errors: one line that names it.
absl::StatusOr<Fd> OpenTap(const std::string& name, const Mac& mac, uint32_t mtu_bytes);

/// Shows the kernel a cable at the TAP's other end, or none. Kernels before 5.0 always see one.
void SetTapCarrier(const Fd& tap, bool has_carrier);

}  // namespace uroce::nic
