// SPDX-License-Identifier: Apache-2.0
// Binds endpoints to addresses and devices, and resolves addresses and routes of peers.
#include <cerrno>

#include "nic/rdma_cm/queue_pair_attributes.h"
#include "nic/rdma_cm/service_impl.h"

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

}  // namespace

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

}  // namespace uroce::nic::rdma_cm
