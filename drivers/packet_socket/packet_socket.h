// SPDX-License-Identifier: Apache-2.0
// Opens packet sockets (packet(7)) for the RoCE frames of a kernel interface. Control thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "nic/base/fd.h"

namespace uroce::drivers {

struct PacketSocketOptions {
  int ifindex = 0;
  bool takes_all_frames = false;  ///< Not only RoCE frames.
  uint16_t sockets = 1;           ///< How many share the interface's frames by flow (fanout).
  uint16_t fanout_id = 0;         ///< The same for all of them, and for no others.
};

/// Opens a socket that sends and receives frames with a virtio_net_hdr before each (superframe.h),
/// and does not receive frames that leave the interface. An error says which step failed.
absl::StatusOr<Fd> OpenPacketSocket(const PacketSocketOptions& options);

}  // namespace uroce::drivers
