// SPDX-License-Identifier: Apache-2.0
#include "nic/rdma_cm/service_impl.h"

#include <algorithm>
#include <cerrno>

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

/// The peer program's private data, behind the addresses.
template <size_t bytes>
PrivateData BehindHeader(const wire::CmBytes<bytes>& field) {
  return PrivateData(std::span(field).subspan(wire::kRdmaCmHeaderBytes));
}

ibv_qp_type TypeOf(const wire::CmReq& req) {
  if (req.transport == wire::CmTransport::kExtended) return IBV_QPT_XRC_RECV;
  return req.transport == wire::CmTransport::kUc ? IBV_QPT_UC : IBV_QPT_RC;
}

// What one side serves is the limit of what the other may have outstanding.
ConnectionParameters ParametersOf(const wire::CmReq& req) {
  return {.responder_resources = req.initiator_depth,
          .initiator_depth = req.responder_resources,
          .flow_control = req.end_to_end_flow_control,
          .retry_count = req.retry_count,
          .rnr_retry_count = req.rnr_retry_count,
          .srq = req.srq,
          .qpn = req.local_qpn};
}

ConnectionParameters ParametersOf(const wire::CmRep& rep) {
  return {.responder_resources = rep.initiator_depth,
          .initiator_depth = rep.responder_resources,
          .flow_control = rep.end_to_end_flow_control,
          .rnr_retry_count = rep.rnr_retry_count,
          .srq = rep.srq,
          .qpn = rep.local_qpn};
}

PathRecord PathAlong(const cm::Route& route) {
  return {.source = route.local,
          .destination = route.remote,
          .flow_label = route.flow_label,
          .hop_limit = route.hop_limit,
          .traffic_class = route.traffic_class,
          .sl = route.sl};
}

/// Adds the path of a REQ, with its MTU and timeout.
void AddPathOf(const wire::CmReq& req, PathRecord& path) {
  const uint8_t timeout = req.primary.local_ack_timeout;
  path.mtu = req.path_mtu;
  path.packet_life_time = timeout != 0 ? static_cast<uint8_t>(timeout - 1) : uint8_t{0};
}

int ReasonOf(const wire::CmMessage& message) {
  return static_cast<int>(std::get<wire::CmRej>(message.body).reason);
}

}  // namespace

// ---- addresses and routes, multicast ----

Result ServiceImpl::Bind(Endpoint& endpoint, const SocketAddress& address) {
  if (endpoint.state != State::kIdle) return Result::kWrongState;
  const Owner& owner = clients_.at(endpoint.client).owner;
  const bool is_reserved = address.port != 0 && address.port < config_.first_unprivileged_port;
  if (is_reserved && !owner.is_privileged) {
    return Result::kNotPermitted;
  }
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
  const Result result = manager_.Bind(parameters, endpoint.binding);
  if (result != Result::kOk) return result;
  by_binding_[static_cast<uint32_t>(endpoint.binding)] = endpoint.id;
  endpoint.attachment = attachment;
  endpoint.local = address;
  endpoint.local.port = manager_.PortOf(endpoint.binding);
  endpoint.state = State::kAddressBound;
  return Result::kOk;
}

Result ServiceImpl::ResolveAddress(Endpoint& endpoint, const SocketAddress* source,
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
    Raise(endpoint, {.kind = EventKind::kAddressError, .status = -ENODEV});
    return Result::kOk;
  }
  if (chosen != Result::kOk) return chosen;
  endpoint.remote = to;
  endpoint.state = State::kAddressQuery;
  endpoint.lookup = environment_.FindNeighbour(
      from, to.address, clients_.at(endpoint.client).owner.uid, timeout,
      [this, id = endpoint.id, from](int error) { OnNeighbour(id, from, error); });
  return Result::kOk;
}

// Chooses the address of a listener. If it listens at all addresses, or there is none yet, any
// address is right: the endpoint's own, if it has one.
Result ServiceImpl::ChooseDestination(const Endpoint& endpoint, SocketAddress& destination) {
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

Result ServiceImpl::ChooseSource(const Endpoint& endpoint, const SocketAddress& destination,
                                 Attachment& source) {
  const bool leaves_host = cm::IsLoopback(endpoint.local.address) &&
                           !cm::IsOfHost(destination.address) &&
                           !environment_.FindAddress(destination.address, destination.scope_id);
  if (leaves_host) return Result::kInvalid;
  if (!endpoint.attachment) {
    return environment_.ChooseSource(destination.address, destination.scope_id, source);
  }
  source = *endpoint.attachment;
  return Result::kOk;
}

void ServiceImpl::OnNeighbour(EndpointId id, const Attachment& source, int error) {
  Endpoint& endpoint = *endpoints_.at(static_cast<uint32_t>(id));
  endpoint.lookup = 0;
  if (error != 0) {
    endpoint.state = State::kAddressBound;
    return Raise(endpoint, {.kind = EventKind::kAddressError, .status = -error});
  }
  endpoint.attachment = source;
  endpoint.local.address = source.address;
  endpoint.state = State::kAddressResolved;
  Raise(endpoint, {.kind = EventKind::kAddressResolved});
}

Result ServiceImpl::ResolveRoute(Endpoint& endpoint) {
  if (endpoint.state != State::kAddressResolved) return Result::kWrongState;
  endpoint.path = PathOf(endpoint);
  if (endpoint.path->mtu == 0) return Result::kNoDevice;
  endpoint.state = State::kRouteResolved;
  Raise(endpoint, {.kind = EventKind::kRouteResolved});
  return Result::kOk;
}

// An ACK timeout that the program sets is the round trip time of one packet.
PathRecord ServiceImpl::PathOf(const Endpoint& endpoint) const {
  const uint8_t timeout = endpoint.ack_timeout.value_or(0);
  return {.source = endpoint.attachment->address,
          .destination = endpoint.remote.address,
          .flow_label = FlowLabelOf(endpoint),
          .traffic_class = endpoint.tos,
          .mtu = environment_.Facts(endpoint.attachment->device).active_mtu,
          .packet_life_time = timeout != 0 ? static_cast<uint8_t>(timeout - 1) : kPacketLifeTime};
}

Result ServiceImpl::JoinMulticast(Endpoint& endpoint, const SocketAddress& group, bool send_only,
                                  MembershipId& membership) {
  if (!endpoint.attachment) return Result::kWrongState;
  if (endpoint.attachment->address.is_ipv4() != group.address.is_ipv4()) return Result::kInvalid;
  if (!HasRoomToJoin(endpoint.client)) return Result::kNoRoom;
  const MembershipId wanted{++last_membership_};
  const Result joined =
      send_only ? Result::kOk : environment_.Join(*endpoint.attachment, group.address);
  membership = wanted;
  if (joined != Result::kOk) {
    Raise(endpoint,
          {.kind = EventKind::kMulticastError, .membership = wanted, .status = -ErrnoOf(joined)});
    return Result::kOk;
  }
  endpoint.groups[wanted] = {group.address, !send_only, Count(endpoint.client, &Holdings::joins)};
  Raise(endpoint, JoinEvent(endpoint, wanted, group.address));
  return Result::kOk;
}

Event ServiceImpl::JoinEvent(const Endpoint& endpoint, MembershipId membership,
                             const Gid& group) const {
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

Result ServiceImpl::LeaveMulticast(Endpoint& endpoint, MembershipId membership) {
  const auto found = endpoint.groups.find(membership);
  if (found == endpoint.groups.end()) return Result::kNoSuchId;
  if (found->second.receives) environment_.Leave(*endpoint.attachment, found->second.group);
  endpoint.groups.erase(found);
  return Result::kOk;
}

// ---- listeners and connections ----

Result ServiceImpl::Listen(Endpoint& endpoint, uint32_t backlog) {
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

Result ServiceImpl::TakeRequest(Endpoint& endpoint) {
  if (!endpoint.listener) return Result::kWrongState;
  if (Endpoint* const listener = Find(endpoint.client, *endpoint.listener)) {
    listener->requests.erase(endpoint.id);
  }
  endpoint.listener.reset();
  return manager_.OnRequestTaken(endpoint.comm);
}

Result ServiceImpl::Connect(Endpoint& endpoint, const ConnectionParameters& parameters) {
  if (endpoint.state != State::kRouteResolved) return Result::kWrongState;
  if (!endpoint.is_datagram() && !HasQueuePair(endpoint, parameters.qpn)) return Result::kInvalid;
  cm::CommId comm;
  const Result result = endpoint.is_datagram() ? SendSidrReq(endpoint, parameters, comm)
                                               : SendReq(endpoint, parameters, comm);
  if (result != Result::kOk) return result;
  endpoint.qpn = parameters.qpn;
  Attach(endpoint, comm);
  return Result::kOk;
}

Result ServiceImpl::SendReq(const Endpoint& endpoint, const ConnectionParameters& parameters,
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

Result ServiceImpl::SendSidrReq(const Endpoint& endpoint, const ConnectionParameters& parameters,
                                cm::CommId& comm) {
  return manager_.Resolve({.route = RouteOf(endpoint),
                           .service = {endpoint.space, endpoint.remote.port},
                           .source_port = endpoint.local.port,
                           .cm_response_timeout = config_.cm_response_timeout,
                           .private_data = parameters.private_data.span()},
                          environment_.Now(), comm);
}

cm::Route ServiceImpl::RouteOf(const Endpoint& endpoint) {
  const PathRecord& path = *endpoint.path;
  return {.device = RouteDevice(*endpoint.attachment),
          .local = path.source,
          .remote = path.destination,
          .traffic_class = path.traffic_class,
          .hop_limit = path.hop_limit,
          .sl = path.sl,
          .flow_label = path.flow_label};
}

cm::QueuePairParameters ServiceImpl::QueuePairOf(const Endpoint& endpoint,
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

Result ServiceImpl::Accept(Endpoint& endpoint, const ConnectionParameters& parameters) {
  if (endpoint.state != State::kConnect) return Result::kWrongState;
  if (!HasQueuePair(endpoint, parameters.qpn)) return Result::kInvalid;
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

Result ServiceImpl::Reject(Endpoint& endpoint, uint8_t reason,
                           std::span<const uint8_t> private_data) {
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
Result ServiceImpl::Disconnect(const Endpoint& endpoint) {
  if (endpoint.comm == cm::CommId()) return Result::kWrongState;
  static_cast<void>(manager_.Disconnect(endpoint.comm, environment_.Now()));
  return Result::kOk;
}

Result ServiceImpl::InitQueuePair(const Endpoint& endpoint, ibv_qp_state state,
                                  QueuePairAttributes& attributes) const {
  if (!endpoint.attachment) return Result::kWrongState;
  const cm::Connection* const connection = manager_.FindConnection(endpoint.comm);
  const std::optional<cm::QueuePairAttributes> agreed =
      connection == nullptr ? std::nullopt : connection->attributes();
  if (endpoint.is_datagram() || !agreed) {
    return UnconnectedAttributes(endpoint, state, attributes);
  }
  const std::optional<uint8_t> index = environment_.GidIndex(*endpoint.attachment);
  if (!index) return Result::kNoDevice;
  return ConnectedAttributes(endpoint, state, *agreed, *index, attributes);
}

// ---- events of the connection manager (docs/protocol/cm.md, section 8) ----

void ServiceImpl::OnEvent(const cm::Event& event) {
  using Kind = cm::EventKind;
  if (event.kind == Kind::kConnectRequest || event.kind == Kind::kResolveRequest) {
    return OnRequest(event);
  }
  Endpoint* const endpoint = FindByComm(event.id);
  if (endpoint == nullptr) return;
  switch (event.kind) {
    case Kind::kConnectRequest:
    case Kind::kResolveRequest:
      return;
    case Kind::kConnectReply: {
      const auto& rep = std::get<wire::CmRep>(event.message.body);
      return Raise(*endpoint, {.kind = EventKind::kConnectResponse,
                               .connection = ParametersOf(rep),
                               .private_data = PrivateData(rep.private_data)});
    }
    case Kind::kEstablished:
      return Raise(*endpoint, {.kind = EventKind::kEstablished});
    case Kind::kRejected:
      return Raise(
          *endpoint,
          {.kind = EventKind::kRejected,
           .status = ReasonOf(event.message),
           .private_data = PrivateData(std::get<wire::CmRej>(event.message.body).private_data)});
    case Kind::kUnreachable:
      return Raise(*endpoint, {.kind = EventKind::kUnreachable, .status = -ETIMEDOUT});
    case Kind::kDisconnected:
      endpoint->state = State::kDisconnect;
      return Raise(*endpoint,
                   {.kind = EventKind::kDisconnected, .status = event.timed_out ? -ETIMEDOUT : 0});
    case Kind::kTimewaitExit:
      return Raise(*endpoint, {.kind = EventKind::kTimewaitExit});
    case Kind::kDeviceRemoved:
      endpoint->state = State::kDeviceGone;
      return Raise(*endpoint, {.kind = EventKind::kDeviceRemoval});
    case Kind::kResolved:
      return OnResolved(*endpoint, event);
  }
}

// A listener at a loopback address does not accept requests of other hosts. Linux accepts them.
bool ServiceImpl::Serves(const Endpoint& listener, ibv_qp_type qp_type, const cm::Route& route) {
  const bool is_for_this_host = cm::IsLoopback(listener.local.address);
  if (is_for_this_host && !environment_.FindAddress(route.remote, 0)) return false;
  return listener.state == State::kListen && listener.qp_type == qp_type &&
         HasRoom(listener.client);
}

void ServiceImpl::OnRequest(const cm::Event& event) {
  const auto bound = by_binding_.find(static_cast<uint32_t>(event.listener));
  Endpoint* const listener = bound == by_binding_.end()
                                 ? nullptr
                                 : endpoints_.at(static_cast<uint32_t>(bound->second)).get();
  const auto* const req = std::get_if<wire::CmReq>(&event.message.body);
  const ibv_qp_type qp_type = req != nullptr ? TypeOf(*req) : IBV_QPT_UD;
  if (listener == nullptr || !Serves(*listener, qp_type, event.route)) {
    static_cast<void>(manager_.Destroy(event.id, environment_.Now()));  // Refuses it.
    return;
  }
  // Otherwise the queue pair could not be moved to RTR, without a reason for the program.
  const uint8_t most_mtu = environment_.Facts(DeviceOf(event.route)).active_mtu;
  if (req != nullptr && req->path_mtu > most_mtu) {
    static_cast<void>(
        manager_.Reject(event.id, wire::RejReason::kInvalidMtu, {}, std::span(&most_mtu, 1)));
    static_cast<void>(manager_.Destroy(event.id, environment_.Now()));
    return;
  }
  Endpoint& endpoint = AddRequest(*listener, event);
  Event told{.kind = EventKind::kConnectRequest, .listener = listener->id};
  if (req != nullptr) {
    AddPathOf(*req, *endpoint.path);
    told.connection = ParametersOf(*req);
    told.private_data = BehindHeader(req->private_data);
  } else {
    endpoint.path->mtu = environment_.Facts(endpoint.attachment->device).active_mtu;
    told.is_datagram = true;
    told.private_data = BehindHeader(std::get<wire::CmSidrReq>(event.message.body).private_data);
  }
  Raise(endpoint, told);
}

Endpoint& ServiceImpl::AddRequest(Endpoint& listener, const cm::Event& event) {
  Endpoint& endpoint = NewEndpoint(listener.client);
  endpoint.space = listener.space;
  endpoint.qp_type = listener.qp_type;
  endpoint.local = {.address = event.header.destination, .port = listener.local.port};
  endpoint.remote = {.address = event.header.source, .port = event.header.source_port};
  endpoint.attachment = {DeviceOf(event.route), VlanOf(event.route), event.route.local};
  endpoint.path = PathAlong(event.route);
  endpoint.listener = listener.id;
  listener.requests.insert(endpoint.id);
  Attach(endpoint, event.id);
  return endpoint;
}

void ServiceImpl::OnResolved(Endpoint& endpoint, const cm::Event& event) {
  const auto& rep = std::get<wire::CmSidrRep>(event.message.body);
  const PrivateData private_data(rep.private_data);
  if (rep.status != wire::SidrStatus::kValid) {
    return Raise(endpoint, {.kind = EventKind::kUnreachable,
                            .status = static_cast<int>(rep.status),
                            .is_datagram = true,
                            .private_data = private_data});
  }
  const uint8_t index = environment_.GidIndex(*endpoint.attachment).value_or(0);
  Raise(endpoint, {.kind = EventKind::kEstablished,
                   .is_datagram = true,
                   .datagram = {.qpn = rep.qpn,
                                .qkey = rep.qkey,
                                .address = AddressVectorOf(*endpoint.path, index)},
                   .private_data = private_data});
}

}  // namespace uroce::nic::rdma_cm
