// SPDX-License-Identifier: Apache-2.0
// Builds responses to queries, and events, in the ABI's structures. Pure.
#pragma once

#include <optional>

#include "nic/rdma_cm/types.h"
#include "nic/ucma/abi.h"

namespace uroce::nic::ucma {

/// What responses need of an id. `node_guid`: of its device, as ibv_get_device_guid returns it; 0
/// while it has no device.
struct Described {
  rdma_cm::EndpointInfo info;
  std::optional<rdma_cm::PathRecord> path;
  uint64_t node_guid = 0;
};

/// QUERY_ROUTE: for programs that do not know the queries below.
rdma_ucm_query_route_resp RouteResponse(const Described& id);
/// QUERY with QUERY_ADDR.
rdma_ucm_query_addr_resp AddressResponse(const Described& id);
/// QUERY with QUERY_GID: the addresses as GIDs (AF_IB).
rdma_ucm_query_addr_resp GidResponse(const Described& id);
/// QUERY with QUERY_PATH: a response with one path; num_paths is 0 or 1.
struct PathResponse {
  uint32_t num_paths;
  uint32_t reserved;
  ib_path_rec_data path;
};
PathResponse PathsResponse(const Described& id);

/// INIT_QP_ATTR.
ib_uverbs_qp_attr QueuePairResponse(const rdma_cm::QueuePairAttributes& attributes);

/// GET_EVENT, without uid and id. `is_datagram`: the id is for datagrams.
rdma_ucm_event_resp EventResponse(const rdma_cm::Event& event, bool is_datagram);

}  // namespace uroce::nic::ucma
