// SPDX-License-Identifier: Apache-2.0
// A kernel interface as a port, by packet sockets (packet(7)): packets of a flow that leave
// together are one superframe for the kernel, and superframes that arrive are taken apart.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "drivers/dpdk/device_arguments.h"
#include "drivers/dpdk/dpdk_device.h"
#include "pipeline/os/fd.h"
#include "pipeline/port/port.h"

namespace uroce::drivers {

// Opens packet sockets (packet(7)) for the RoCE frames of a kernel interface. Control thread.

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

// A kernel interface as a port, by packet sockets: packets of a flow that leave together are one
// superframe for the kernel, and superframes that arrive are taken apart.

struct rte_mempool;

namespace uroce::drivers {

inline constexpr char kPacketSocketDriver[] = "net_iface";

/// Opens the interface of `arguments`, with a socket for each queue. `takes_all_frames`: not only
/// RoCE frames. Errors are one line that names the interface. Control thread.
absl::StatusOr<std::unique_ptr<Port>> OpenPacketSocketPort(const DeviceArguments& arguments,
                                                           const DeviceOptions& options,
                                                           bool takes_all_frames,
                                                           rte_mempool* pool);

}  // namespace uroce::drivers
