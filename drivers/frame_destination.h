// SPDX-License-Identifier: Apache-2.0
// The number of the queue pair that a frame is sent to, stored in the mbuf.
#pragma once

#include <rte_mbuf.h>

#include "pipeline/base/types.h"

namespace uroce::drivers {

/// Of every frame that is given to Port::TransmitBurst: a port whose other end has several queues
/// chooses by it, as a NIC does by a flow rule. Qpn(): not RoCE. In the mbuf's hash, which drivers
/// write on receiving and do not read.
inline void SetDestination(rte_mbuf& frame, Qpn qpn) { frame.hash.rss = qpn.value(); }
inline Qpn DestinationOf(const rte_mbuf& frame) { return Qpn(frame.hash.rss); }

}  // namespace uroce::drivers
