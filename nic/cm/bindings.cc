// SPDX-License-Identifier: Apache-2.0
#include "nic/cm/bindings.h"

#include <algorithm>
#include <ranges>

namespace uroce::nic::cm {
namespace {

bool OwnFamilyOnly(const BindParameters& parameters) {
  return parameters.own_family_only || parameters.address.is_ipv4();
}

wire::RdmaCmService ServiceOf(const BindParameters& parameters) {
  return {parameters.space, parameters.port};
}

bool Serves(const BindParameters& parameters, const Gid& destination) {
  if (parameters.address == destination) return true;
  if (!IsOfHost(parameters.address)) return false;
  return !OwnFamilyOnly(parameters) || parameters.address.is_ipv4() == destination.is_ipv4();
}

}  // namespace

bool IsWildcard(const Gid& address) {
  const auto& bytes = address.bytes;
  const size_t from = address.is_ipv4() ? 12 : 0;
  return std::all_of(bytes.begin() + static_cast<ptrdiff_t>(from), bytes.end(),
                     [](uint8_t byte) { return byte == 0; });
}

bool IsLoopback(const Gid& address) {
  constexpr Gid kIpv6Loopback{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
  constexpr uint8_t kIpv4Network = 127;
  return address.is_ipv4() ? address.bytes[12] == kIpv4Network : address == kIpv6Loopback;
}

bool IsOfHost(const Gid& address) { return IsWildcard(address) || IsLoopback(address); }

Result Bindings::Bind(const BindParameters& parameters, uint32_t random, BindingId& id) {
  BindParameters wanted = parameters;
  if (wanted.port == 0) {
    wanted.port = FreePort(wanted.space, random);
    if (wanted.port == 0) return Result::kNoRoom;
  }
  const Result checked = Check(wanted, wanted.reuse_address, BindingId{});
  if (checked != Result::kOk) return checked;
  if (IsInRange(wanted.port) && !SharedPorts(wanted.space).Take(wanted.user)) {
    return Result::kNoRoom;
  }
  id = BindingId{++last_id_};
  bindings_.emplace(id, Binding{.parameters = wanted});
  by_service_.emplace(ServiceOf(wanted), id);
  return Result::kOk;
}

Result Bindings::Listen(BindingId id, uint32_t backlog) {
  const auto found = bindings_.find(id);
  if (found == bindings_.end()) return Result::kNoSuchId;
  Binding& binding = found->second;
  if (binding.listens) return Result::kWrongState;
  // Two listeners with one port by `reuse_address` could not tell whose a request is.
  const Result checked = Check(binding.parameters, false, id);
  if (checked != Result::kOk) return checked;
  binding.listens = true;
  binding.backlog = backlog;
  return Result::kOk;
}

void Bindings::Release(BindingId id) {
  const auto found = bindings_.find(id);
  if (found == bindings_.end()) return;
  const BindParameters& parameters = found->second.parameters;
  if (IsInRange(parameters.port)) SharedPorts(parameters.space).Return(parameters.user);
  const auto [first, last] = by_service_.equal_range(ServiceOf(parameters));
  for (auto it = first; it != last; ++it) {
    if (it->second != id) continue;
    by_service_.erase(it);
    break;
  }
  bindings_.erase(found);
}

uint16_t Bindings::PortOf(BindingId id) const {
  const auto found = bindings_.find(id);
  return found == bindings_.end() ? uint16_t{0} : found->second.parameters.port;
}

bool Bindings::HasListener(const wire::RdmaCmService& service) const {
  const auto [first, last] = by_service_.equal_range(service);
  return std::any_of(first, last,
                     [&](const auto& entry) { return bindings_.at(entry.second).listens; });
}

BindingId Bindings::FindListener(const wire::RdmaCmService& service, const Gid& destination) const {
  const auto [first, last] = by_service_.equal_range(service);
  for (auto it = first; it != last; ++it) {
    const Binding& binding = bindings_.at(it->second);
    if (binding.listens && Serves(binding.parameters, destination)) return it->second;
  }
  return {};
}

std::optional<Gid> Bindings::AddressOfListener(const wire::RdmaCmService& service,
                                               bool is_ipv4) const {
  const auto [first, last] = by_service_.equal_range(service);
  for (auto it = first; it != last; ++it) {
    const Binding& binding = bindings_.at(it->second);
    const Gid& address = binding.parameters.address;
    if (!binding.listens || IsOfHost(address) || address.is_ipv4() != is_ipv4) continue;
    return address;
  }
  return std::nullopt;
}

bool Bindings::TakePlace(BindingId id, const Gid& source) {
  const auto found = bindings_.find(id);
  if (found == bindings_.end()) return false;
  Binding& binding = found->second;
  return binding.places.HeldBy(source.bytes) < binding.backlog && binding.places.Take(source.bytes);
}

void Bindings::ReturnPlace(BindingId id, const Gid& source) {
  const auto found = bindings_.find(id);
  if (found != bindings_.end()) found->second.places.Return(source.bytes);
}

FairShare<uint32_t>& Bindings::SharedPorts(wire::PortSpace space) {
  return shared_ports_.try_emplace(space, uint32_t{range_.last} - range_.first + 1).first->second;
}

uint16_t Bindings::FreePort(wire::PortSpace space, uint32_t random) const {
  const uint32_t count = uint32_t{range_.last} - range_.first + 1;
  for (uint32_t i = 0; i < count; ++i) {
    const auto port = static_cast<uint16_t>(range_.first + (random + uint64_t{i}) % count);
    if (IsFree({space, port})) return port;
  }
  return 0;
}

Result Bindings::Check(const BindParameters& wanted, bool reuse_address, BindingId but) const {
  const auto [first, last] = by_service_.equal_range(ServiceOf(wanted));
  for (auto it = first; it != last; ++it) {
    if (it->second == but) continue;
    const BindParameters& other = bindings_.at(it->second).parameters;
    if (reuse_address && other.reuse_address) continue;
    const bool families_differ = wanted.address.is_ipv4() != other.address.is_ipv4();
    if (families_differ && OwnFamilyOnly(wanted) && OwnFamilyOnly(other)) continue;
    if (IsOfHost(wanted.address) || IsOfHost(other.address)) {
      return Result::kAddressNotAvailable;
    }
    if (wanted.address == other.address) return Result::kAddressInUse;
  }
  return Result::kOk;
}

}  // namespace uroce::nic::cm
