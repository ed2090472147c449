// SPDX-License-Identifier: Apache-2.0
// The commands: each checks lengths and values as the kernel's ucma does, then calls the
// service.
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "nic/ucma/files.h"
#include "nic/ucma/responses.h"

namespace uroce::nic::ucma {
namespace {

using rdma_cm::ErrnoOf;

constexpr int64_t kNanosPerMillisecond = 1'000'000;
constexpr size_t kMostMemberships = 4096;  // Of one program, including failed ones.

/// The bytes of an address inside a command.
template <typename Address>
std::span<const uint8_t> BytesOf(const Address& address) {
  return {reinterpret_cast<const uint8_t*>(&address), sizeof(address)};
}

/// The bytes of an address with the length that the program claims. Empty if the length is wrong.
std::span<const uint8_t> SizedBytesOf(const __kernel_sockaddr_storage& address, size_t size_bytes) {
  const std::span<const uint8_t> bytes = BytesOf(address);
  const size_t wanted = AddressBytes(FamilyOf(bytes));
  // The sizes of unsupported families are not checked here.
  return wanted == 0 || wanted == size_bytes ? bytes : std::span<const uint8_t>();
}

int ReadParameters(const rdma_ucm_conn_param& from, rdma_cm::ConnectionParameters& to) {
  if (from.private_data_len > rdma_cm::PrivateData::kMost) return EINVAL;
  to.responder_resources = from.responder_resources;
  to.initiator_depth = from.initiator_depth;
  to.flow_control = from.flow_control != 0;
  to.retry_count = from.retry_count;
  to.rnr_retry_count = from.rnr_retry_count;
  to.srq = from.srq != 0;
  to.qpn = Qpn(from.qp_num);
  to.private_data = rdma_cm::PrivateData({from.private_data, from.private_data_len});
  return 0;
}

/// Finds the queue pair type of a new id. Returns 0, or EINVAL: no such port space.
int QueuePairType(const rdma_ucm_create_id& command, ibv_qp_type& type) {
  switch (command.ps) {
    case RDMA_PS_TCP:
      type = IBV_QPT_RC;
      return 0;
    case RDMA_PS_UDP:
    case RDMA_PS_IPOIB:
      type = IBV_QPT_UD;
      return 0;
    case RDMA_PS_IB:
      type = static_cast<ibv_qp_type>(command.qp_type);
      return 0;
    default:
      return EINVAL;
  }
}

/// Reads an option's value of exactly the size of T. Returns 0 or EINVAL.
template <typename T>
int ReadValue(std::span<const uint8_t> bytes, T& value) {
  if (bytes.size() != sizeof(T)) return EINVAL;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return 0;
}

}  // namespace

Files::Handler Files::FindHandler(uint32_t number) {
  static constexpr Handler kHandlers[] = {
      &Files::CreateId,         // RDMA_USER_CM_CMD_CREATE_ID, and so on
      &Files::DestroyId,        //
      &Files::BindIp,           //
      &Files::ResolveIp,        //
      &Files::ResolveRoute,     //
      &Files::QueryRoute,       //
      &Files::Connect,          //
      &Files::Listen,           //
      &Files::Accept,           //
      &Files::Reject,           //
      &Files::Disconnect,       //
      &Files::InitQueuePair,    //
      &Files::GetEvent,         //
      nullptr,                  // GET_OPTION, which the kernel lacks too
      &Files::SetOption,        //
      &Files::Notify,           //
      &Files::JoinIpMulticast,  //
      &Files::LeaveMulticast,   //
      &Files::MigrateId,        //
      &Files::Query,            //
      &Files::Bind,             //
      &Files::ResolveAddress,   //
      &Files::JoinMulticast,    // RDMA_USER_CM_CMD_JOIN_MCAST
  };
  static_assert(std::size(kHandlers) == RDMA_USER_CM_CMD_JOIN_MCAST + 1);
  return number < std::size(kHandlers) ? kHandlers[number] : nullptr;
}

template <typename Structure>
int Files::ReadWithId(Call& call, Structure& command, Id*& id, size_t least_bytes) {
  const int error = Read(call.command, command, least_bytes);
  return error != 0 ? error : FindId(call.file_id, command.id, id);
}

int Files::CreateId(Call& call) {
  if (call.command.out_bytes < sizeof(rdma_ucm_create_id_resp)) return ENOSPC;
  rdma_ucm_create_id command{};
  ibv_qp_type type{};
  if (const int error = Read(call.command, command)) return error;
  if (const int error = QueuePairType(command, type)) return error;
  rdma_cm::EndpointId endpoint{};
  const rdma_cm::Result result =
      client_.Create(static_cast<wire::PortSpace>(command.ps), type, endpoint);
  if (result != rdma_cm::Result::kOk) return ErrnoOf(result);
  const Id id{.file = call.file_id,
              .endpoint = endpoint,
              .uid = command.uid,
              .is_datagram = type == IBV_QPT_UD};
  return Respond(call.command, rdma_ucm_create_id_resp{AddId(call.file_id, id)}, call.answer);
}

int Files::DestroyId(Call& call) {
  if (call.command.out_bytes < sizeof(rdma_ucm_destroy_id_resp)) return ENOSPC;
  rdma_ucm_destroy_id command{};
  Id* id = nullptr;
  if (const int error = ReadWithId(call, command, id)) return error;
  const rdma_ucm_destroy_id_resp response{id->events_reported};
  RemoveId(command.id);
  return Respond(call.command, response, call.answer);
}

// ---- addresses ----

int Files::BindIp(Call& call) {
  rdma_ucm_bind_ip command{};
  Id* id = nullptr;
  rdma_cm::SocketAddress address;
  if (const int error = ReadWithId(call, command, id)) return error;
  if (const int error = ReadAddress(BytesOf(command.addr), address)) return error;
  return ErrnoOf(client_.Bind(id->endpoint, address));
}

int Files::Bind(Call& call) {
  rdma_ucm_bind command{};
  Id* id = nullptr;
  rdma_cm::SocketAddress address;
  if (const int error = Read(call.command, command)) return error;
  const std::span<const uint8_t> bytes = SizedBytesOf(command.addr, command.addr_size);
  if (command.reserved != 0 || command.addr_size == 0 || bytes.empty()) return EINVAL;
  if (const int error = FindId(call.file_id, command.id, id)) return error;
  if (const int error = ReadAddress(bytes, address)) return error;
  return ErrnoOf(client_.Bind(id->endpoint, address));
}

int Files::ResolveIp(Call& call) {
  rdma_ucm_resolve_ip command{};
  Id* id = nullptr;
  if (const int error = ReadWithId(call, command, id)) return error;
  const bool has_source = command.src_addr.sin6_family != AF_UNSPEC;
  return Resolve(*id, has_source ? BytesOf(command.src_addr) : std::span<const uint8_t>(),
                 BytesOf(command.dst_addr), command.timeout_ms);
}

int Files::ResolveAddress(Call& call) {
  rdma_ucm_resolve_addr command{};
  Id* id = nullptr;
  if (const int error = Read(call.command, command)) return error;
  const std::span<const uint8_t> source = SizedBytesOf(command.src_addr, command.src_size);
  const std::span<const uint8_t> destination = SizedBytesOf(command.dst_addr, command.dst_size);
  const bool has_source = command.src_size != 0;
  if (command.reserved != 0 || command.dst_size == 0 || destination.empty()) return EINVAL;
  if (has_source && source.empty()) return EINVAL;
  if (const int error = FindId(call.file_id, command.id, id)) return error;
  return Resolve(*id, has_source ? source : std::span<const uint8_t>(), destination,
                 command.timeout_ms);
}

int Files::Resolve(const Id& id, std::span<const uint8_t> source,
                   std::span<const uint8_t> destination, uint32_t timeout_ms) {
  rdma_cm::SocketAddress from;
  rdma_cm::SocketAddress to;
  if (!HasRoomForEvents(id)) return ENOMEM;
  if (const int error = ReadAddress(destination, to)) return error;
  const bool has_source = !source.empty();
  if (has_source) {
    if (const int error = ReadAddress(source, from)) return error;
  }
  const Nanos timeout = Nanos(kNanosPerMillisecond) * timeout_ms;
  return ErrnoOf(client_.ResolveAddress(id.endpoint, has_source ? &from : nullptr, to, timeout));
}

int Files::ResolveRoute(Call& call) {
  rdma_ucm_resolve_route command{};
  Id* id = nullptr;
  if (const int error = ReadWithId(call, command, id)) return error;
  return ErrnoOf(client_.ResolveRoute(id->endpoint));
}

// ---- queries ----

int Files::QueryRoute(Call& call) {
  constexpr size_t kLeast = offsetof(rdma_ucm_query_route_resp, ibdev_index);
  if (call.command.out_bytes < kLeast) return ENOSPC;
  rdma_ucm_query command{};
  Id* id = nullptr;
  // Without the field `option`, which belongs to another command.
  if (const int error = ReadWithId(call, command, id, offsetof(rdma_ucm_query, option))) {
    return error;
  }
  return Respond(call.command, RouteResponse(Describe(*id)), call.answer, kLeast);
}

int Files::Query(Call& call) {
  constexpr size_t kLeast = offsetof(rdma_ucm_query_addr_resp, ibdev_index);
  rdma_ucm_query command{};
  Id* id = nullptr;
  if (const int error = ReadWithId(call, command, id)) return error;
  switch (command.option) {
    case RDMA_USER_CM_QUERY_ADDR:
      return Respond(call.command, AddressResponse(Describe(*id)), call.answer, kLeast);
    case RDMA_USER_CM_QUERY_PATH:
      return Respond(call.command, PathsResponse(Describe(*id)), call.answer,
                     offsetof(PathResponse, path));
    case RDMA_USER_CM_QUERY_GID:
      return Respond(call.command, GidResponse(Describe(*id)), call.answer, kLeast);
    default:
      return ENOSYS;
  }
}

int Files::InitQueuePair(Call& call) {
  if (call.command.out_bytes < sizeof(ib_uverbs_qp_attr)) return ENOSPC;
  rdma_ucm_init_qp_attr command{};
  Id* id = nullptr;
  if (const int error = ReadWithId(call, command, id)) return error;
  if (command.qp_state > IBV_QPS_ERR) return EINVAL;
  rdma_cm::QueuePairAttributes attributes;
  const rdma_cm::Result result =
      client_.InitQueuePair(id->endpoint, static_cast<ibv_qp_state>(command.qp_state), attributes);
  if (result != rdma_cm::Result::kOk) return ErrnoOf(result);
  return Respond(call.command, QueuePairResponse(attributes), call.answer);
}

// ---- connections ----

int Files::Connect(Call& call) {
  rdma_ucm_connect command{};
  Id* id = nullptr;
  rdma_cm::ConnectionParameters parameters;
  // Older programs do not send the ECE field.
  if (const int error = ReadWithId(call, command, id, offsetof(rdma_ucm_connect, reserved))) {
    return error;
  }
  if (command.conn_param.valid == 0) return EINVAL;
  if (const int error = ReadParameters(command.conn_param, parameters)) return error;
  return ErrnoOf(client_.Connect(id->endpoint, parameters));
}

int Files::Listen(Call& call) {
  rdma_ucm_listen command{};
  Id* id = nullptr;
  if (const int error = ReadWithId(call, command, id)) return error;
  return ErrnoOf(client_.Listen(id->endpoint, command.backlog));
}

// After CONNECT_RESPONSE, a program that moves its queue pair itself reports RTS by this command.
int Files::Accept(Call& call) {
  rdma_ucm_accept command{};
  Id* id = nullptr;
  rdma_cm::ConnectionParameters parameters;
  if (const int error = ReadWithId(call, command, id, offsetof(rdma_ucm_accept, reserved))) {
    return error;
  }
  if (command.conn_param.valid == 0) return ErrnoOf(client_.Establish(id->endpoint));
  if (const int error = ReadParameters(command.conn_param, parameters)) return error;
  parameters.qkey = command.conn_param.qkey;
  const uint64_t old_uid = std::exchange(id->uid, command.uid);
  const int error = ErrnoOf(client_.Accept(id->endpoint, parameters));
  if (error != 0) id->uid = old_uid;
  return error;
}

int Files::Reject(Call& call) {
  rdma_ucm_reject command{};
  Id* id = nullptr;
  if (const int error = ReadWithId(call, command, id)) return error;
  return ErrnoOf(client_.Reject(id->endpoint, command.reason,
                                {command.private_data, command.private_data_len}));
}

int Files::Disconnect(Call& call) {
  rdma_ucm_disconnect command{};
  Id* id = nullptr;
  if (const int error = ReadWithId(call, command, id)) return error;
  return ErrnoOf(client_.Disconnect(id->endpoint));
}

int Files::Notify(Call& call) {
  rdma_ucm_notify command{};
  Id* id = nullptr;
  if (const int error = ReadWithId(call, command, id)) return error;
  if (command.event != IBV_EVENT_COMM_EST) return EINVAL;
  return ErrnoOf(client_.NotifyEstablished(id->endpoint));
}

// ---- options ----

int Files::SetOption(Call& call) {
  rdma_ucm_set_option command{};
  Id* id = nullptr;
  if (const int error = ReadWithId(call, command, id)) return error;
  if (command.optlen != call.command.option.size()) return EINVAL;
  // Paths of RoCE cannot be set: librdmacm then resolves the route.
  if (command.level != RDMA_OPTION_ID) return ENOSYS;
  return SetIdOption(*id, command.optname, call.command.option);
}

int Files::SetIdOption(const Id& id, uint32_t name, std::span<const uint8_t> value) {
  uint8_t code = 0;
  int flag = 0;
  const bool is_flag = name == RDMA_OPTION_ID_REUSEADDR || name == RDMA_OPTION_ID_AFONLY;
  if (name > RDMA_OPTION_ID_ACK_TIMEOUT) return ENOSYS;
  if (const int error = is_flag ? ReadValue(value, flag) : ReadValue(value, code)) return error;
  switch (name) {
    case RDMA_OPTION_ID_TOS:
      return ErrnoOf(client_.SetTypeOfService(id.endpoint, code));
    case RDMA_OPTION_ID_REUSEADDR:
      return ErrnoOf(client_.SetReuseAddress(id.endpoint, flag != 0));
    case RDMA_OPTION_ID_AFONLY:
      return ErrnoOf(client_.SetOwnFamilyOnly(id.endpoint, flag != 0));
    default:
      return ErrnoOf(client_.SetAckTimeout(id.endpoint, code));
  }
}

// ---- multicast ----

int Files::JoinIpMulticast(Call& call) {
  if (call.command.out_bytes < sizeof(rdma_ucm_create_id_resp)) return ENOSPC;
  rdma_ucm_join_ip_mcast command{};
  if (const int error = Read(call.command, command)) return error;
  return Join(call, command.id, command.uid, BytesOf(command.addr), false);
}

int Files::JoinMulticast(Call& call) {
  if (call.command.out_bytes < sizeof(rdma_ucm_create_id_resp)) return ENOSPC;
  rdma_ucm_join_mcast command{};
  if (const int error = Read(call.command, command)) return error;
  const std::span<const uint8_t> group = SizedBytesOf(command.addr, command.addr_size);
  if (command.addr_size == 0 || group.empty()) return EINVAL;
  const bool send_only = command.join_flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER;
  if (!send_only && command.join_flags != RDMA_MC_JOIN_FLAG_FULLMEMBER) return EINVAL;
  return Join(call, command.id, command.uid, group, send_only);
}

// The membership gets its number before the service can raise an event for it.
int Files::Join(Call& call, IdNumber number, uint64_t uid, std::span<const uint8_t> group,
                bool send_only) {
  Id* id = nullptr;
  rdma_cm::SocketAddress address;
  if (const int error = FindId(call.file_id, number, id)) return error;
  if (const int error = ReadAddress(group, address)) return error;
  if (memberships_.size() == kMostMemberships) return ENOMEM;
  const MembershipNumber handle = AddMembership({.id = number, .uid = uid});
  const rdma_cm::Result result =
      client_.JoinMulticast(id->endpoint, address, send_only, memberships_.at(handle).membership);
  if (result != rdma_cm::Result::kOk) {
    memberships_.erase(handle);
    return ErrnoOf(result);
  }
  id->memberships.push_back(handle);
  return Respond(call.command, rdma_ucm_create_id_resp{handle}, call.answer);
}

int Files::LeaveMulticast(Call& call) {
  if (call.command.out_bytes < sizeof(rdma_ucm_destroy_id_resp)) return ENOSPC;
  rdma_ucm_destroy_id command{};
  if (const int error = Read(call.command, command)) return error;
  const MembershipNumber number = command.id;
  const auto found = memberships_.find(number);
  if (found == memberships_.end()) return ENOENT;
  const Membership membership = found->second;
  Id& id = ids_.at(membership.id);
  if (id.file != call.file_id) return EINVAL;
  client_.LeaveMulticast(id.endpoint, membership.membership);
  std::erase_if(call.file.events,
                [number](const WaitingEvent& event) { return event.membership == number; });
  std::erase(id.memberships, number);
  memberships_.erase(found);
  return Respond(call.command, rdma_ucm_destroy_id_resp{membership.events_reported}, call.answer);
}

}  // namespace uroce::nic::ucma
