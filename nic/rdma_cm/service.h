// SPDX-License-Identifier: Apache-2.0
// rdma_cm for programs: endpoints (rdma_cm_ids) with addresses, routes and connections, above the
// connection manager. Here are its time, its messages and its devices; client.h has the calls of
// programs. Pure: the daemon is behind an Environment.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <span>

#include "nic/cm/manager.h"
#include "nic/rdma_cm/endpoint_table.h"
#include "nic/rdma_cm/types.h"

namespace uroce::nic::rdma_cm {

struct ServiceConfig {
  cm::Config manager;
  EndpointLimits limits;
  /// Time code within which each side must answer; otherwise messages are repeated. As Linux's.
  uint8_t cm_response_timeout = 20;
  /// Lower ports are for privileged programs, as in net.ipv4.ip_unprivileged_port_start.
  uint16_t first_unprivileged_port = 1024;
};

/// The manager identifies communications by number; the table maps them to endpoints, and these to
/// programs. After each call or message Pump passes on the results. One thread, the control thread.
class Service {
 public:
  /// All clients must be destroyed before the service.
  Service(const ServiceConfig& config, Environment& environment, cm::RandomSource random);
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  // ---- events in ----
  /// Takes a MAD that the GSI of a device received. `route`: see cm::Manager::OnMad.
  void OnMad(const cm::Route& route, std::span<const uint8_t> mad);
  /// Call it at the time set by Environment::SetDeadline.
  void OnDeadline();
  /// The device and its addresses are gone: its endpoints get kDeviceRemoval.
  void OnDeviceGone(uint32_t device);
  /// The device's MAC has changed: its endpoints get kAddressChange, and continue.
  void OnMacChange(uint32_t device);

  // ---- queries ----
  /// Whether messages still wait to be sent or answered, after all clients are gone.
  bool has_farewells() const;
  const cm::Counters& counters() const { return manager_.counters(); }
  /// The connection manager's communications, including those in time wait, and its bindings.
  size_t communications() const { return manager_.size(); }
  size_t bindings() const { return manager_.bindings(); }
  /// Datagrams dropped because there was no room for too long.
  uint64_t unsent_dropped() const { return unsent_dropped_; }
  /// For dumps: calls `visit` for each endpoint of each program, in no order.
  void ForEach(
      const std::function<void(const Owner&, EndpointId, const EndpointInfo&)>& visit) const;

 private:
  friend class Client;  // The calls of a program: they use all parts.

  /// Whether the program may have one more endpoint. What is left of its ended connections, and of
  /// its user's, gives way to it.
  bool MakeRoom(uint32_t client);
  Endpoint& Add(uint32_t client);
  void Destroy(Endpoint& endpoint);
  void Attach(Endpoint& endpoint, cm::CommId comm);
  EndpointInfo Describe(const Endpoint& endpoint) const;

  // Outputs: hands out events and datagrams, and sets the next deadline.
  void Pump();
  void SendWaiting();
  void SetDeadline();

  // Events of the manager.
  void OnEvent(const cm::Event& event);
  bool Serves(const Endpoint& listener, ibv_qp_type qp_type, const cm::Route& route);
  void OnRequest(const cm::Event& event);
  Endpoint& AddRequest(Endpoint& listener, const cm::Event& event);
  void OnResolved(Endpoint& endpoint, const cm::Event& event);

  const ServiceConfig config_;
  Environment& environment_;
  cm::RandomSource random_;
  cm::Manager manager_;
  EndpointTable endpoints_;
  uint32_t last_membership_ = 0;
  /// By device: datagrams without room. A device that cannot send does not delay the others.
  std::map<uint32_t, std::deque<cm::Datagram>> unsent_;
  uint64_t unsent_dropped_ = 0;
};

}  // namespace uroce::nic::rdma_cm
