// SPDX-License-Identifier: Apache-2.0
// Stores the number of the queue pair that a frame is sent to in the frame's mbuf.
#pragma once

#include <rte_mbuf.h>

#include "pipeline/base/types.h"

namespace uroce::drivers {

/// Every frame given to Port::TransmitBurst carries its destination. A port whose other end has
/// several queues chooses the queue by it, as a NIC does by a flow rule. Qpn(): not RoCE. The
/// number is in the mbuf's hash, which drivers write on receiving and do not read.
inline void SetDestination(rte_mbuf& frame, Qpn qpn) { frame.hash.rss = qpn.value(); }
inline Qpn DestinationOf(const rte_mbuf& frame) { return Qpn(frame.hash.rss); }

}  // namespace uroce::drivers
