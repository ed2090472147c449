// SPDX-License-Identifier: Apache-2.0
#include "nic/control/sessions.h"

#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <algorithm>
#include <string>
#include <utility>

#include "nic/base/mapping_guard.h"
#include "nic/base/message.h"
#include "nic/base/stranger_socket.h"
#include "nic/control/services.h"
#include "nic/control/session.h"
#include "nic/objects/nic.h"

namespace uroce::nic {
namespace {

// In a turn of the loop, unless one session's end takes longer.
constexpr Nanos kBurialTime{1'000'000};

}  // namespace

Sessions::Sessions(EventLoop& loop, Nic& nic, Services& services)
    : nic_(nic),
      admission_({.total = nic.config().limits.sessions,
                  .per_user = nic.config().limits.sessions_per_user}),
      context_{.loop = loop,
               .nic = nic,
               .neighbours = services.paths.neighbours(),
               .rdma_cm = services.rdma_cm,
               .peers = services.peers,
               .background_tasks = services.tasks,
               .turns = turns_,
               .log_budget = log_budget_,
               .dumps = {.loop = loop,
                         .nic = nic,
                         .turns = turns_,
                         .rdma_cm = services.rdma_cm,
                         .peers = services.peers,
                         .flights = services.flights,
                         .clients = [this] { return Clients(); }},
               .end = [this](Session& session) { End(session); }} {}

Sessions::~Sessions() = default;

void Sessions::Clear() { sessions_.clear(); }

void Sessions::Admit(Fd socket) {
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
void Sessions::TurnAway(Fd socket, uid_t uid, const absl::Status& status) {
  static_cast<void>(SendReply(socket.get(), status, Reply()));
  const StrangerSocket ended(std::move(socket), nic_.user(uid).refusals_thread);
  if (!log_budget_.Take(uid, Nic::Now())) return;
  spdlog::warn("a program was turned away: {}", std::string(status.message()));
}

std::vector<const Client*> Sessions::Clients() const {
  std::vector<const Client*> all;
  for (const auto& [id, session] : sessions_) all.push_back(&session->client());
  return all;
}

void Sessions::EndStruck() {
  for (const uint32_t id : MappingGuard::Get().TakeStruck()) {
    const auto found = sessions_.find(id);
    if (found == sessions_.end()) continue;
    Session& session = *found->second;
    End(session);
    if (!log_budget_.Take(session.client().uid(), Nic::Now())) continue;
    spdlog::warn("session {}: {} (pid {}) has lost registered memory, and is ended", id,
                 session.client().command_name(), session.client().peer().pid);
  }
}

// A session may ask for its end from its own callback, and more than once: it is buried after that.
void Sessions::End(Session& session) {
  session.StopHearing();
  if (ended_.empty()) context_.loop.After(Nanos(0), [this] { Bury(); });
  if (std::ranges::find(ended_, session.client().id()) == ended_.end())
    ended_.push_back(session.client().id());
}

// Many programs may end at once: others are served in between.
void Sessions::Bury() {
  const Nanos deadline = Nic::Now() + kBurialTime;
  do {
    sessions_.erase(ended_.front());
    ended_.pop_front();
  } while (!ended_.empty() && Nic::Now() < deadline);
  if (!ended_.empty()) context_.loop.After(Nanos(0), [this] { Bury(); });
}

void Sessions::TellOmissions() {
  for (const auto& [uid, lines] : log_budget_.TakeOmissions(Nic::Now())) {
    spdlog::warn("user {}: {} lines left out here", uid, lines);
  }
}

}  // namespace uroce::nic
