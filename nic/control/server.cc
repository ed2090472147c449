// SPDX-License-Identifier: Apache-2.0
#include "nic/control/server.h"

#include <infiniband/verbs.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "drivers/mapping_guard.h"
#include "nic/net/address.h"

namespace uroce::nic {
namespace {

// How soon a port notices what no fd tells it.
constexpr Nanos kMaintenanceInterval{250'000'000};
// How long news of links and addresses are gathered before they are looked at.
constexpr Nanos kSettleTime{20'000'000};
// How long peers have to answer that a connection ends with the daemon. They have been told by
// then.
constexpr Nanos kFarewellTime{200'000'000};
constexpr int kFarewellTurnMs = 10;
// In a turn of the loop, unless one session's end takes longer.
constexpr Nanos kBurialTime{1'000'000};

}  // namespace

Server::Server(EventLoop& loop, Nic& nic, ControlSocket socket)
    : loop_(loop),
      nic_(nic),
      neighbours_(loop, nic),
      gsi_(loop, nic, neighbours_),
      rdma_cm_(loop, nic, neighbours_, gsi_, RdmaCmHost::MakeConfig(nic.config().limits)),
      peers_(loop, nic, gsi_),
      errands_(loop),
      flights_(loop, errands_, nic),
      admission_({.total = nic.config().limits.sessions,
                  .per_user = nic.config().limits.sessions_per_user}),
      context_{loop,
               nic,
               neighbours_,
               rdma_cm_,
               peers_,
               errands_,
               flights_,
               turns_,
               log_budget_,
               [this] {
                 std::vector<const Session*> all;
                 for (const auto& [id, session] : sessions_) all.push_back(session.get());
                 return all;
               },
               [this](Session& session) { End(session); }},
      socket_(std::move(socket)),
      tree_(socket_.TakeTree()),
      network_(OpenNetlinkWatch()) {
  listener_watch_ = loop_.Watch(socket_.fd(), EPOLLIN, [this] { OnConnection(); });
  guard_watch_ =
      loop_.Watch(drivers::MappingGuard::Get().event_fd(), EPOLLIN, [this] { OnStruckMappings(); });
  if (network_) {
    network_watch_ = loop_.Watch(network_.get(), EPOLLIN, [this] { OnNetworkChange(); });
    RefreshAfter(Nanos(0));  // Something may have changed since the devices were made.
  }
  for (const auto& device : nic_.devices()) {
    const int fd = device->port().maintain_fd();
    if (fd < 0) continue;
    port_watches_.push_back(
        loop_.Watch(fd, EPOLLIN, [this, &its = *device] { MaintainPort(its); }));
  }
  for (const auto& device : nic_.devices()) tree_.Publish(nic_, *device);
  overflow_watch_ = loop_.Watch(nic_.overflows().fd(), EPOLLIN, [this] { nic_.FailOverflowed(); });
  MaintainPorts();
  neighbours_.StartHosts([this](NicDevice& device) { Refresh(device); });
}

Server::~Server() {
  loop_.Forget(listener_watch_);
  loop_.Forget(network_watch_);
  loop_.Forget(overflow_watch_);
  loop_.Forget(guard_watch_);
  for (const EventLoop::Id watch : port_watches_) loop_.Forget(watch);
  loop_.Cancel(maintenance_);
  loop_.Cancel(settling_);
  sessions_.clear();
  SayFarewell();
}

void Server::SayFarewell() {
  const Nanos deadline = Nic::Now() + kFarewellTime;
  while (rdma_cm_.has_farewells() && Nic::Now() < deadline) loop_.RunOnce(kFarewellTurnMs);
}

void Server::OnConnection() {
  Fd socket(accept4(socket_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket) {
    // Out of fds: the listener stays readable, and would keep the loop from all else.
    if (errno == EMFILE || errno == ENFILE) {
      spdlog::warn("a program cannot connect: {}", std::strerror(errno));
      loop_.SetEvents(listener_watch_, 0);
      loop_.After(Nanos(100'000'000), [this] { loop_.SetEvents(listener_watch_, EPOLLIN); });
    }
    return;
  }
  ucred credentials{};
  socklen_t length = sizeof(credentials);
  getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &length);
  const Peer peer{credentials.pid, credentials.uid, credentials.gid};
  absl::StatusOr<Admission::Place> place = admission_.Admit(peer.uid, peer.is_privileged());
  if (!place.ok()) return TurnAway(std::move(socket), peer.uid, place.status());
  const uint32_t id = next_id_++;
  sessions_[id] =
      std::make_unique<Session>(context_, id, std::move(socket), peer, *std::move(place));
}

// The answer to its first command, whatever that will be.
void Server::TurnAway(Fd socket, uid_t uid, const absl::Status& status) {
  static_cast<void>(SendReply(socket.get(), status, Reply()));
  const StrangerSocket ended(std::move(socket), nic_.user(uid).refusals_thread);
  if (!log_budget_.Take(uid, Nic::Now())) return;
  spdlog::warn("a program was turned away: {}", std::string(status.message()));
}

// Neighbours are followed at once. Links and addresses may come by the thousand: one look at all of
// them follows a storm every kSettleTime, and leaves the thread free in between.
void Server::OnNetworkChange() {
  const NetlinkNews news = ReadNetlinkWatch(network_.get());
  neighbours_.OnNews(news);
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
  TellOmissions();
  maintenance_ = loop_.After(kMaintenanceInterval, [this] { MaintainPorts(); });
}

void Server::MaintainPort(NicDevice& device) {
  device.port().Maintain(
      [this](absl::FunctionRef<void()> work) { nic_.workers().RunTogether(work); });
  // Of kernel interfaces netlink tells, and asking costs more. A TAP does not know the port's link.
  if (device.info().interface.empty() || device.tap() >= 0) Refresh(device);
}

void Server::Refresh(NicDevice& device) {
  const NicDevice::Change change = nic_.Refresh(device);
  tree_.Publish(nic_, device);
  const drivers::PortInfo& info = device.info();
  if (change.link || change.why_down) {
    spdlog::info("{}: link {}{}{}", device.name(), info.link_up ? "up" : "down",
                 info.why_down.empty() ? "" : ": ", info.why_down);
  }
  if (change.link) neighbours_.OnLink(device);
  if (change.mac) {
    spdlog::info("{}: MAC {}", device.name(), FormatMac(info.mac));
    rdma_cm_.service().OnMacChange(device.datapath().index());
  }
  if (change.interface) {
    spdlog::warn("{}: interface {} {}", device.name(), info.interface,
                 info.ifindex == 0 ? "is gone" : "is there again");
    if (info.ifindex == 0) rdma_cm_.service().OnDeviceGone(device.datapath().index());
  }
  const uint32_t link_event = info.link_up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR;
  for (const auto& [id, session] : sessions_) {
    if (session->program() == nullptr) continue;
    if (change.link) session->program()->RaisePortEvent(device, link_event);
    if (change.gids) session->program()->RaisePortEvent(device, IBV_EVENT_GID_CHANGE);
  }
}

void Server::OnStruckMappings() {
  for (const uint32_t id : drivers::MappingGuard::Get().TakeStruck()) {
    const auto found = sessions_.find(id);
    if (found == sessions_.end()) continue;
    Session& session = *found->second;
    End(session);
    if (!log_budget_.Take(session.peer().uid, Nic::Now())) continue;
    spdlog::warn("session {}: {} (pid {}) has lost registered memory, and is ended", id,
                 session.command_name(), session.peer().pid);
  }
}

// A session may ask for its end from its own callback, and more than once: it is buried after that.
void Server::End(Session& session) {
  session.StopHearing();
  if (ended_.empty()) loop_.After(Nanos(0), [this] { Bury(); });
  if (std::ranges::find(ended_, session.id()) == ended_.end()) ended_.push_back(session.id());
}

// Many programs may end at once: others are served in between.
void Server::Bury() {
  const Nanos deadline = Nic::Now() + kBurialTime;
  do {
    sessions_.erase(ended_.front());
    ended_.pop_front();
  } while (!ended_.empty() && Nic::Now() < deadline);
  if (!ended_.empty()) loop_.After(Nanos(0), [this] { Bury(); });
}

void Server::TellOmissions() {
  for (const auto& [uid, lines] : log_budget_.TakeOmissions(Nic::Now())) {
    spdlog::warn("user {}: {} lines left out here", uid, lines);
  }
}

}  // namespace uroce::nic
