// SPDX-License-Identifier: Apache-2.0
// Attributes of the queue pairs that endpoints bring into their connections
// (docs/protocol/cm.md, section 5). Pure.
#pragma once

#include <cstdint>

#include "nic/rdma_cm/endpoint.h"

namespace uroce::nic::rdma_cm {

/// Where packets on `path` go, as an address vector. `gid_index`: of the path's source.
ibv_ah_attr AddressVectorOf(const PathRecord& path, uint8_t gid_index);

/// Of a datagram endpoint, or one that knows no peer yet: INIT needs none, RTR and RTS of datagrams
/// neither. Errors: kWrongState: another state.
Result UnconnectedAttributes(const Endpoint& endpoint, ibv_qp_state state,
                             QueuePairAttributes& attributes);
/// Of one that knows its peer. `agreed`: what both sides have said. Errors: kInvalid: a state that
/// rdma_cm brings no queue pair to.
Result ConnectedAttributes(const Endpoint& endpoint, ibv_qp_state state,
                           const cm::QueuePairAttributes& agreed, uint8_t gid_index,
                           QueuePairAttributes& attributes);

}  // namespace uroce::nic::rdma_cm
