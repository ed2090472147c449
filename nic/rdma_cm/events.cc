// SPDX-License-Identifier: Apache-2.0
// Turns events of the connection manager into events for programs (docs/protocol/cm.md, section
// 8).
#include <algorithm>
#include <cerrno>

#include "nic/rdma_cm/queue_pair_attributes.h"
#include "nic/rdma_cm/service_impl.h"

namespace uroce::nic::rdma_cm {
namespace {

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
