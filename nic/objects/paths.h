// SPDX-License-Identifier: Apache-2.0
// Turns address vectors of programs into the paths of packets.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nic/devices/nic_device.h"
#include "nic/net/followed_paths.h"
#include "pipeline/datapath/queue/queue_pair_config.h"
#include "pipeline/shm/abi/uroce_commands.h"

namespace uroce::nic {

/// The path from an address of the device to a destination. Error messages begin with `what`.
/// Errors: InvalidArgument: the source index is empty, there is no destination, or the two are of
/// different families.
absl::StatusOr<PathKey> PathKeyOf(absl::string_view what, const NicDevice& device,
                                  const uroce_ah_attr& attr);

/// The path with the next hop's MAC `destination`; the other fields come from `attr`. The caller
/// adds the queue pair and the UDP source port.
datapath::Path MakePath(const PathKey& key, const Mac& destination, const uroce_ah_attr& attr);

}  // namespace uroce::nic
