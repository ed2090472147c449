// SPDX-License-Identifier: Apache-2.0
// Converts attributes of queue pairs and address handles between verbs and the ABI of the daemon.
#pragma once

#include <infiniband/verbs.h>

#include "pipeline/shm/abi/uroce_commands.h"

namespace uroce::shim {

uroce_qp_cap ToAbi(const ibv_qp_cap& cap);
ibv_qp_cap FromAbi(const uroce_qp_cap& cap);

uroce_ah_attr ToAbi(const ibv_ah_attr& attr);
ibv_ah_attr FromAbi(const uroce_ah_attr& attr);

/// Converts the attributes that `mask` names; programs leave the others uninitialized.
uroce_qp_attr ToAbi(const ibv_qp_attr& attr, int mask);
/// Converts all attributes that the daemon reports; fields that it does not know are 0.
ibv_qp_attr FromAbi(const uroce_qp_attr& attr);
/// IBV_QPS_ERR for a number that is no state.
inline ibv_qp_state StateFromAbi(uint32_t state) {
  return state < IBV_QPS_ERR ? static_cast<ibv_qp_state>(state) : IBV_QPS_ERR;
}

}  // namespace uroce::shim
