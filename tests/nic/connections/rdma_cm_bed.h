// SPDX-License-Identifier: Apache-2.0
// rdma_cm's service as the daemon runs it, with two NICs on a wire and its own worker. The test is
// the control thread.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "nic/base/log.h"
#include "nic/connections/path_services.h"
#include "nic/connections/rdma_cm_host.h"
#include "nic/devices/nic_device.h"
#include "nic/objects/nic.h"
#include "nic/paths/gsi.h"
#include "nic/paths/neighbours.h"
#include "nic/ports.h"
#include "nic/rdma_cm/client.h"
#include "nic/settings/config.h"

namespace uroce::nic {

/// One in a process: DPDK starts once.
class RdmaCmBed {
 public:
  /// Pauses between repeats are of some milliseconds. `fault`: of both devices, as --fault has it.
  /// `adjust` may change what else they are given.
  explicit RdmaCmBed(
      const std::string& fault = "", uint32_t workers = 1,
      absl::FunctionRef<void(Config&)> adjust = [](Config&) {}) {
    SetLogLevel("error");
    Config config = nic::MakeConfig({}, "/nonexistent").value();
    config.no_huge = true;
    config.workers = workers;
    for (DeviceConfig& device : config.devices) {
      if (!fault.empty()) device.fault = drivers::ParseFault(fault).value();
    }
    adjust(config);
    Ports ports = OpenPorts(config).value();
    nic_ = std::make_unique<Nic>(config, std::move(ports.devices), ports.seats);
    paths_ = std::make_unique<PathServices>(loop_, *nic_);
    rdma_cm::ServiceConfig service = RdmaCmHost::MakeConfig(config.limits);
    service.cm_response_timeout = kResponseTimeout;
    host_ = std::make_unique<RdmaCmHost>(loop_, *nic_, paths_->kernel(), paths_->neighbours(),
                                         paths_->gsi(), service);
  }

  rdma_cm::Service& service() { return host_->service(); }
  RdmaCmHost& host() { return *host_; }
  Nic& nic() { return *nic_; }
  EventLoop& loop() { return loop_; }
  Gsi& gsi() { return paths_->gsi(); }
  void Turn(int timeout_ms = 0) { loop_.RunOnce(timeout_ms); }
  /// Turns until `done`, for up to a minute. False: it never was.
  template <typename Done>
  bool TurnUntil(Done&& done) {
    const Nanos deadline = Nic::Now() + Nanos(60'000'000'000);
    while (!done()) {
      if (Nic::Now() > deadline) return false;
      Turn(10);
    }
    return true;
  }

  static constexpr uint8_t kResponseTimeout = 12;  ///< 16 ms.
  static constexpr uint8_t kAckTimeout = 9;        ///< Makes packets live for 1 ms.

 private:
  EventLoop loop_;
  std::unique_ptr<Nic> nic_;
  std::unique_ptr<PathServices> paths_;
  std::unique_ptr<RdmaCmHost> host_;
};

/// 10.0.0.`last`: 1 is uroce0's, 2 is uroce1's.
inline rdma_cm::SocketAddress WireAddress(uint8_t last, uint16_t port = 0) {
  return {.address = Ipv4Gid(0x0a000000u | last), .port = port};
}

/// A program with what it has been told.
struct RdmaCmProgram {
  explicit RdmaCmProgram(RdmaCmBed& its_bed) : bed(its_bed) {
    client = std::make_unique<rdma_cm::Client>(
        bed.service(), rdma_cm::Owner{}, [](Qpn) { return true; },
        [this](const rdma_cm::Event& event) { events.push_back(event); });
  }
  rdma_cm::EndpointId Create() const {
    rdma_cm::EndpointId id{};
    static_cast<void>(client->Create(wire::PortSpace::kTcp, IBV_QPT_RC, id));
    static_cast<void>(client->SetAckTimeout(id, RdmaCmBed::kAckTimeout));
    return id;
  }
  /// The next event, waited for; nothing: none came.
  std::optional<rdma_cm::Event> Next() {
    if (!bed.TurnUntil([this] { return !events.empty(); })) return std::nullopt;
    const rdma_cm::Event event = events.front();
    events.pop_front();
    return event;
  }

  RdmaCmBed& bed;
  std::deque<rdma_cm::Event> events;
  std::unique_ptr<rdma_cm::Client> client;
};

}  // namespace uroce::nic
