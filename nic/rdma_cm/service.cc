// SPDX-License-Identifier: Apache-2.0
#include "nic/rdma_cm/service.h"

#include <algorithm>
#include <cerrno>
#include <set>
#include <utility>
#include <variant>

#include "pipeline/wire/cm/codec.h"

namespace uroce::nic::rdma_cm {
namespace {

/// Datagrams of a device that wait for room; further ones are dropped, and the protocol repeats
/// them.
constexpr size_t kMostUnsent = 16384;
/// The pause before sending is tried again.
constexpr Nanos kUnsentPause{500'000};

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

Service::Service(const ServiceConfig& config, Environment& environment, cm::RandomSource random)
    : config_(config),
      environment_(environment),
      random_(std::move(random)),
      manager_(config.manager, random_),
      endpoints_(config.limits) {}

void Service::OnMad(const cm::Route& route, std::span<const uint8_t> mad) {
  manager_.OnMad(route, mad, environment_.Now());
  Pump();
}

void Service::OnDeadline() {
  manager_.OnDeadline(environment_.Now());
  Pump();
}

void Service::OnDeviceGone(uint32_t device) {
  std::set<uint32_t> routes;
  endpoints_.ForEach([&](Endpoint& endpoint) {
    if (!endpoint.attachment || endpoint.attachment->device != device) return;
    if (endpoint.state == State::kDeviceGone) return;
    routes.insert(RouteDevice(*endpoint.attachment));
    if (endpoint.comm != cm::CommId()) return;  // The manager reports it.
    if (endpoint.lookup != 0) environment_.Cancel(std::exchange(endpoint.lookup, 0));
    endpoint.state = State::kDeviceGone;
    endpoints_.Raise(endpoint, {.kind = EventKind::kDeviceRemoval});
  });
  for (const uint32_t route : routes) manager_.OnDeviceGone(route);
  Pump();
}

// Linux raises the same event when a bond fails over to its other link.
void Service::OnMacChange(uint32_t device) {
  endpoints_.ForEach([&](const Endpoint& endpoint) {
    const bool is_on_it = endpoint.attachment && endpoint.attachment->device == device;
    if (!is_on_it || endpoint.state == State::kDeviceGone) return;
    endpoints_.Raise(endpoint, {.kind = EventKind::kAddressChange});
  });
}

void Service::Pump() {
  while (const std::optional<cm::Event> event = manager_.PollEvent()) OnEvent(*event);
  while (const std::optional<cm::Datagram> datagram = manager_.PollDatagram()) {
    std::deque<cm::Datagram>& unsent = unsent_[DeviceOf(datagram->route)];
    if (unsent.size() < kMostUnsent) {
      unsent.push_back(*datagram);
    } else {
      ++unsent_dropped_;
    }
  }
  SendWaiting();
  SetDeadline();
}

void Service::SendWaiting() {
  for (auto& [device, unsent] : unsent_) {
    while (!unsent.empty()) {
      const cm::Datagram& next = unsent.front();
      if (!environment_.Send(next.route, wire::EncodeCm(next.message))) break;
      unsent.pop_front();
    }
  }
  std::erase_if(unsent_, [](const auto& entry) { return entry.second.empty(); });
}

void Service::SetDeadline() {
  Nanos deadline = manager_.NextDeadline();
  if (!unsent_.empty()) deadline = std::min(deadline, environment_.Now() + kUnsentPause);
  environment_.SetDeadline(deadline);
}

bool Service::has_farewells() const {
  bool waits = !unsent_.empty();
  manager_.ForEachConnection([&](const cm::Connection& connection) {
    waits |= connection.state() == cm::State::kDreqSent;
  });
  return waits;
}

// ---- endpoints ----

bool Service::MakeRoom(uint32_t client) {
  while (!endpoints_.HasRoomOfProgram(client)) {
    if (!manager_.EndOldestOfProgram(client)) return false;
  }
  while (!endpoints_.HasRoomOfUser(client)) {
    if (!manager_.EndOldestOfUser(endpoints_.OwnerOf(client).uid)) return false;
  }
  return true;
}

Endpoint& Service::Add(uint32_t client) {
  Endpoint& endpoint = endpoints_.Add(client);
  endpoint.starting_psn = wire::Psn(random_());
  return endpoint;
}

void Service::Destroy(Endpoint& endpoint) {
  const std::set<EndpointId> requests = std::exchange(endpoint.requests, {});
  for (const EndpointId request : requests) Destroy(endpoints_.At(request));
  if (endpoint.listener) {
    if (Endpoint* const listener = endpoints_.Find(endpoint.client, *endpoint.listener)) {
      listener->requests.erase(endpoint.id);
    }
  }
  if (endpoint.lookup != 0) environment_.Cancel(endpoint.lookup);
  for (const auto& [id, membership] : endpoint.groups) {
    if (membership.receives) environment_.Leave(*endpoint.attachment, membership.group);
  }
  if (endpoint.binding != cm::BindingId{}) manager_.Release(endpoint.binding);
  if (endpoint.comm != cm::CommId()) {
    static_cast<void>(manager_.Destroy(endpoint.comm, environment_.Now()));
  }
  endpoints_.Remove(endpoint);
}

void Service::Attach(Endpoint& endpoint, cm::CommId comm) {
  endpoints_.SetComm(endpoint, comm);
  endpoint.state = State::kConnect;
  manager_.Keep(comm, endpoint.place,
                {.program = endpoint.client, .user = endpoints_.OwnerOf(endpoint).uid});
}

EndpointInfo Service::Describe(const Endpoint& endpoint) const {
  EndpointInfo info{.space = endpoint.space,
                    .qp_type = endpoint.qp_type,
                    .state = endpoint.state,
                    .local = endpoint.local,
                    .remote = endpoint.remote,
                    .comm_id = endpoint.comm,
                    .qpn = endpoint.qpn};
  if (endpoint.attachment) info.device = endpoint.attachment->device;
  const cm::Connection* const connection = manager_.FindConnection(endpoint.comm);
  if (connection == nullptr) return info;
  info.connection = connection->state();
  info.remote_comm_id = connection->remote_id();
  info.remote_qpn = connection->remote_qpn();
  return info;
}

void Service::ForEach(
    const std::function<void(const Owner&, EndpointId, const EndpointInfo&)>& visit) const {
  endpoints_.ForEach([&](const Endpoint& endpoint) {
    visit(endpoints_.OwnerOf(endpoint), endpoint.id, Describe(endpoint));
  });
}

// ---- events of the manager (docs/protocol/cm.md, section 8) ----

void Service::OnEvent(const cm::Event& event) {
  using Kind = cm::EventKind;
  if (event.kind == Kind::kConnectRequest || event.kind == Kind::kResolveRequest) {
    return OnRequest(event);
  }
  Endpoint* const endpoint = endpoints_.FindByComm(event.id);
  if (endpoint == nullptr) return;
  switch (event.kind) {
    case Kind::kConnectRequest:
    case Kind::kResolveRequest:
      return;
    case Kind::kConnectReply: {
      const auto& rep = std::get<wire::CmRep>(event.message.body);
      return endpoints_.Raise(*endpoint, {.kind = EventKind::kConnectResponse,
                                          .connection = ParametersOf(rep),
                                          .private_data = PrivateData(rep.private_data)});
    }
    case Kind::kEstablished:
      return endpoints_.Raise(*endpoint, {.kind = EventKind::kEstablished});
    case Kind::kRejected:
      return endpoints_.Raise(
          *endpoint,
          {.kind = EventKind::kRejected,
           .status = ReasonOf(event.message),
           .private_data = PrivateData(std::get<wire::CmRej>(event.message.body).private_data)});
    case Kind::kUnreachable:
      return endpoints_.Raise(*endpoint, {.kind = EventKind::kUnreachable, .status = -ETIMEDOUT});
    case Kind::kDisconnected:
      endpoint->state = State::kDisconnect;
      return endpoints_.Raise(*endpoint, {.kind = EventKind::kDisconnected,
                                          .status = event.timed_out ? -ETIMEDOUT : 0});
    case Kind::kTimewaitExit:
      return endpoints_.Raise(*endpoint, {.kind = EventKind::kTimewaitExit});
    case Kind::kDeviceRemoved:
      endpoint->state = State::kDeviceGone;
      return endpoints_.Raise(*endpoint, {.kind = EventKind::kDeviceRemoval});
    case Kind::kResolved:
      return OnResolved(*endpoint, event);
  }
}

// A listener at a loopback address does not accept requests of other hosts. Linux accepts them.
bool Service::Serves(const Endpoint& listener, ibv_qp_type qp_type, const cm::Route& route) {
  const bool is_for_this_host = cm::IsLoopback(listener.local.address);
  if (is_for_this_host && !environment_.FindAddress(route.remote, 0)) return false;
  return listener.state == State::kListen && listener.qp_type == qp_type &&
         MakeRoom(listener.client);
}

void Service::OnRequest(const cm::Event& event) {
  Endpoint* const listener = endpoints_.FindByBinding(event.listener);
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
  endpoints_.Raise(endpoint, told);
}

Endpoint& Service::AddRequest(Endpoint& listener, const cm::Event& event) {
  Endpoint& endpoint = Add(listener.client);
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

void Service::OnResolved(Endpoint& endpoint, const cm::Event& event) {
  const auto& rep = std::get<wire::CmSidrRep>(event.message.body);
  const PrivateData private_data(rep.private_data);
  if (rep.status != wire::SidrStatus::kValid) {
    return endpoints_.Raise(endpoint, {.kind = EventKind::kUnreachable,
                                       .status = static_cast<int>(rep.status),
                                       .is_datagram = true,
                                       .private_data = private_data});
  }
  const uint8_t index = environment_.GidIndex(*endpoint.attachment).value_or(0);
  endpoints_.Raise(endpoint, {.kind = EventKind::kEstablished,
                              .is_datagram = true,
                              .datagram = {.qpn = rep.qpn,
                                           .qkey = rep.qkey,
                                           .address = AddressVectorOf(*endpoint.path, index)},
                              .private_data = private_data});
}

}  // namespace uroce::nic::rdma_cm
