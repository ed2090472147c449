// SPDX-License-Identifier: Apache-2.0
// From address vectors, as programs write them, to the paths of packets.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nic/devices/nic_device.h"
#include "nic/net/followed_paths.h"
#include "pipeline/datapath/queue/queue_pair_config.h"
#include "pipeline/shm/abi/uroce_commands.h"

namespace uroce::nic {

/// The path from an address of the device to a destination. `what` begins the messages.
/// Errors: InvalidArgument: the source index is empty, there is no destination, or the two are of
/// different families.
absl::StatusOr<PathKey> PathKeyOf(absl::string_view what, const NicDevice& device,
                                  const uroce_ah_attr& attr);

/// The path to the next hop that has `destination`, with the rest from `attr`. Queue pair and UDP
/// source port are the caller's to add.
datapath::Path MakePath(const PathKey& key, const Mac& destination, const uroce_ah_attr& attr);

}  // namespace uroce::nic
