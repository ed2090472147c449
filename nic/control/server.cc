// SPDX-License-Identifier: Apache-2.0
// The control socket with all its connections, and the maintenance of the ports.
#include "nic/control/server.h"

#include <infiniband/verbs.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nic/base/cpu_limit.h"
#include "nic/base/log.h"
#include "nic/base/user_limits.h"
#include "nic/control/control_connections.h"
#include "nic/control/control_context.h"
#include "nic/devices/nic_device.h"
#include "nic/net/address.h"
#include "nic/objects/nic.h"
#include "nic/objects/program.h"
#include "nic/objects/worker_inboxes.h"
#include "pipeline/datapath/worker/worker.h"
#include "pipeline/os/shared_memory.h"

namespace uroce::nic {
namespace {

constexpr size_t kMostNamed = 3;

std::set<AddressSigns::Place> PlacesOf(const NicDevice& device) {
  std::set<AddressSigns::Place> places;
  for (const InterfaceAddress& address : device.gids().addresses()) {
    const int ifindex = device.AddressInterfaceOf(address.vlan_id);
    if (ifindex != 0) places.emplace(ifindex, address.gid);
  }
  return places;
}

/// "192.0.2.1, fd00::1 and 2 more".
std::string Named(const std::vector<AddressSigns::Place>& places) {
  std::string text;
  for (size_t i = 0; i < places.size() && i < kMostNamed; ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", FormatAddress(places[i].second));
  }
  if (places.size() > kMostNamed) {
    absl::StrAppend(&text, " and ", places.size() - kMostNamed, " more");
  }
  return text;
}

}  // namespace

void ServedAddresses::Update(const NicDevice& device) {
  const std::vector<AddressSigns::Place> shared = signs_[&device].Show(PlacesOf(device));
  if (shared.empty()) return;
  LogWarning(
      "{}: another NIC of uroced serves {} on {} too: both get the packets, and connections may be "
      "refused by the wrong one; give each NIC its own addresses (uroce doctor names the "
      "process)",
      device.name(), Named(shared), device.info().interface);
}

namespace {

// The interval at which a port checks for changes that no fd reports.
constexpr Nanos kMaintenanceInterval{250'000'000};
// How long news of links and addresses are collected before they are read.
constexpr Nanos kSettleTime{20'000'000};
// How long the daemon waits at its end for the peers' answers. All peers have been told before this
// time ends.
constexpr Nanos kFarewellTime{200'000'000};
constexpr int kFarewellTurnMs = 10;

}  // namespace

Server::Server(EventLoop& loop, Nic& nic, ControlSocket socket)
    : loop_(loop),
      nic_(nic),
      services_(std::make_unique<Services>(loop, nic)),
      connections_(std::make_unique<ControlConnections>(
          loop, nic, *services_, [this](NicDevice& device) { Refresh(device); },
          PortChanges::Hooks{.added = [this](NicDevice& device) { OnAdded(device); },
                             .removed = [this](NicDevice& device) { OnRemoved(device); }})),
      socket_(std::move(socket)),
      tree_(socket_.TakeTree()),
      statistics_(connections_->dumps()),
      counters_(loop, nic, statistics_, tree_.tree()),
      balancer_(nic, loop, UsableCpus()) {
  listener_watch_ = loop_.Watch(socket_.fd(), EPOLLIN, [this] { OnConnection(); });
  guard_watch_ =
      loop_.Watch(MappingGuard::Get().event_fd(), EPOLLIN, [this] { connections_->EndStruck(); });
  if (network_.fd() >= 0) {
    network_watch_ = loop_.Watch(network_.fd(), EPOLLIN, [this] { OnNetworkChange(); });
    RefreshAfter(Nanos(0));  // Something may have changed since the devices were made.
  }
  for (const auto& device : nic_.devices()) WatchPort(*device);
  for (const auto& device : nic_.devices()) tree_.Publish(nic_, *device);
  for (const auto& device : nic_.devices()) served_addresses_.Update(*device);
  overflow_watch_ = loop_.Watch(nic_.overflows().fd(), EPOLLIN, [this] { nic_.FailOverflowed(); });
  MaintainPorts();
  services_->paths.StartHosts([this](NicDevice& device) { Refresh(device); });
}

Server::~Server() {
  loop_.Forget(listener_watch_);
  loop_.Forget(network_watch_);
  loop_.Forget(overflow_watch_);
  loop_.Forget(guard_watch_);
  for (const auto& [device, watch] : port_watches_) loop_.Forget(watch);
  loop_.Cancel(maintenance_);
  loop_.Cancel(settling_);
  connections_->Clear();
  connections_->TellOmissions(Nic::Now() + LogBudget::kInterval);  // There is no later.
  SayFarewell();
}

size_t Server::connection_count() const { return connections_->count(); }

Reconfiguration& Server::reconfiguration() { return connections_->reconfiguration(); }

PortChanges& Server::port_changes() { return connections_->port_changes(); }

void Server::WatchPort(NicDevice& device) {
  const int fd = device.port().maintain_fd();
  if (fd < 0) return;
  port_watches_[&device] = loop_.Watch(fd, EPOLLIN, [this, &device] { MaintainPort(device); });
}

// The kernel may have changed something since the device was made.
void Server::OnAdded(NicDevice& device) {
  WatchPort(device);
  served_addresses_.Update(device);
  Refresh(device);
  statistics_.Forget();
  counters_.OnAdded(device);
}

void Server::OnRemoved(NicDevice& device) {
  const auto watch = port_watches_.find(&device);
  if (watch != port_watches_.end()) {
    loop_.Forget(watch->second);
    port_watches_.erase(watch);
  }
  served_addresses_.Forget(device);
  counters_.OnRemoved(device.name());
  tree_.Withdraw(device);
  statistics_.Forget();
}

bool Server::is_settling() const { return services_->paths.neighbours().has_tentative_address(); }

void Server::SayFarewell() {
  const Nanos deadline = Nic::Now() + kFarewellTime;
  while (services_->rdma_cm.has_farewells() && Nic::Now() < deadline)
    loop_.RunOnce(kFarewellTurnMs);
}

void Server::OnConnection() {
  Fd socket(accept4(socket_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket) {
    // No fd is left: the listener stays readable, and would keep the loop busy.
    if (errno == EMFILE || errno == ENFILE) {
      LogWarning("a program cannot connect: {}", std::strerror(errno));
      loop_.SetEvents(listener_watch_, 0);
      loop_.After(Nanos(100'000'000), [this] { loop_.SetEvents(listener_watch_, EPOLLIN); });
    }
    return;
  }
  connections_->Admit(std::move(socket));
}

// News of neighbours are handled at once. Links and addresses may change by the thousand: all of
// them are read once every kSettleTime, which leaves the thread free in between.
void Server::OnNetworkChange() {
  const NetlinkNews news = network_.Read();
  services_->paths.neighbours().OnNews(news);
  if (news.links && settling_ == 0) RefreshAfter(kSettleTime);
}

void Server::RefreshAfter(Nanos delay) {
  settling_ = loop_.After(delay, [this] {
    settling_ = 0;
    for (const auto& device : nic_.devices()) Refresh(*device);
  });
}

void Server::MaintainPorts() {
  for (const auto& device : nic_.devices()) MaintainPort(*device);
  for (const auto& [id, program] : nic_.programs()) program->contexts().RetryPortEvents();
  nic_.ReleaseDevices();
  nic_.ForgetRead();
  connections_->TellOmissions(Nic::Now());
  balancer_.Look(Nic::Now());
  maintenance_ = loop_.After(kMaintenanceInterval, [this] { MaintainPorts(); });
}

void Server::MaintainPort(NicDevice& device) {
  device.port().Maintain(
      [this](absl::FunctionRef<void()> work) { nic_.workers().RunTogether(work); });
  // Netlink reports changes of kernel interfaces at less cost. A TAP does not know the port's link.
  // A port that was down may have a link since Maintain has opened the interface of its name.
  if (device.info().interface.empty() || device.kernel().has_exception_tap() ||
      !device.info().link_up) {
    Refresh(device);
  }
}

void Server::Refresh(NicDevice& device) {
  const DeviceChange change = nic_.Refresh(device);
  tree_.Publish(nic_, device);
  const drivers::PortInfo& info = device.info();
  Monitor& monitor = connections_->monitor();
  if (change.link || change.why_down) monitor.OnLink(device);
  if (change.gids) monitor.OnGids(device);
  if (change.mac) monitor.OnMac(device);
  if (change.interface) monitor.OnInterface(device);
  if (change.link || change.why_down) {
    LogInfo("{}: link {}{}{}", device.name(), info.link_up ? "up" : "down",
            info.why_down.empty() ? "" : ": ", info.why_down);
  }
  if (change.gids || change.interface) served_addresses_.Update(device);
  if (change.link) services_->paths.neighbours().OnLink(device);
  if (change.mac) {
    LogInfo("{}: MAC {}", device.name(), FormatMac(info.mac));
    services_->rdma_cm.service().OnMacChange(device.datapath().index());
  }
  if (change.interface) {
    LogWarning("{}: interface {} {}", device.name(), info.interface,
               info.ifindex == 0 ? "is gone" : "is there again");
    if (info.ifindex == 0) services_->rdma_cm.service().OnDeviceGone(device.datapath().index());
  }
  const uint32_t link_event = info.link_up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR;
  for (const auto& [id, program] : nic_.programs()) {
    if (change.link) program->contexts().RaisePortEvent(device, link_event);
    if (change.gids) program->contexts().RaisePortEvent(device, IBV_EVENT_GID_CHANGE);
    if (change.speed) program->contexts().RaisePortEvent(device, UROCE_EVENT_DEVICE_SPEED_CHANGE);
  }
}

}  // namespace uroce::nic
