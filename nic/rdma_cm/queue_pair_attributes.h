// SPDX-License-Identifier: Apache-2.0
// Attributes for ibv_modify_qp of the queue pairs of endpoints (docs/protocol/cm.md, section 5).
// Pure.
#pragma once

#include <cstdint>

#include "nic/rdma_cm/endpoint.h"

namespace uroce::nic::rdma_cm {

/// The address vector for packets on `path`. `gid_index`: of the path's source.
ibv_ah_attr AddressVectorOf(const PathRecord& path, uint8_t gid_index);

/// Attributes for a datagram endpoint, or one without a peer: INIT needs no peer, and for datagrams
/// RTR and RTS do not either. Errors: kWrongState: another state.
Result UnconnectedAttributes(const Endpoint& endpoint, ibv_qp_state state,
                             QueuePairAttributes& attributes);
/// Attributes for an endpoint with a peer. `agreed`: as both sides have agreed. Errors: kInvalid:
/// not a state to which rdma_cm moves queue pairs.
Result ConnectedAttributes(const Endpoint& endpoint, ibv_qp_state state,
                           const cm::QueuePairAttributes& agreed, uint8_t gid_index,
                           QueuePairAttributes& attributes);

}  // namespace uroce::nic::rdma_cm
