// SPDX-License-Identifier: Apache-2.0
// A memif: an Ethernet between two processes of one machine, in memory that they share.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "drivers/memif/memif_config.h"
#include "drivers/port.h"

struct rte_mempool;

namespace uroce::drivers {

/// Opens the end that `arguments` of driver net_memif describe. The link is up while the other end
/// is connected; either may come, go and come back at any time. Frames go into mbufs of `pool`.
/// Control thread. Errors name the option.
///
/// Spoken here and not by DPDK's driver of that name, whose interrupt thread unmaps the rings under
/// a worker that is inside them when the peer dies, and which believes whatever the peer writes
/// there. DPDK's driver will do as the other end.
absl::StatusOr<std::unique_ptr<Port>> OpenMemifPort(const DeviceArguments& arguments,
                                                    rte_mempool* pool);

}  // namespace uroce::drivers
