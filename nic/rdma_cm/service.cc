// SPDX-License-Identifier: Apache-2.0
#include "nic/rdma_cm/service.h"

#include <algorithm>
#include <utility>

#include "nic/rdma_cm/service_impl.h"
#include "pipeline/wire/cm/codec.h"

namespace uroce::nic::rdma_cm {
namespace {

/// Datagrams of a device that wait for room; further ones are dropped, and the protocol repeats
/// them.
constexpr size_t kMostUnsent = 16384;
/// The pause before sending is tried again.
constexpr Nanos kUnsentPause{500'000};

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

constexpr uint8_t kMostAckTimeout = 31;

}  // namespace

// ---- Service ----

Service::Service(const ServiceConfig& config, Environment& environment, cm::RandomSource random)
    : impl_(std::make_unique<ServiceImpl>(config, environment, std::move(random))) {}

Service::~Service() = default;

std::unique_ptr<Client> Service::AddClient(const Owner& owner, HasQueuePair has_queue_pair,
                                           EventHandler handler) {
  const uint32_t number = impl_->AddClient(owner, std::move(has_queue_pair), std::move(handler));
  return std::unique_ptr<Client>(new Client(*impl_, number));
}

void Service::OnMad(const cm::Route& route, std::span<const uint8_t> mad) {
  impl_->OnMad(route, mad);
}
void Service::OnDeadline() { impl_->OnDeadline(); }
void Service::OnDeviceGone(uint32_t device) { impl_->OnDeviceGone(device); }
void Service::OnMacChange(uint32_t device) { impl_->OnMacChange(device); }
bool Service::has_farewells() const { return impl_->has_farewells(); }
const cm::Counters& Service::counters() const { return impl_->manager().counters(); }
size_t Service::communications() const { return impl_->manager().size(); }
size_t Service::bindings() const { return impl_->manager().bindings(); }
uint64_t Service::unsent_dropped() const { return impl_->unsent_dropped(); }

void Service::ForEach(
    const std::function<void(const Owner&, EndpointId, const EndpointInfo&)>& visit) const {
  impl_->ForEach([&](const Owner& owner, const Endpoint& endpoint) {
    visit(owner, endpoint.id, impl_->Describe(endpoint));
  });
}

ServiceImpl::ServiceImpl(const ServiceConfig& config, Environment& environment,
                         cm::RandomSource random)
    : config_(config),
      environment_(environment),
      random_(std::move(random)),
      manager_(config.manager, random_) {}

uint32_t ServiceImpl::AddClient(const Owner& owner, Service::HasQueuePair has_queue_pair,
                                Service::EventHandler handler) {
  std::shared_ptr<Holdings> of_user = users_[owner.uid].lock();
  if (of_user == nullptr) users_[owner.uid] = of_user = std::make_shared<Holdings>();
  clients_.emplace(++last_client_, ClientEntry{owner,
                                               std::move(has_queue_pair),
                                               std::move(handler),
                                               {},
                                               std::make_shared<Holdings>(),
                                               std::move(of_user)});
  return last_client_;
}

void ServiceImpl::RemoveClient(uint32_t number) {
  ClientEntry& client = clients_.at(number);
  client.handler = [](const Event&) {};
  while (!client.endpoints.empty()) Destroy(*Find(number, *client.endpoints.begin()));
  clients_.erase(number);
  Pump();
  absl::erase_if(users_, [](const auto& user) { return user.second.expired(); });
}

Endpoint* ServiceImpl::Find(uint32_t client, EndpointId id) {
  const auto found = endpoints_.find(static_cast<uint32_t>(id));
  const bool is_its = found != endpoints_.end() && found->second->client == client;
  return is_its ? found->second.get() : nullptr;
}

Result ServiceImpl::Create(uint32_t client, wire::PortSpace space, ibv_qp_type qp_type,
                           EndpointId& id) {
  if (!IsSupported(space, qp_type)) return Result::kNotSupported;
  if (!HasRoom(client)) return Result::kNoRoom;
  Endpoint& endpoint = NewEndpoint(client);
  endpoint.space = space;
  endpoint.qp_type = qp_type;
  id = endpoint.id;
  return Result::kOk;
}

bool ServiceImpl::HasRoom(uint32_t client) const {
  const ClientEntry& its = clients_.at(client);
  return its.holdings->endpoints < config_.endpoints_per_program &&
         its.of_user->endpoints < config_.endpoints_per_user;
}

bool ServiceImpl::HasRoomToJoin(uint32_t client) const {
  const ClientEntry& its = clients_.at(client);
  return its.holdings->joins < config_.joins_per_program &&
         its.of_user->joins < config_.joins_per_user;
}

std::shared_ptr<void> ServiceImpl::Count(uint32_t client, uint32_t Holdings::*what) {
  const ClientEntry& its = clients_.at(client);
  ++((*its.holdings).*what);
  ++((*its.of_user).*what);
  return {nullptr, [own = its.holdings, of_user = its.of_user, what](void*) {
            --((*own).*what);
            --((*of_user).*what);
          }};
}

Endpoint& ServiceImpl::NewEndpoint(uint32_t client) {
  do {
    ++last_endpoint_;
  } while (last_endpoint_ == 0 || endpoints_.contains(last_endpoint_));
  auto endpoint = std::make_unique<Endpoint>();
  endpoint->id = EndpointId{last_endpoint_};
  endpoint->client = client;
  endpoint->place = Count(client, &Holdings::endpoints);
  endpoint->starting_psn = wire::Psn(random_());
  clients_.at(client).endpoints.insert(endpoint->id);
  return *endpoints_.emplace(last_endpoint_, std::move(endpoint)).first->second;
}

void ServiceImpl::Destroy(Endpoint& endpoint) {
  const std::set<EndpointId> requests = std::exchange(endpoint.requests, {});
  for (const EndpointId request : requests) Destroy(*Find(endpoint.client, request));
  if (endpoint.listener) {
    if (Endpoint* const listener = Find(endpoint.client, *endpoint.listener)) {
      listener->requests.erase(endpoint.id);
    }
  }
  if (endpoint.lookup != 0) environment_.Cancel(endpoint.lookup);
  for (const auto& [id, membership] : endpoint.groups) {
    if (membership.receives) environment_.Leave(*endpoint.attachment, membership.group);
  }
  if (endpoint.binding != cm::BindingId{}) {
    by_binding_.erase(static_cast<uint32_t>(endpoint.binding));
    manager_.Release(endpoint.binding);
  }
  if (endpoint.comm != cm::CommId()) {
    by_comm_.erase(endpoint.comm.value());
    static_cast<void>(manager_.Destroy(endpoint.comm, environment_.Now()));
  }
  clients_.at(endpoint.client).endpoints.erase(endpoint.id);
  endpoints_.erase(static_cast<uint32_t>(endpoint.id));
}

Endpoint* ServiceImpl::FindByComm(cm::CommId comm) {
  const auto found = by_comm_.find(comm.value());
  return found == by_comm_.end() ? nullptr
                                 : endpoints_.at(static_cast<uint32_t>(found->second)).get();
}

void ServiceImpl::Attach(Endpoint& endpoint, cm::CommId comm) {
  endpoint.comm = comm;
  endpoint.state = State::kConnect;
  by_comm_[comm.value()] = endpoint.id;
  manager_.Keep(comm, endpoint.place);
}

void ServiceImpl::Raise(const Endpoint& endpoint, Event event) {
  event.id = endpoint.id;
  clients_.at(endpoint.client).handler(event);
}

void ServiceImpl::OnMad(const cm::Route& route, std::span<const uint8_t> mad) {
  manager_.OnMad(route, mad, environment_.Now());
  Pump();
}

void ServiceImpl::OnDeadline() {
  manager_.OnDeadline(environment_.Now());
  Pump();
}

void ServiceImpl::OnDeviceGone(uint32_t device) {
  std::set<uint32_t> routes;
  for (const auto& [number, endpoint] : endpoints_) {
    if (!endpoint->attachment || endpoint->attachment->device != device) continue;
    if (endpoint->state == State::kDeviceGone) continue;
    routes.insert(RouteDevice(*endpoint->attachment));
    if (endpoint->comm != cm::CommId()) continue;  // The manager reports it.
    if (endpoint->lookup != 0) environment_.Cancel(std::exchange(endpoint->lookup, 0));
    endpoint->state = State::kDeviceGone;
    Raise(*endpoint, {.kind = EventKind::kDeviceRemoval});
  }
  for (const uint32_t route : routes) manager_.OnDeviceGone(route);
  Pump();
}

// Linux raises the same event when a bond fails over to its other link.
void ServiceImpl::OnMacChange(uint32_t device) {
  for (const auto& [number, endpoint] : endpoints_) {
    const bool is_on_it = endpoint->attachment && endpoint->attachment->device == device;
    if (!is_on_it || endpoint->state == State::kDeviceGone) continue;
    Raise(*endpoint, {.kind = EventKind::kAddressChange});
  }
}

void ServiceImpl::Pump() {
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

void ServiceImpl::SendWaiting() {
  for (auto& [device, unsent] : unsent_) {
    while (!unsent.empty()) {
      const cm::Datagram& next = unsent.front();
      if (!environment_.Send(next.route, wire::EncodeCm(next.message))) break;
      unsent.pop_front();
    }
  }
  std::erase_if(unsent_, [](const auto& entry) { return entry.second.empty(); });
}

void ServiceImpl::SetDeadline() {
  Nanos deadline = manager_.NextDeadline();
  if (!unsent_.empty()) deadline = std::min(deadline, environment_.Now() + kUnsentPause);
  environment_.SetDeadline(deadline);
}

bool ServiceImpl::has_farewells() const {
  bool waits = !unsent_.empty();
  manager_.ForEachConnection([&](const cm::Connection& connection) {
    waits |= connection.state() == cm::State::kDreqSent;
  });
  return waits;
}

EndpointInfo ServiceImpl::Describe(const Endpoint& endpoint) const {
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

// ---- Client: each call finds its endpoint, executes, and passes its events on ----

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
