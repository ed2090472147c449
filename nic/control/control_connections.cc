// SPDX-License-Identifier: Apache-2.0
#include "nic/control/control_connections.h"

#include <sys/socket.h>

#include <algorithm>
#include <string>
#include <utility>

#include "nic/base/log.h"
#include "nic/base/reply.h"
#include "nic/control/control_connection.h"
#include "nic/devices/nic_device.h"
#include "nic/objects/nic.h"
#include "nic/objects/resources.h"
#include "nic/settings/config.h"
#include "pipeline/os/shared_memory.h"
#include "pipeline/os/unix_socket.h"

namespace uroce::nic {
namespace {

// Per turn of the loop.
constexpr Nanos kBurialTime{1'000'000};

}  // namespace

Services::Services(EventLoop& loop, Nic& nic)
    : paths(loop, nic),
      rdma_cm(loop, nic, paths.kernel(), paths.neighbours(), paths.gsi(),
              RdmaCmHost::MakeConfig(nic.config().limits)),
      peers(loop, nic, paths.gsi()),
      tasks(loop),
      histories(loop, tasks, nic, log_budget) {}

ControlConnections::ControlConnections(EventLoop& loop, Nic& nic, Services& services,
                                       std::function<void(NicDevice&)> refresh,
                                       PortChanges::Hooks hooks)
    : nic_(nic),
      admission_({.total = nic.config().limits.sessions,
                  .per_user = nic.config().limits.sessions_per_user}),
      reconfiguration_(nic, admission_, refresh),
      context_{.loop = loop,
               .nic = nic,
               .services = services,
               .turns = turns_,
               .log_budget = services.log_budget,
               .dumps = {.loop = loop,
                         .nic = nic,
                         .turns = turns_,
                         .rdma_cm = services.rdma_cm,
                         .peers = services.peers,
                         .histories = services.histories,
                         .clients = [this] { return Clients(); }},
               .monitor = monitor_,
               .reconfiguration = reconfiguration_,
               .port_changes = port_changes_,
               .end = [this](ControlConnection& connection) { End(connection); },
               .refresh = std::move(refresh)},
      monitor_(context_.dumps),
      port_changes_(nic, services, monitor_, std::move(hooks)) {}

ControlConnections::~ControlConnections() = default;

void ControlConnections::Clear() {
  context_.loop.Cancel(burial_);
  ended_.clear();
  connections_.clear();
}

void ControlConnections::Admit(Fd socket) {
  ucred credentials{};
  socklen_t length = sizeof(credentials);
  getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &length);
  const Peer peer{credentials.pid, credentials.uid, credentials.gid,
                  login_users_.Of(credentials.uid)};
  absl::StatusOr<Admission::Place> place = admission_.Admit(peer.account, peer.is_privileged());
  if (!place.ok()) return TurnAway(std::move(socket), peer.account, place.status());
  const uint32_t id = next_id_++;
  connections_[id] =
      std::make_unique<ControlConnection>(context_, id, std::move(socket), peer, *std::move(place));
}

// Sends the answer to the client's first command, whatever the command is.
void ControlConnections::TurnAway(Fd socket, uid_t uid, const absl::Status& status) {
  static_cast<void>(SendReply(socket.get(), status, Reply()));
  const UntrustedSocket ended(std::move(socket), nic_.user(uid).refusals_thread);
  if (!context_.log_budget.Take(uid, Nic::Now())) return;
  LogWarning("a program was turned away: {}", std::string(status.message()));
}

std::vector<const Client*> ControlConnections::Clients() const {
  std::vector<const Client*> all;
  for (const auto& [id, connection] : connections_) all.push_back(&connection->client());
  return all;
}

void ControlConnections::EndStruck() {
  for (const uint32_t id : MappingGuard::Get().TakeStruck()) {
    const auto found = connections_.find(id);
    if (found == connections_.end()) continue;
    ControlConnection& connection = *found->second;
    End(connection);
    if (!context_.log_budget.Take(connection.client().account(), Nic::Now())) continue;
    LogWarning(
        "session {} is ended: registered memory of {} (pid {}) is gone. The program ends, or "
        "has taken the memory away",
        id, connection.client().command_name(), connection.client().peer().pid);
  }
}

// A connection may ask for its end from its own callback, and more than once: it is destroyed after
// the callback.
void ControlConnections::End(ControlConnection& connection) {
  connection.StopHearing();
  if (ended_.empty()) burial_ = context_.loop.After(Nanos(0), [this] { Bury(); });
  if (std::ranges::find(ended_, connection.client().id()) == ended_.end())
    ended_.push_back(connection.client().id());
}

// Many programs may end at once, and one may have many objects: other clients are served in
// between.
void ControlConnections::Bury() {
  const Nanos deadline = Nic::Now() + kBurialTime;
  const auto is_over = [deadline] { return Nic::Now() >= deadline; };
  do {
    const auto first = connections_.find(ended_.front());
    if (!first->second->EndSome(is_over)) break;
    connections_.erase(first);
    ended_.pop_front();
  } while (!ended_.empty() && !is_over());
  if (!ended_.empty()) burial_ = context_.loop.After(Nanos(0), [this] { Bury(); });
}

void ControlConnections::TellOmissions(Nanos now) {
  for (const auto& [uid, lines] : context_.log_budget.TakeOmissions(now)) {
    LogWarning("user {}: {} lines left out here", uid, lines);
  }
}

}  // namespace uroce::nic
