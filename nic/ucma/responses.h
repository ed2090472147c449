// SPDX-License-Identifier: Apache-2.0
// The kernel's structures of the rdma_cm ABI: events and answers in them, and socket addresses.
// Pure.
#pragma once

#include <netinet/in.h>
#include <rdma/rdma_user_cm.h>

#include <cstdint>
#include <optional>
#include <span>

#include "nic/rdma_cm/types.h"

// Includes the kernel's structures of the command ABI behind libc's addresses, which must be first.

namespace uroce::nic::ucma {

// ---- socket addresses ----

/// Bytes of an address of this family; 0 if the family is not supported (AF_IB is not).
size_t AddressBytes(uint16_t family);
/// The family of an address that begins with `bytes`; AF_UNSPEC if it is too short.
uint16_t FamilyOf(std::span<const uint8_t> bytes);

/// Reads an IPv4 or IPv6 address. Returns 0, EINVAL if it is truncated, or EAFNOSUPPORT.
int ReadAddress(std::span<const uint8_t> bytes, rdma_cm::SocketAddress& address);
/// Writes `address` as a sockaddr of its family. Returns the number of bytes.
size_t WriteAddress(const rdma_cm::SocketAddress& address, __kernel_sockaddr_storage& to);

// ---- responses and events ----

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
