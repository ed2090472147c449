// SPDX-License-Identifier: Apache-2.0
#include "nic/rdma_cm/client.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "nic/rdma_cm/endpoint.h"

namespace uroce::nic::rdma_cm {
namespace {

/// The time code that Linux 6.1 assumes for RoCE (docs/protocol/cm.md, section 5).
constexpr uint8_t kPacketLifeTime = 18;
constexpr uint32_t kFlowLabelMask = 0xfffff;
constexpr Qpn kMulticastQpn{0xffffff};

SocketAddress AnyOf(const SocketAddress& other) {
  SocketAddress any;
  if (other.address.is_ipv4()) any.address.bytes[10] = any.address.bytes[11] = 0xff;
  return any;
}

/// The program's flow label, or one made of the ports, so that connections take different paths in
/// a network that balances by the UDP source port (docs/protocol/cm.md, section 5).
uint32_t FlowLabelOf(const Endpoint& endpoint) {
  if (endpoint.local.flow_label != 0) return endpoint.local.flow_label & kFlowLabelMask;
  return (endpoint.local.port * 31u + endpoint.remote.port) & kFlowLabelMask;
}

constexpr uint32_t kMostBacklog = cm::Bindings::kPlaces;
constexpr uint8_t kMostRetries = 7;
constexpr uint8_t kVendorOption = 35;  // Not supported (docs/protocol/cm.md, section 9).

constexpr auto kConsumerDefined = static_cast<uint8_t>(wire::RejReason::kConsumerDefined);

constexpr uint8_t kMostAckTimeout = 31;

bool IsSupported(wire::PortSpace space, ibv_qp_type qp_type) {
  if (space == wire::PortSpace::kIpoib) return false;
  switch (qp_type) {
    case IBV_QPT_RC:
    case IBV_QPT_UC:
    case IBV_QPT_UD:
    case IBV_QPT_XRC_SEND:
    case IBV_QPT_XRC_RECV:
      return true;
    default:
      return false;
  }
}

}  // namespace

Client::Client(Service& service, const Owner& owner, HasQueuePair has_queue_pair,
               EventHandler handler)
    : service_(service),
      config_(service.config_),
      environment_(service.environment_),
      manager_(service.manager_),
      endpoints_(service.endpoints_),
      has_queue_pair_(std::move(has_queue_pair)),
      number_(endpoints_.AddClient(owner, std::move(handler))) {}

Client::~Client() {
  endpoints_.Mute(number_);
  while (Endpoint* const endpoint = endpoints_.FindAny(number_)) service_.Destroy(*endpoint);
  endpoints_.RemoveClient(number_);
  service_.Pump();
  endpoints_.ForgetUsers();
}

template <typename Call>
Result Client::With(EndpointId id, Call call) {
  Endpoint* const endpoint = endpoints_.Find(number_, id);
  if (endpoint == nullptr) return Result::kNoSuchId;
  const Result result = call(*endpoint);
  service_.Pump();
  return result;
}

Result Client::Create(wire::PortSpace space, ibv_qp_type qp_type, EndpointId& id) {
  if (!IsSupported(space, qp_type)) return Result::kNotSupported;
  if (!service_.MakeRoom(number_)) return Result::kNoRoom;
  Endpoint& endpoint = service_.Add(number_);
  endpoint.space = space;
  endpoint.qp_type = qp_type;
  id = endpoint.id;
  return Result::kOk;
}

Result Client::Destroy(EndpointId id) {
  return With(id, [this](Endpoint& endpoint) {
    service_.Destroy(endpoint);
    return Result::kOk;
  });
}

Result Client::SetTypeOfService(EndpointId id, uint8_t tos) {
  return With(id, [=](Endpoint& endpoint) {
    endpoint.tos = tos;
    return Result::kOk;
  });
}

Result Client::SetReuseAddress(EndpointId id, bool on) {
  return With(id, [=](Endpoint& endpoint) {
    if (endpoint.state != State::kIdle) return Result::kWrongState;
    endpoint.reuse_address = on;
    return Result::kOk;
  });
}

Result Client::SetOwnFamilyOnly(EndpointId id, bool on) {
  return With(id, [=](Endpoint& endpoint) {
    if (endpoint.state != State::kIdle) return Result::kWrongState;
    endpoint.own_family_only = on;
    return Result::kOk;
  });
}

Result Client::SetAckTimeout(EndpointId id, uint8_t code) {
  return With(id, [=](Endpoint& endpoint) {
    const bool has_one = endpoint.qp_type == IBV_QPT_RC || endpoint.qp_type == IBV_QPT_XRC_SEND;
    if (!has_one || code > kMostAckTimeout) return Result::kInvalid;
    endpoint.ack_timeout = code;
    return Result::kOk;
  });
}

Result Client::Bind(EndpointId id, const SocketAddress& address) {
  return With(id, [&](Endpoint& endpoint) { return Bind(endpoint, address); });
}

Result Client::ResolveAddress(EndpointId id, const SocketAddress* source,
                              const SocketAddress& destination, Nanos timeout) {
  return With(id, [&](Endpoint& endpoint) {
    return ResolveAddress(endpoint, source, destination, timeout);
  });
}

Result Client::ResolveRoute(EndpointId id) {
  return With(id, [&](Endpoint& endpoint) { return ResolveRoute(endpoint); });
}

Result Client::Listen(EndpointId id, uint32_t backlog) {
  return With(id, [&](Endpoint& endpoint) { return Listen(endpoint, backlog); });
}

Result Client::TakeRequest(EndpointId id) {
  return With(id, [&](Endpoint& endpoint) { return TakeRequest(endpoint); });
}

Result Client::Connect(EndpointId id, const ConnectionParameters& parameters) {
  return With(id, [&](Endpoint& endpoint) { return Connect(endpoint, parameters); });
}

Result Client::Accept(EndpointId id, const ConnectionParameters& parameters) {
  return With(id, [&](Endpoint& endpoint) { return Accept(endpoint, parameters); });
}

Result Client::Reject(EndpointId id, uint8_t reason, std::span<const uint8_t> private_data) {
  return With(id, [&](Endpoint& endpoint) { return Reject(endpoint, reason, private_data); });
}

Result Client::Establish(EndpointId id) {
  return With(id, [&](Endpoint& endpoint) { return manager_.Establish(endpoint.comm); });
}

Result Client::NotifyEstablished(EndpointId id) {
  return With(id, [&](Endpoint& endpoint) { return manager_.OnFirstPacket(endpoint.comm); });
}

Result Client::Disconnect(EndpointId id) {
  return With(id, [&](Endpoint& endpoint) { return Disconnect(endpoint); });
}

Result Client::JoinMulticast(EndpointId id, const SocketAddress& group, bool send_only,
                             MembershipId& membership) {
  return With(id, [&](Endpoint& endpoint) {
    return JoinMulticast(endpoint, group, send_only, membership);
  });
}

Result Client::LeaveMulticast(EndpointId id, MembershipId membership) {
  return With(id, [&](Endpoint& endpoint) { return LeaveMulticast(endpoint, membership); });
}

Result Client::Query(EndpointId id, EndpointInfo& info) const {
  const Endpoint* const endpoint = endpoints_.Find(number_, id);
  if (endpoint == nullptr) return Result::kNoSuchId;
  info = service_.Describe(*endpoint);
  return Result::kOk;
}

Result Client::QueryPath(EndpointId id, std::optional<PathRecord>& path) const {
  const Endpoint* const endpoint = endpoints_.Find(number_, id);
  if (endpoint == nullptr) return Result::kNoSuchId;
  path = endpoint->path;
  return Result::kOk;
}

// ---- addresses and routes, multicast ----

Result Client::Bind(Endpoint& endpoint, const SocketAddress& address) {
  if (endpoint.state != State::kIdle) return Result::kWrongState;
  const Owner& owner = endpoints_.OwnerOf(endpoint);
  const bool is_reserved = address.port != 0 && address.port < config_.first_unprivileged_port;
  if (is_reserved && !owner.is_privileged) return Result::kNotPermitted;
  std::optional<Attachment> attachment;
  if (!cm::IsOfHost(address.address)) {
    attachment = environment_.FindAddress(address.address, address.scope_id);
    if (!attachment) return Result::kAddressNotAvailable;
  }
  const cm::BindParameters parameters{.space = endpoint.space,
                                      .address = address.address,
                                      .port = address.port,
                                      .reuse_address = endpoint.reuse_address,
                                      .own_family_only = endpoint.own_family_only,
                                      .user = owner.uid};
  cm::BindingId binding{};
  const Result result = manager_.Bind(parameters, binding);
  if (result != Result::kOk) return result;
  endpoints_.SetBinding(endpoint, binding);
  endpoint.attachment = attachment;
  endpoint.local = address;
  endpoint.local.port = manager_.PortOf(endpoint.binding);
  endpoint.state = State::kAddressBound;
  return Result::kOk;
}

Result Client::ResolveAddress(Endpoint& endpoint, const SocketAddress* source,
                              const SocketAddress& destination, Nanos timeout) {
  if (endpoint.state == State::kIdle) {
    const Result bound = Bind(endpoint, source != nullptr ? *source : AnyOf(destination));
    if (bound != Result::kOk) return bound;
  }
  if (endpoint.state != State::kAddressBound) return Result::kWrongState;
  if (endpoint.local.address.is_ipv4() != destination.address.is_ipv4()) return Result::kInvalid;
  SocketAddress to = destination;
  Attachment from;
  Result chosen = ChooseDestination(endpoint, to);
  if (chosen == Result::kOk) chosen = ChooseSource(endpoint, to, from);
  if (chosen == Result::kNoDevice) {
    endpoints_.Raise(endpoint, {.kind = EventKind::kAddressError, .status = -ENODEV});
    return Result::kOk;
  }
  if (chosen != Result::kOk) return chosen;
  endpoint.remote = to;
  endpoint.state = State::kAddressQuery;
  endpoint.lookup = environment_.FindNeighbour(
      from, to.address, endpoints_.OwnerOf(endpoint).uid, timeout,
      [this, id = endpoint.id, from](int error) { OnNeighbour(id, from, error); });
  return Result::kOk;
}

// Chooses the address of a listener. If it listens at all addresses, or there is none yet, any
// address is right: the endpoint's own, if it has one.
Result Client::ChooseDestination(const Endpoint& endpoint, SocketAddress& destination) {
  if (!cm::IsOfHost(destination.address)) return Result::kOk;
  const bool is_ipv4 = destination.address.is_ipv4();
  if (const auto at = manager_.AddressOfListener({endpoint.space, destination.port}, is_ipv4)) {
    destination.address = *at;
    return Result::kOk;
  }
  Attachment own;
  const Result chosen = ChooseSource(endpoint, destination, own);
  destination.address = own.address;
  return chosen;
}

Result Client::ChooseSource(const Endpoint& endpoint, const SocketAddress& destination,
                            Attachment& source) {
  const bool leaves_host = cm::IsLoopback(endpoint.local.address) &&
                           !cm::IsOfHost(destination.address) &&
                           !environment_.FindAddress(destination.address, destination.scope_id);
  if (leaves_host) return Result::kInvalid;
  if (!endpoint.attachment) {
    return environment_.ChooseSource(endpoints_.OwnerOf(endpoint).client, destination.address,
                                     destination.scope_id, source);
  }
  source = *endpoint.attachment;
  return Result::kOk;
}

void Client::OnNeighbour(EndpointId id, const Attachment& source, int error) {
  Endpoint& endpoint = endpoints_.At(id);
  endpoint.lookup = 0;
  if (error != 0) {
    endpoint.state = State::kAddressBound;
    return endpoints_.Raise(endpoint, {.kind = EventKind::kAddressError, .status = -error});
  }
  endpoint.attachment = source;
  endpoint.local.address = source.address;
  endpoint.state = State::kAddressResolved;
  endpoints_.Raise(endpoint, {.kind = EventKind::kAddressResolved});
}

Result Client::ResolveRoute(Endpoint& endpoint) {
  if (endpoint.state != State::kAddressResolved) return Result::kWrongState;
  endpoint.path = PathOf(endpoint);
  if (endpoint.path->mtu == 0) return Result::kNoDevice;
  endpoint.state = State::kRouteResolved;
  endpoints_.Raise(endpoint, {.kind = EventKind::kRouteResolved});
  return Result::kOk;
}

// An ACK timeout that the program sets is the round trip time of one packet.
PathRecord Client::PathOf(const Endpoint& endpoint) const {
  const uint8_t timeout = endpoint.ack_timeout.value_or(0);
  return {.source = endpoint.attachment->address,
          .destination = endpoint.remote.address,
          .flow_label = FlowLabelOf(endpoint),
          .traffic_class = endpoint.tos,
          .mtu = environment_.Facts(endpoint.attachment->device).active_mtu,
          .packet_life_time = timeout != 0 ? static_cast<uint8_t>(timeout - 1) : kPacketLifeTime};
}

Result Client::JoinMulticast(Endpoint& endpoint, const SocketAddress& group, bool send_only,
                             MembershipId& membership) {
  if (!endpoint.attachment) return Result::kWrongState;
  if (endpoint.attachment->address.is_ipv4() != group.address.is_ipv4()) return Result::kInvalid;
  if (!endpoints_.HasRoomToJoin(number_)) return Result::kNoRoom;
  const MembershipId wanted{++service_.last_membership_};
  const Result joined =
      send_only ? Result::kOk : environment_.Join(*endpoint.attachment, group.address);
  membership = wanted;
  if (joined != Result::kOk) {
    endpoints_.Raise(
        endpoint,
        {.kind = EventKind::kMulticastError, .membership = wanted, .status = -ErrnoOf(joined)});
    return Result::kOk;
  }
  endpoint.groups[wanted] = {group.address, !send_only, endpoints_.CountJoin(number_)};
  endpoints_.Raise(endpoint, JoinEvent(endpoint, wanted, group.address));
  return Result::kOk;
}

Event Client::JoinEvent(const Endpoint& endpoint, MembershipId membership, const Gid& group) const {
  PathRecord path = PathOf(endpoint);
  path.destination = group;
  const uint8_t index = environment_.GidIndex(*endpoint.attachment).value_or(0);
  return {
      .kind = EventKind::kMulticastJoin,
      .membership = membership,
      .is_datagram = true,
      .datagram = {
          .qpn = kMulticastQpn, .qkey = kDatagramQkey, .address = AddressVectorOf(path, index)}};
}

Result Client::LeaveMulticast(Endpoint& endpoint, MembershipId membership) {
  const auto found = endpoint.groups.find(membership);
  if (found == endpoint.groups.end()) return Result::kNoSuchId;
  if (found->second.receives) environment_.Leave(*endpoint.attachment, found->second.group);
  endpoint.groups.erase(found);
  return Result::kOk;
}

// ---- listeners and connections ----

Result Client::Listen(Endpoint& endpoint, uint32_t backlog) {
  if (endpoint.state == State::kIdle) {
    SocketAddress any;
    any.address.bytes[10] = any.address.bytes[11] = 0xff;
    const Result bound = Bind(endpoint, any);
    if (bound != Result::kOk) return bound;
  }
  if (endpoint.state != State::kAddressBound) return Result::kWrongState;
  const bool counts = backlog != 0 && backlog < kMostBacklog;
  const Result result = manager_.Listen(endpoint.binding, counts ? backlog : kMostBacklog);
  if (result == Result::kOk) endpoint.state = State::kListen;
  return result;
}

Result Client::TakeRequest(Endpoint& endpoint) {
  if (!endpoint.listener) return Result::kWrongState;
  if (Endpoint* const listener = endpoints_.Find(number_, *endpoint.listener)) {
    listener->requests.erase(endpoint.id);
  }
  endpoint.listener.reset();
  return manager_.OnRequestTaken(endpoint.comm);
}

Result Client::Connect(Endpoint& endpoint, const ConnectionParameters& parameters) {
  if (endpoint.state != State::kRouteResolved) return Result::kWrongState;
  if (!endpoint.is_datagram() && !has_queue_pair_(parameters.qpn)) return Result::kInvalid;
  cm::CommId comm;
  const Result result = endpoint.is_datagram() ? SendSidrReq(endpoint, parameters, comm)
                                               : SendReq(endpoint, parameters, comm);
  if (result != Result::kOk) return result;
  endpoint.qpn = parameters.qpn;
  service_.Attach(endpoint, comm);
  return Result::kOk;
}

Result Client::SendReq(const Endpoint& endpoint, const ConnectionParameters& parameters,
                       cm::CommId& comm) {
  const DeviceFacts facts = environment_.Facts(endpoint.attachment->device);
  const bool is_uc = endpoint.qp_type == IBV_QPT_UC;
  return manager_.Connect({.route = RouteOf(endpoint),
                           .path_mtu = endpoint.path->mtu,
                           .packet_life_time = endpoint.path->packet_life_time,
                           .local_ca_ack_delay = facts.ack_delay,
                           .service = {endpoint.space, endpoint.remote.port},
                           .source_port = endpoint.local.port,
                           .transport = is_uc ? wire::CmTransport::kUc : wire::CmTransport::kRc,
                           .xrc = endpoint.is_xrc(),
                           .qp = QueuePairOf(endpoint, parameters),
                           .retry_count = std::min(parameters.retry_count, kMostRetries),
                           .cm_response_timeout = config_.cm_response_timeout,
                           .private_data = parameters.private_data.span()},
                          environment_.Now(), comm);
}

Result Client::SendSidrReq(const Endpoint& endpoint, const ConnectionParameters& parameters,
                           cm::CommId& comm) {
  return manager_.Resolve({.route = RouteOf(endpoint),
                           .service = {endpoint.space, endpoint.remote.port},
                           .source_port = endpoint.local.port,
                           .cm_response_timeout = config_.cm_response_timeout,
                           .private_data = parameters.private_data.span()},
                          environment_.Now(), comm);
}

cm::Route Client::RouteOf(const Endpoint& endpoint) {
  const PathRecord& path = *endpoint.path;
  return {.device = RouteDevice(*endpoint.attachment),
          .local = path.source,
          .remote = path.destination,
          .traffic_class = path.traffic_class,
          .hop_limit = path.hop_limit,
          .sl = path.sl,
          .flow_label = path.flow_label};
}

cm::QueuePairParameters Client::QueuePairOf(const Endpoint& endpoint,
                                            const ConnectionParameters& parameters) const {
  return {.qpn = parameters.qpn,
          .starting_psn = endpoint.starting_psn,
          .local_ca_guid = environment_.Facts(endpoint.attachment->device).node_guid,
          .responder_resources = parameters.responder_resources,
          .initiator_depth = parameters.initiator_depth,
          .rnr_retry_count = std::min(parameters.rnr_retry_count, kMostRetries),
          .end_to_end_flow_control = parameters.flow_control,
          .srq = parameters.srq};
}

Result Client::Accept(Endpoint& endpoint, const ConnectionParameters& parameters) {
  if (endpoint.state != State::kConnect) return Result::kWrongState;
  if (!has_queue_pair_(parameters.qpn)) return Result::kInvalid;
  const Nanos now = environment_.Now();
  endpoint.qpn = parameters.qpn;
  if (endpoint.is_datagram()) {
    const uint32_t qkey = parameters.qkey != 0 ? parameters.qkey : kDatagramQkey;
    return manager_.Answer(
        endpoint.comm,
        {.qpn = parameters.qpn, .qkey = qkey, .private_data = parameters.private_data.span()}, now);
  }
  return manager_.Accept(
      endpoint.comm,
      {.qp = QueuePairOf(endpoint, parameters),
       .target_ack_delay = environment_.Facts(endpoint.attachment->device).ack_delay,
       .private_data = parameters.private_data.span()},
      now);
}

Result Client::Reject(Endpoint& endpoint, uint8_t reason, std::span<const uint8_t> private_data) {
  if (endpoint.state != State::kConnect) return Result::kWrongState;
  if (reason == 0) reason = kConsumerDefined;
  if (reason != kConsumerDefined && reason != kVendorOption) return Result::kInvalid;
  if (endpoint.is_datagram()) {
    return manager_.Answer(endpoint.comm,
                           {.status = wire::SidrStatus::kRejected, .private_data = private_data},
                           environment_.Now());
  }
  return manager_.Reject(endpoint.comm, static_cast<wire::RejReason>(reason), private_data);
}

// Without a connection there is nothing to send; Linux does the same.
Result Client::Disconnect(const Endpoint& endpoint) {
  if (endpoint.comm == cm::CommId()) return Result::kWrongState;
  static_cast<void>(manager_.Disconnect(endpoint.comm, environment_.Now()));
  return Result::kOk;
}

Result Client::InitQueuePair(EndpointId id, ibv_qp_state state,
                             QueuePairAttributes& attributes) const {
  const Endpoint* const endpoint = endpoints_.Find(number_, id);
  if (endpoint == nullptr) return Result::kNoSuchId;
  if (!endpoint->attachment) return Result::kWrongState;
  const cm::Connection* const connection = manager_.FindConnection(endpoint->comm);
  const std::optional<cm::QueuePairAttributes> agreed =
      connection == nullptr ? std::nullopt : connection->attributes();
  if (endpoint->is_datagram() || !agreed) {
    return UnconnectedAttributes(*endpoint, state, attributes);
  }
  const std::optional<uint8_t> index = environment_.GidIndex(*endpoint->attachment);
  if (!index) return Result::kNoDevice;
  return ConnectedAttributes(*endpoint, state, *agreed, *index, attributes);
}

}  // namespace uroce::nic::rdma_cm
