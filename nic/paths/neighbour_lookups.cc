// SPDX-License-Identifier: Apache-2.0
#include "nic/paths/neighbour_lookups.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "nic/net/address.h"

namespace uroce::nic {

NeighbourLookups::~NeighbourLookups() {
  timers_.Cancel(delivery_);
  timers_.Cancel(sweep_);
  for (const auto& [path, asked] : asked_) neighbours_.Cancel(asked.lookup);
}

NeighbourLookups::Id NeighbourLookups::Start(const PathKey& path, uint32_t user, Nanos timeout,
                                             Handler handler) {
  const Id id = ++last_id_;
  waiters_[id] = {path, timers_.Now() + timeout, std::move(handler)};
  if (IsMulticast(path.destination)) {
    Answer(id, absl::OkStatus());
  } else if (const std::optional<absl::StatusOr<Mac>> at_once = neighbours_.Find(path)) {
    Answer(id, at_once->status());
  } else {
    Ask(path, user, id);
  }
  return id;
}

void NeighbourLookups::Ask(const PathKey& path, uint32_t user, Id id) {
  const bool is_new = !asked_.contains(path);
  if (is_new && !shares_.Take(user)) {
    return Answer(id, absl::DeadlineExceededError(
                          absl::StrCat(asked_.size(), " other neighbours are being asked for, ",
                                       shares_.HeldBy(user), " by user ", user)));
  }
  Asked& asked = asked_[path];
  asked.waiters.insert(id);
  deadlines_.insert({waiters_.at(id).deadline, id});
  SweepLater();
  if (!is_new) return;
  asked.user = user;
  asked.lookup = neighbours_.Resolve(
      path, [this, path](const absl::StatusOr<Mac>& mac) { OnAnswer(path, mac.status()); },
      kPatience);
}

void NeighbourLookups::OnAnswer(const PathKey& path, const absl::Status& status) {
  const std::set<Id> waiters = std::move(asked_.at(path).waiters);
  shares_.Return(asked_.at(path).user);
  asked_.erase(path);
  for (const Id id : waiters) {
    deadlines_.erase({waiters_.at(id).deadline, id});
    Answer(id, status);
  }
}

void NeighbourLookups::Answer(Id id, const absl::Status& status) {
  waiters_.at(id).answered = true;
  answers_[id] = status;
  if (delivery_ == 0) delivery_ = timers_.After(Nanos(0), [this] { Deliver(); });
}

// A handler may start and cancel other lookups.
void NeighbourLookups::Deliver() {
  delivery_ = 0;
  while (!answers_.empty()) {
    const auto [id, status] = *answers_.begin();
    answers_.erase(id);
    const Handler handler = std::move(waiters_.at(id).handler);
    waiters_.erase(id);
    handler(status);
    if (delivery_ != 0) return;
  }
}

void NeighbourLookups::Cancel(Id id) {
  const auto found = waiters_.find(id);
  if (found == waiters_.end()) return;
  if (found->second.answered) {
    answers_.erase(id);
  } else {
    Leave(found->second, id);
  }
  waiters_.erase(found);
}

void NeighbourLookups::Leave(const Waiter& waiter, Id id) {
  deadlines_.erase({waiter.deadline, id});
  Asked& asked = asked_.at(waiter.path);
  asked.waiters.erase(id);
  if (!asked.waiters.empty()) return;
  neighbours_.Cancel(asked.lookup);
  shares_.Return(asked.user);
  asked_.erase(waiter.path);
}

void NeighbourLookups::SweepLater() {
  if (sweep_ == 0) sweep_ = timers_.After(kSweep, [this] { Sweep(); });
}

void NeighbourLookups::Sweep() {
  sweep_ = 0;
  const Nanos now = timers_.Now();
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const Id id = deadlines_.begin()->second;
    const Waiter& waiter = waiters_.at(id);
    Leave(waiter, id);
    Answer(id, absl::DeadlineExceededError(absl::StrCat(FormatAddress(waiter.path.destination),
                                                        " does not answer on the network")));
  }
  if (!deadlines_.empty()) SweepLater();
}

}  // namespace uroce::nic
