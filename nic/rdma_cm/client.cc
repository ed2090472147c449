// SPDX-License-Identifier: Apache-2.0
// The calls of one program: each finds its endpoint, executes, and passes its events on.
#include "nic/rdma_cm/service_impl.h"

namespace uroce::nic::rdma_cm {
namespace {

constexpr uint8_t kMostAckTimeout = 31;

}  // namespace

Client::~Client() { service_.RemoveClient(number_); }

template <typename Call>
Result Client::With(EndpointId id, Call call) {
  Endpoint* const endpoint = service_.Find(number_, id);
  if (endpoint == nullptr) return Result::kNoSuchId;
  const Result result = call(*endpoint);
  service_.Pump();
  return result;
}

Result Client::Create(wire::PortSpace space, ibv_qp_type qp_type, EndpointId& id) {
  return service_.Create(number_, space, qp_type, id);
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
  return With(id, [&](Endpoint& endpoint) { return service_.Bind(endpoint, address); });
}

Result Client::ResolveAddress(EndpointId id, const SocketAddress* source,
                              const SocketAddress& destination, Nanos timeout) {
  return With(id, [&](Endpoint& endpoint) {
    return service_.ResolveAddress(endpoint, source, destination, timeout);
  });
}

Result Client::ResolveRoute(EndpointId id) {
  return With(id, [&](Endpoint& endpoint) { return service_.ResolveRoute(endpoint); });
}

Result Client::Listen(EndpointId id, uint32_t backlog) {
  return With(id, [&](Endpoint& endpoint) { return service_.Listen(endpoint, backlog); });
}

Result Client::TakeRequest(EndpointId id) {
  return With(id, [&](Endpoint& endpoint) { return service_.TakeRequest(endpoint); });
}

Result Client::Connect(EndpointId id, const ConnectionParameters& parameters) {
  return With(id, [&](Endpoint& endpoint) { return service_.Connect(endpoint, parameters); });
}

Result Client::Accept(EndpointId id, const ConnectionParameters& parameters) {
  return With(id, [&](Endpoint& endpoint) { return service_.Accept(endpoint, parameters); });
}

Result Client::Reject(EndpointId id, uint8_t reason, std::span<const uint8_t> private_data) {
  return With(id,
              [&](Endpoint& endpoint) { return service_.Reject(endpoint, reason, private_data); });
}

Result Client::Establish(EndpointId id) {
  return With(id, [&](Endpoint& endpoint) { return service_.Establish(endpoint); });
}

Result Client::NotifyEstablished(EndpointId id) {
  return With(id, [&](Endpoint& endpoint) { return service_.NotifyEstablished(endpoint); });
}

Result Client::Disconnect(EndpointId id) {
  return With(id, [&](Endpoint& endpoint) { return service_.Disconnect(endpoint); });
}

Result Client::JoinMulticast(EndpointId id, const SocketAddress& group, bool send_only,
                             MembershipId& membership) {
  return With(id, [&](Endpoint& endpoint) {
    return service_.JoinMulticast(endpoint, group, send_only, membership);
  });
}

Result Client::LeaveMulticast(EndpointId id, MembershipId membership) {
  return With(id,
              [&](Endpoint& endpoint) { return service_.LeaveMulticast(endpoint, membership); });
}

Result Client::Query(EndpointId id, EndpointInfo& info) const {
  const Endpoint* const endpoint = service_.Find(number_, id);
  if (endpoint == nullptr) return Result::kNoSuchId;
  info = service_.Describe(*endpoint);
  return Result::kOk;
}

Result Client::QueryPath(EndpointId id, std::optional<PathRecord>& path) const {
  const Endpoint* const endpoint = service_.Find(number_, id);
  if (endpoint == nullptr) return Result::kNoSuchId;
  path = endpoint->path;
  return Result::kOk;
}

Result Client::InitQueuePair(EndpointId id, ibv_qp_state state,
                             QueuePairAttributes& attributes) const {
  const Endpoint* const endpoint = service_.Find(number_, id);
  if (endpoint == nullptr) return Result::kNoSuchId;
  return service_.InitQueuePair(*endpoint, state, attributes);
}

}  // namespace uroce::nic::rdma_cm
