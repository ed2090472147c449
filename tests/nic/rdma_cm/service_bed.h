// SPDX-License-Identifier: Apache-2.0
// Hosts with a service each, joined by a network of datagrams, in a time that the test moves.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "nic/rdma_cm/client.h"

namespace uroce::nic::rdma_cm {

inline Gid Ip(uint8_t last) {
  Gid gid;
  gid.bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, last};
  return gid;
}
inline Gid Ip6(uint8_t last) {
  Gid gid;
  gid.bytes = {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last};
  return gid;
}
inline Gid AnyIp() {
  Gid gid;
  gid.bytes[10] = gid.bytes[11] = 0xff;
  return gid;
}

inline const Gid kLoopback{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1}};
inline const Gid kLoopback6{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};

inline constexpr Nanos kMs{1'000'000};
inline constexpr uint16_t kPort = 7471;

class Network;

/// One device with the addresses 10.0.0.N and fd00::N.
class Host final : public Environment {
 public:
  Host(Network& network, uint8_t number, const ServiceConfig& config);

  Nanos Now() override;
  void SetDeadline(Nanos when) override { deadline = when; }
  std::optional<Attachment> FindAddress(const Gid& address, uint32_t scope_id) override;
  Result ChooseSource(uint32_t client, const Gid& destination, uint32_t scope_id,
                      Attachment& source) override;
  LookupId FindNeighbour(const Attachment& source, const Gid& destination, uint32_t user,
                         Nanos timeout, LookupHandler handler) override;
  void Cancel(LookupId lookup) override { lookups.erase(lookup); }
  DeviceFacts Facts(uint32_t) override { return facts; }
  std::optional<uint8_t> GidIndex(const Attachment&) override { return 3; }
  bool Send(const cm::Route& route, const std::array<uint8_t, wire::kMadBytes>& mad) override;
  Result Join(const Attachment&, const Gid& group) override;
  void Leave(const Attachment&, const Gid& group) override { groups.erase(group); }

  const uint8_t number;
  DeviceFacts facts;
  Nanos deadline = kNever;
  bool has_room = true;                 ///< For datagrams.
  uint32_t ipv6_device = 0;             ///< That has the IPv6 addresses.
  std::optional<uint32_t> full_device;  ///< Has no room, whatever `has_room` says.
  bool has_addresses = true;
  Result join_result = Result::kOk;
  std::multiset<Gid> groups;
  struct Lookup {
    Nanos due;
    int error;
    LookupHandler handler;
  };
  std::map<LookupId, Lookup> lookups;

 private:
  Network& network_;
  LookupId last_lookup_ = 0;
  std::mt19937 random_;

 public:
  std::unique_ptr<Service> service;
};

/// Delivers in order, or loses, or repeats, by chance.
class Network {
 public:
  explicit Network(ServiceConfig config = {}) {
    for (uint8_t number = 1; number <= 2; ++number) {
      hosts.push_back(std::make_unique<Host>(*this, number, config));
    }
  }
  Host& operator[](size_t index) { return *hosts[index]; }

  struct Packet {
    cm::Route route;
    std::array<uint8_t, wire::kMadBytes> mad;
  };
  /// Runs until nothing is under way and nothing is due by `until`.
  void RunUntil(Nanos until) {
    for (;;) {
      while (!packets.empty()) DeliverOne();
      const Nanos next = NextDue();
      if (next > until) break;
      now = std::max(now, next);
      FireAll();
    }
    now = std::max(now, until);
  }
  void Run(Nanos time = kMs) { RunUntil(now + time); }

  std::vector<std::unique_ptr<Host>> hosts;
  Nanos now{1'000'000'000};
  std::deque<Packet> packets;
  std::vector<wire::CmAttribute> sent;
  std::set<uint8_t> deaf;  ///< Hosts that get nothing.
  /// May change a packet before it is delivered; false: it is lost.
  std::function<bool(Packet&)> on_delivery;
  std::mt19937 chance;
  uint32_t loss_percent = 0;
  uint32_t repeat_percent = 0;

 private:
  bool Chance(uint32_t percent) { return chance() % 100 < percent; }
  void DeliverOne() {
    Packet packet = packets.front();
    packets.pop_front();
    if (on_delivery && !on_delivery(packet)) return;
    const uint8_t to = packet.route.remote.bytes[15];
    if (to == 0 || to > hosts.size() || deaf.contains(to) || Chance(loss_percent)) return;
    if (Chance(repeat_percent)) packets.push_back(packet);
    cm::Route route = packet.route;
    std::swap(route.local, route.remote);
    hosts[to - 1u]->service->OnMad(route, packet.mad);
  }
  Nanos NextDue() const {
    Nanos next = kNever;
    for (const auto& host : hosts) {
      next = std::min(next, host->deadline);
      for (const auto& [id, lookup] : host->lookups) next = std::min(next, lookup.due);
    }
    return next;
  }
  void FireAll() {
    for (const auto& host : hosts) {
      if (host->deadline <= now) {
        host->deadline = kNever;
        host->service->OnDeadline();
      }
      while (FireLookup(*host)) {
      }
    }
  }
  bool FireLookup(Host& host) const {
    const auto due = std::ranges::find_if(
        host.lookups, [this](const auto& entry) { return entry.second.due <= now; });
    if (due == host.lookups.end()) return false;
    const Host::Lookup lookup = std::move(due->second);
    host.lookups.erase(due);
    lookup.handler(lookup.error);
    return true;
  }
};

inline Host::Host(Network& network, uint8_t its_number, const ServiceConfig& config)
    : number(its_number),
      facts{.node_guid = 0x1000u + its_number, .active_mtu = 5},
      network_(network),
      random_(its_number),
      service(std::make_unique<Service>(config, *this, [this] { return random_(); })) {}

inline Nanos Host::Now() { return network_.now; }

inline std::optional<Attachment> Host::FindAddress(const Gid& address, uint32_t) {
  if (address != Ip(number) && address != Ip6(number)) return std::nullopt;
  return Attachment{address.is_ipv4() ? 0 : ipv6_device, 0, address};
}

// 10.0.0.200 is out by another interface, 10.0.0.201 nowhere.
inline Result Host::ChooseSource(uint32_t, const Gid& destination, uint32_t, Attachment& source) {
  if (destination == Ip(200)) return Result::kNoDevice;
  if (destination == Ip(201)) return Result::kNoRoute;
  if (!has_addresses) return Result::kNoDevice;
  const bool is_ipv4 = destination.is_ipv4();
  source = {is_ipv4 ? 0 : ipv6_device, 0, is_ipv4 ? Ip(number) : Ip6(number)};
  return Result::kOk;
}

// No host answers beyond 10.0.0.99.
inline Environment::LookupId Host::FindNeighbour(const Attachment&, const Gid& destination,
                                                 uint32_t, Nanos timeout, LookupHandler handler) {
  const bool answers = destination.bytes[15] < 100;
  lookups[++last_lookup_] = {network_.now + (answers ? Nanos(0) : timeout), answers ? 0 : ETIMEDOUT,
                             std::move(handler)};
  return last_lookup_;
}

inline bool Host::Send(const cm::Route& route, const std::array<uint8_t, wire::kMadBytes>& mad) {
  if (!has_room || full_device == DeviceOf(route)) return false;
  wire::CmMessage message;
  EXPECT_EQ(wire::DecodeCm(mad, message), wire::CmDecodeResult::kOk);
  network_.sent.push_back(message.attribute());
  network_.packets.push_back({route, mad});
  return true;
}

inline Result Host::Join(const Attachment&, const Gid& group) {
  if (join_result == Result::kOk) groups.insert(group);
  return join_result;
}

/// A program with what it has been told.
struct Program {
  explicit Program(Host& its_host, const Owner& owner = {}) : host(its_host) {
    client = std::make_unique<Client>(
        *host.service, owner, [this](Qpn qpn) { return qpn != not_its; },
        [this](const Event& event) { events.push_back(event); });
  }

  EndpointId Create(wire::PortSpace space = wire::PortSpace::kTcp,
                    ibv_qp_type type = IBV_QPT_RC) const {
    EndpointId id{};
    EXPECT_EQ(client->Create(space, type, id), Result::kOk);
    return id;
  }
  /// The oldest event, which has to be of this kind.
  Event Take(EventKind kind) {
    if (events.empty()) {
      ADD_FAILURE() << "no event of kind " << static_cast<int>(kind);
      return {};
    }
    const Event event = events.front();
    events.pop_front();
    EXPECT_EQ(static_cast<int>(event.kind), static_cast<int>(kind)) << "status " << event.status;
    return event;
  }
  std::optional<Event> Find(EventKind kind) const {
    const auto found = std::ranges::find(events, kind, &Event::kind);
    return found == events.end() ? std::nullopt : std::optional(*found);
  }

  Host& host;
  Qpn not_its{0xbad};  ///< A queue pair of another program.
  std::deque<Event> events;
  std::unique_ptr<Client> client;
};

inline ConnectionParameters WithQpn(uint32_t qpn) {
  ConnectionParameters parameters;
  parameters.qpn = Qpn(qpn);
  parameters.responder_resources = 4;
  parameters.initiator_depth = 2;
  return parameters;
}

/// A server on the second host and a client on the first.
class RdmaCmTest : public testing::Test {
 protected:
  /// Listens at any address and kPort.
  EndpointId Listen(wire::PortSpace space = wire::PortSpace::kTcp, ibv_qp_type type = IBV_QPT_RC) {
    const EndpointId listener = server.Create(space, type);
    EXPECT_EQ(server.client->Bind(listener, {.address = AnyIp(), .port = kPort}), Result::kOk);
    EXPECT_EQ(server.client->Listen(listener, 16), Result::kOk);
    return listener;
  }
  /// An endpoint of the client whose route to the server is resolved.
  EndpointId Resolved(wire::PortSpace space = wire::PortSpace::kTcp,
                      ibv_qp_type type = IBV_QPT_RC) {
    const EndpointId id = client.Create(space, type);
    const SocketAddress to{.address = Ip(2), .port = kPort};
    EXPECT_EQ(client.client->ResolveAddress(id, nullptr, to, kMs * 1000), Result::kOk);
    net.Run();
    client.Take(EventKind::kAddressResolved);
    EXPECT_EQ(client.client->ResolveRoute(id), Result::kOk);
    client.Take(EventKind::kRouteResolved);
    return id;
  }
  struct Pair {
    EndpointId active{};
    EndpointId passive{};
  };
  /// A request that the server has been shown.
  Pair Request() {
    Pair pair;
    pair.active = Resolved();
    EXPECT_EQ(client.client->Connect(pair.active, WithQpn(++last_qpn)), Result::kOk);
    net.Run();
    pair.passive = server.Take(EventKind::kConnectRequest).id;
    EXPECT_EQ(server.client->TakeRequest(pair.passive), Result::kOk);
    return pair;
  }
  Pair Connected() {
    const Pair pair = Request();
    EXPECT_EQ(server.client->Accept(pair.passive, WithQpn(++last_qpn)), Result::kOk);
    net.Run();
    client.Take(EventKind::kConnectResponse);
    EXPECT_EQ(client.client->Establish(pair.active), Result::kOk);
    net.Run();
    server.Take(EventKind::kEstablished);
    return pair;
  }

  Network net;
  Program client{net[0]};
  Program server{net[1]};
  uint32_t last_qpn = 0x100;
};

}  // namespace uroce::nic::rdma_cm
