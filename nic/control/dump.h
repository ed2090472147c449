// SPDX-License-Identifier: Apache-2.0
// The daemon's state and counters as JSON.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nic/resources/nic.h"

namespace uroce::nic {

class FlightRecorder;
class PeerAgreements;
class RdmaCmHost;
class Session;

/// What uroce_dump_what names. Devices and their counters are for everybody; queue pairs and memory
/// regions of other users only for the privileged.
absl::StatusOr<std::string> DumpText(uint32_t what, Nic& nic, const FlightRecorder& flights,
                                     const RdmaCmHost& rdma_cm, const PeerAgreements& peers,
                                     const std::vector<const Session*>& sessions,
                                     const Session& asker);

/// The newest packets of a live queue pair as a pcapng file, for the same askers.
/// Errors: there is no such queue pair, or it keeps none.
absl::StatusOr<std::string> LiveFlight(Qpn qpn, Nic& nic,
                                       const std::vector<const Session*>& sessions,
                                       const Session& asker);

}  // namespace uroce::nic
