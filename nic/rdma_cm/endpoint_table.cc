// SPDX-License-Identifier: Apache-2.0
#include "nic/rdma_cm/endpoint_table.h"

#include <utility>

namespace uroce::nic::rdma_cm {

uint32_t EndpointTable::AddClient(const Owner& owner, EventHandler handler) {
  std::shared_ptr<Holdings> of_user = users_[owner.uid].lock();
  if (of_user == nullptr) users_[owner.uid] = of_user = std::make_shared<Holdings>();
  clients_.emplace(++last_client_, Client{.owner = owner,
                                          .handler = std::move(handler),
                                          .endpoints = {},
                                          .holdings = std::make_shared<Holdings>(),
                                          .of_user = std::move(of_user)});
  return last_client_;
}

void EndpointTable::RemoveClient(uint32_t client) { clients_.erase(client); }

void EndpointTable::ForgetUsers() {
  absl::erase_if(users_, [](const auto& user) { return user.second.expired(); });
}

void EndpointTable::Raise(const Endpoint& endpoint, Event event) const {
  event.id = endpoint.id;
  clients_.at(endpoint.client).handler(event);
}

bool EndpointTable::HasRoomOfProgram(uint32_t client) const {
  return clients_.at(client).holdings->endpoints < limits_.endpoints_per_program;
}

bool EndpointTable::HasRoomOfUser(uint32_t client) const {
  return clients_.at(client).of_user->endpoints < limits_.endpoints_per_user;
}

bool EndpointTable::HasRoomToJoin(uint32_t client) const {
  const Client& its = clients_.at(client);
  return its.holdings->joins < limits_.joins_per_program &&
         its.of_user->joins < limits_.joins_per_user;
}

std::shared_ptr<void> EndpointTable::Count(uint32_t client, uint32_t Holdings::*what) {
  const Client& its = clients_.at(client);
  ++((*its.holdings).*what);
  ++((*its.of_user).*what);
  return {nullptr, [own = its.holdings, of_user = its.of_user, what](void*) {
            --((*own).*what);
            --((*of_user).*what);
          }};
}

Endpoint& EndpointTable::Add(uint32_t client) {
  do {
    ++last_endpoint_;
  } while (last_endpoint_ == 0 || endpoints_.contains(last_endpoint_));
  auto endpoint = std::make_unique<Endpoint>();
  endpoint->id = EndpointId{last_endpoint_};
  endpoint->client = client;
  endpoint->place = Count(client, &Holdings::endpoints);
  clients_.at(client).endpoints.insert(endpoint->id);
  return *endpoints_.emplace(last_endpoint_, std::move(endpoint)).first->second;
}

void EndpointTable::Remove(const Endpoint& endpoint) {
  if (endpoint.binding != cm::BindingId{}) {
    by_binding_.erase(static_cast<uint32_t>(endpoint.binding));
  }
  if (endpoint.comm != cm::CommId()) by_comm_.erase(endpoint.comm.value());
  clients_.at(endpoint.client).endpoints.erase(endpoint.id);
  endpoints_.erase(static_cast<uint32_t>(endpoint.id));
}

void EndpointTable::SetComm(Endpoint& endpoint, cm::CommId comm) {
  endpoint.comm = comm;
  by_comm_[comm.value()] = endpoint.id;
}

void EndpointTable::SetBinding(Endpoint& endpoint, cm::BindingId binding) {
  endpoint.binding = binding;
  by_binding_[static_cast<uint32_t>(binding)] = endpoint.id;
}

Endpoint* EndpointTable::Find(uint32_t client, EndpointId id) const {
  const auto found = endpoints_.find(static_cast<uint32_t>(id));
  const bool is_its = found != endpoints_.end() && found->second->client == client;
  return is_its ? found->second.get() : nullptr;
}

Endpoint* EndpointTable::FindAny(uint32_t client) const {
  const std::set<EndpointId>& its = clients_.at(client).endpoints;
  return its.empty() ? nullptr : &At(*its.begin());
}

Endpoint* EndpointTable::FindByComm(cm::CommId comm) const {
  const auto found = by_comm_.find(comm.value());
  return found == by_comm_.end() ? nullptr : &At(found->second);
}

Endpoint* EndpointTable::FindByBinding(cm::BindingId binding) const {
  const auto found = by_binding_.find(static_cast<uint32_t>(binding));
  return found == by_binding_.end() ? nullptr : &At(found->second);
}

}  // namespace uroce::nic::rdma_cm
