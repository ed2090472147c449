// SPDX-License-Identifier: Apache-2.0
#include "nic/ucma/responses.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace uroce::nic::ucma {
namespace {

constexpr uint32_t kFlowLabelMask = 0xfffff;

rdma_cm::SocketAddress FromIpv4(const sockaddr_in& from) {
  rdma_cm::SocketAddress address;
  address.address.bytes[10] = address.address.bytes[11] = 0xff;
  std::memcpy(&address.address.bytes[12], &from.sin_addr, sizeof(from.sin_addr));
  address.port = ntohs(from.sin_port);
  return address;
}

rdma_cm::SocketAddress FromIpv6(const sockaddr_in6& from) {
  rdma_cm::SocketAddress address;
  std::memcpy(address.address.bytes.data(), &from.sin6_addr, sizeof(from.sin6_addr));
  address.port = ntohs(from.sin6_port);
  address.flow_label = ntohl(from.sin6_flowinfo) & kFlowLabelMask;
  address.scope_id = from.sin6_scope_id;
  return address;
}

sockaddr_in ToIpv4(const rdma_cm::SocketAddress& address) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(address.port);
  std::memcpy(&to.sin_addr, &address.address.bytes[12], sizeof(to.sin_addr));
  return to;
}

sockaddr_in6 ToIpv6(const rdma_cm::SocketAddress& address) {
  sockaddr_in6 to{};
  to.sin6_family = AF_INET6;
  to.sin6_port = htons(address.port);
  to.sin6_flowinfo = htonl(address.flow_label);
  std::memcpy(&to.sin6_addr, address.address.bytes.data(), sizeof(to.sin6_addr));
  to.sin6_scope_id = address.scope_id;
  return to;
}

template <typename T>
T Copy(std::span<const uint8_t> bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof(value));
  return value;
}

constexpr uint16_t kAfIb = 27;  // Defined by Linux, but in no libc header.
constexpr uint8_t kPort = 1;
constexpr uint16_t kDefaultPkey = 0xffff;
constexpr uint32_t kNoDeviceIndex = UINT32_MAX;  // Programs then use the GUID.
constexpr uint8_t kExactly = 2;                  // A selector in path records.
// struct sockaddr_ib: family, pkey, flow info, 16 bytes of address, service ID and its mask, scope.
constexpr size_t kIbPkeyOffset = 2;
constexpr size_t kIbAddressOffset = 8;
constexpr size_t kIbServiceOffset = 24;
constexpr size_t kIbAddressBytes = 48;

bool IsKnown(const Gid& gid) { return gid != Gid(); }
bool IsBound(const rdma_cm::EndpointInfo& info) { return info.state != rdma_cm::State::kIdle; }

template <size_t bytes>
void CopyGid(const Gid& gid, uint8_t (&to)[bytes]) {
  static_assert(bytes == sizeof(gid.bytes));
  std::ranges::copy(gid.bytes, to);
}

template <typename Response>
void DescribeDevice(const Described& id, Response& response) {
  response.ibdev_index = kNoDeviceIndex;
  if (!id.info.device) return;
  response.node_guid = id.node_guid;
  response.port_num = kPort;
}

ib_user_path_rec UserPath(const rdma_cm::PathRecord& path) {
  ib_user_path_rec record{};
  CopyGid(path.destination, record.dgid);
  CopyGid(path.source, record.sgid);
  record.flow_label = htonl(path.flow_label);
  record.reversible = 1;
  record.mtu = path.mtu;
  record.pkey = htons(path.pkey);
  record.hop_limit = path.hop_limit;
  record.traffic_class = path.traffic_class;
  record.numb_path = 1;
  record.sl = path.sl;
  record.mtu_selector = record.rate_selector = record.packet_life_time_selector = kExactly;
  record.rate = path.rate;
  record.packet_life_time = path.packet_life_time;
  return record;
}

// A path record in its wire format (IBTA vol. 1, 15.2.5.16).
struct WirePath {
  uint64_t service_id;
  uint8_t dgid[16];
  uint8_t sgid[16];
  uint16_t dlid;
  uint16_t slid;
  uint32_t flow_label_and_hop_limit;
  uint8_t traffic_class;
  uint8_t reversible_and_count;
  uint16_t pkey;
  uint16_t qos_class_and_sl;
  uint8_t mtu;
  uint8_t rate;
  uint8_t packet_life_time;
  uint8_t preference;
  uint8_t reserved[6];
};
static_assert(sizeof(WirePath) == sizeof(ib_path_rec_data::path_rec));

WirePath ToWire(const rdma_cm::PathRecord& path) {
  constexpr uint8_t kSelector = kExactly << 6;
  WirePath record{};
  CopyGid(path.destination, record.dgid);
  CopyGid(path.source, record.sgid);
  record.flow_label_and_hop_limit = htonl(path.flow_label << 8 | path.hop_limit);
  record.traffic_class = path.traffic_class;
  record.reversible_and_count = 0x80 | 1;
  record.pkey = htons(path.pkey);
  record.qos_class_and_sl = htons(path.sl);
  record.mtu = kSelector | path.mtu;
  record.rate = kSelector | path.rate;
  record.packet_life_time = kSelector | path.packet_life_time;
  return record;
}

uint16_t WriteIbAddress(const Described& id, const rdma_cm::SocketAddress& address,
                        __kernel_sockaddr_storage& to) {
  const uint64_t service = wire::ServiceIdOf({id.info.space, address.port});
  uint8_t bytes[kIbAddressBytes] = {};
  std::memcpy(bytes, &kAfIb, sizeof(kAfIb));
  bytes[kIbPkeyOffset] = bytes[kIbPkeyOffset + 1] = id.info.device ? 0xff : 0;
  std::ranges::copy(address.address.bytes, bytes + kIbAddressOffset);
  for (size_t i = 0; i < sizeof(service); ++i) {
    bytes[kIbServiceOffset + i] = static_cast<uint8_t>(service >> 8 * (7 - i));
  }
  std::memcpy(&to, bytes, sizeof(bytes));
  return sizeof(bytes);
}

ib_uverbs_ah_attr AddressHandle(const ibv_ah_attr& from) {
  ib_uverbs_ah_attr to{};
  static_assert(sizeof(to.grh.dgid) == sizeof(from.grh.dgid));
  std::memcpy(to.grh.dgid, &from.grh.dgid, sizeof(to.grh.dgid));
  to.grh.flow_label = from.grh.flow_label;
  to.grh.sgid_index = from.grh.sgid_index;
  to.grh.hop_limit = from.grh.hop_limit;
  to.grh.traffic_class = from.grh.traffic_class;
  to.dlid = from.dlid;
  to.sl = from.sl;
  to.src_path_bits = from.src_path_bits;
  to.static_rate = from.static_rate;
  to.is_global = from.is_global;
  to.port_num = from.port_num;
  return to;
}

template <typename Parameters>
void CopyPrivateData(const rdma_cm::PrivateData& from, Parameters& to) {
  static_assert(rdma_cm::PrivateData::kMost <= sizeof(to.private_data));
  std::ranges::copy(from.span(), to.private_data);
  to.private_data_len = from.size;
}

rdma_ucm_conn_param ConnectionParameters(const rdma_cm::Event& event) {
  const rdma_cm::ConnectionParameters& from = event.connection;
  rdma_ucm_conn_param to{};
  CopyPrivateData(event.private_data, to);
  to.qp_num = from.qpn.value();
  to.srq = from.srq;
  to.responder_resources = from.responder_resources;
  to.initiator_depth = from.initiator_depth;
  to.flow_control = from.flow_control;
  to.retry_count = from.retry_count;
  to.rnr_retry_count = from.rnr_retry_count;
  return to;
}

rdma_ucm_ud_param DatagramParameters(const rdma_cm::Event& event) {
  rdma_ucm_ud_param to{};
  CopyPrivateData(event.private_data, to);
  to.qp_num = event.datagram.qpn.value();
  to.qkey = event.datagram.qkey;
  to.ah_attr = AddressHandle(event.datagram.address);
  return to;
}

}  // namespace

size_t AddressBytes(uint16_t family) {
  if (family == AF_INET) return sizeof(sockaddr_in);
  return family == AF_INET6 ? sizeof(sockaddr_in6) : 0;
}

uint16_t FamilyOf(std::span<const uint8_t> bytes) {
  return bytes.size() < sizeof(uint16_t) ? AF_UNSPEC : Copy<uint16_t>(bytes);
}

int ReadAddress(std::span<const uint8_t> bytes, rdma_cm::SocketAddress& address) {
  const uint16_t family = FamilyOf(bytes);
  const size_t wanted = AddressBytes(family);
  if (wanted == 0) return EAFNOSUPPORT;
  if (bytes.size() < wanted) return EINVAL;
  address =
      family == AF_INET ? FromIpv4(Copy<sockaddr_in>(bytes)) : FromIpv6(Copy<sockaddr_in6>(bytes));
  return 0;
}

size_t WriteAddress(const rdma_cm::SocketAddress& address, __kernel_sockaddr_storage& to) {
  if (address.address.is_ipv4()) {
    const sockaddr_in plain = ToIpv4(address);
    std::memcpy(&to, &plain, sizeof(plain));
    return sizeof(plain);
  }
  const sockaddr_in6 plain = ToIpv6(address);
  std::memcpy(&to, &plain, sizeof(plain));
  return sizeof(plain);
}

rdma_ucm_query_route_resp RouteResponse(const Described& id) {
  rdma_ucm_query_route_resp response{};
  __kernel_sockaddr_storage address{};
  if (IsBound(id.info)) {
    WriteAddress(id.info.local, address);
    std::memcpy(&response.src_addr, &address, sizeof(response.src_addr));
  }
  if (IsKnown(id.info.remote.address)) {
    address = {};
    WriteAddress(id.info.remote, address);
    std::memcpy(&response.dst_addr, &address, sizeof(response.dst_addr));
  }
  DescribeDevice(id, response);
  if (!id.info.device) return response;
  response.num_paths = id.path ? 1 : 0;
  if (id.path) {
    response.ib_route[0] = UserPath(*id.path);
  } else {
    CopyGid(id.info.local.address, response.ib_route[0].sgid);
    CopyGid(id.info.remote.address, response.ib_route[0].dgid);
    response.ib_route[0].pkey = htons(kDefaultPkey);
  }
  return response;
}

rdma_ucm_query_addr_resp AddressResponse(const Described& id) {
  rdma_ucm_query_addr_resp response{};
  if (IsBound(id.info)) {
    response.src_size = static_cast<uint16_t>(WriteAddress(id.info.local, response.src_addr));
  }
  if (IsKnown(id.info.remote.address)) {
    response.dst_size = static_cast<uint16_t>(WriteAddress(id.info.remote, response.dst_addr));
  }
  DescribeDevice(id, response);
  if (id.info.device) response.pkey = htons(kDefaultPkey);
  return response;
}

rdma_ucm_query_addr_resp GidResponse(const Described& id) {
  rdma_ucm_query_addr_resp response{};
  DescribeDevice(id, response);
  if (id.info.device) response.pkey = htons(kDefaultPkey);
  response.src_size = WriteIbAddress(id, id.info.local, response.src_addr);
  response.dst_size = WriteIbAddress(id, id.info.remote, response.dst_addr);
  return response;
}

PathResponse PathsResponse(const Described& id) {
  PathResponse response{};
  if (!id.path) return response;
  response.num_paths = 1;
  response.path.flags = IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL;
  const WirePath path = ToWire(*id.path);
  std::memcpy(response.path.path_rec, &path, sizeof(response.path.path_rec));
  return response;
}

ib_uverbs_qp_attr QueuePairResponse(const rdma_cm::QueuePairAttributes& attributes) {
  const ibv_qp_attr& from = attributes.attr;
  ib_uverbs_qp_attr to{};
  to.qp_attr_mask = static_cast<uint32_t>(attributes.mask);
  to.qp_state = from.qp_state;
  to.cur_qp_state = from.cur_qp_state;
  to.path_mtu = from.path_mtu;
  to.path_mig_state = from.path_mig_state;
  to.qkey = from.qkey;
  to.rq_psn = from.rq_psn;
  to.sq_psn = from.sq_psn;
  to.dest_qp_num = from.dest_qp_num;
  to.qp_access_flags = from.qp_access_flags;
  to.ah_attr = AddressHandle(from.ah_attr);
  to.pkey_index = from.pkey_index;
  to.max_rd_atomic = from.max_rd_atomic;
  to.max_dest_rd_atomic = from.max_dest_rd_atomic;
  to.min_rnr_timer = from.min_rnr_timer;
  to.port_num = from.port_num;
  to.timeout = from.timeout;
  to.retry_cnt = from.retry_cnt;
  to.rnr_retry = from.rnr_retry;
  return to;
}

rdma_ucm_event_resp EventResponse(const rdma_cm::Event& event, bool is_datagram) {
  rdma_ucm_event_resp response{};
  response.event = static_cast<uint32_t>(event.kind);
  response.status = static_cast<uint32_t>(event.status);
  if (is_datagram) {
    response.param.ud = DatagramParameters(event);
  } else {
    response.param.conn = ConnectionParameters(event);
  }
  return response;
}

}  // namespace uroce::nic::ucma
