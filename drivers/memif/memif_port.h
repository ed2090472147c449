// SPDX-License-Identifier: Apache-2.0
// A memif: an Ethernet between two processes of one machine, in memory that they share.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "drivers/memif/memif_config.h"
#include "pipeline/port/port.h"

struct rte_mempool;

namespace uroce::drivers {

/// Opens the end of a memif. The link is up while the other end is connected. Either end may start,
/// stop and start again at any time. Frames go into mbufs of `pool`. Control thread. Errors name
/// the option.
///
/// This port implements memif itself instead of using DPDK's driver of that name: the interrupt
/// thread of that driver unmaps the rings under a worker that uses them when the peer dies, and the
/// driver trusts whatever the peer writes there. DPDK's driver can be the other end.
absl::StatusOr<std::unique_ptr<Port>> OpenPort(const MemifConfig& kind, const PortOptions& options,
                                               rte_mempool* pool);

}  // namespace uroce::drivers
