// SPDX-License-Identifier: Apache-2.0
#include "nic/net/host/neighbour_cache.h"

#include <algorithm>
#include <utility>

namespace uroce::nic {

NeighbourCache::Answer NeighbourCache::Find(const NextHop& hop, Nanos now, Mac& mac) {
  auto it = entries_.find(hop);
  if (it == entries_.end()) {
    if (!MakeRoom()) return Answer::kFull;
    it = entries_.emplace(hop, Entry{}).first;
    Ask(hop, it->second, State::kIncomplete, now);
    return Answer::kAsked;
  }
  Entry& entry = it->second;
  if (entry.state == State::kFailed) Ask(hop, entry, State::kIncomplete, now);
  if (entry.state == State::kStale) Ask(hop, entry, State::kProbe, now);
  if (!entry.has_believed_mac()) return Answer::kAsked;
  mac = *entry.mac;
  return Answer::kKnown;
}

NeighbourCache::Use NeighbourCache::Hold(const NextHop& hop) {
  const auto it = entries_.find(hop);
  if (it == entries_.end()) return nullptr;
  Use use = it->second.use.lock();
  if (use == nullptr) {
    use = std::make_shared<const NextHop>(hop);
    it->second.use = use;
  }
  return use;
}

std::optional<NeighbourCache::State> NeighbourCache::StateOf(const NextHop& hop) const {
  const auto it = entries_.find(hop);
  if (it == entries_.end()) return std::nullopt;
  return it->second.state;
}

void NeighbourCache::OnWord(const NextHop& hop, const Word& word, Nanos now) {
  const auto it = entries_.find(hop);
  if (it == entries_.end()) return;
  Entry& entry = it->second;
  if (!entry.has_believed_mac()) {
    if (!word.mac) return;
    entry.mac = word.mac;
    changes_.push_back({hop, word.mac});
    return Settle(hop, entry, word.solicited ? State::kReachable : State::kStale, now);
  }
  const bool differs = word.mac && *word.mac != *entry.mac;
  if (differs && !word.overrides) {
    if (entry.state == State::kReachable) Settle(hop, entry, State::kStale, now);
    return;
  }
  if (differs) {
    entry.mac = word.mac;
    changes_.push_back({hop, word.mac});
  }
  if (word.solicited) return Settle(hop, entry, State::kReachable, now);
  if (differs) Settle(hop, entry, State::kStale, now);
}

void NeighbourCache::OnLinkUp(Nanos now) {
  for (auto& [hop, entry] : entries_) {
    if (entry.has_believed_mac() && entry.in_use()) Ask(hop, entry, State::kProbe, now);
  }
}

void NeighbourCache::OnDeadline(Nanos now) {
  if (now < deadline_) return;
  deadline_ = kNever;
  for (auto it = entries_.begin(); it != entries_.end();) {
    if (it->second.deadline <= now && !Expire(it->first, it->second, now)) {
      it = entries_.erase(it);
      continue;
    }
    deadline_ = std::min(deadline_, it->second.deadline);
    ++it;
  }
}

std::optional<NeighbourCache::Question> NeighbourCache::PollQuestion() {
  if (questions_.empty()) return std::nullopt;
  const Question question = questions_.front();
  questions_.pop_front();
  return question;
}

std::optional<NeighbourCache::Change> NeighbourCache::PollChange() {
  if (changes_.empty()) return std::nullopt;
  const Change change = changes_.front();
  changes_.pop_front();
  return change;
}

// Removes the entry that would expire first.
bool NeighbourCache::MakeRoom() {
  if (entries_.size() < kMaxEntries) return true;
  auto victim = entries_.end();
  for (auto it = entries_.begin(); it != entries_.end(); ++it) {
    if (it->second.in_use() || !it->second.has_believed_mac()) continue;
    if (victim == entries_.end() || it->second.deadline < victim->second.deadline) victim = it;
  }
  if (victim == entries_.end()) return false;
  entries_.erase(victim);
  return true;
}

void NeighbourCache::Ask(const NextHop& hop, Entry& entry, State state, Nanos now) {
  if (entry.state != state) entry.questions = 0;
  entry.state = state;
  ++entry.questions;
  SetDeadline(entry, now + kRetransmit);
  questions_.push_back({hop, state == State::kProbe ? entry.mac : std::nullopt});
}

// An unconfirmed MAC that is in use is checked at once.
void NeighbourCache::Settle(const NextHop& hop, Entry& entry, State state, Nanos now) {
  if (state == State::kStale && entry.in_use()) return Ask(hop, entry, State::kProbe, now);
  entry.state = state;
  entry.questions = 0;
  SetDeadline(entry, now + kReachable);
}

bool NeighbourCache::Expire(const NextHop& hop, Entry& entry, Nanos now) {
  switch (entry.state) {
    case State::kReachable:
    case State::kStale:
      if (!entry.in_use()) return false;
      Ask(hop, entry, State::kProbe, now);
      return true;
    case State::kProbe:
      // The MAC may have changed: when the unicast questions are used up, all hosts are asked.
      Ask(hop, entry, entry.questions < kQuestions ? State::kProbe : State::kIncomplete, now);
      return true;
    case State::kIncomplete:
      if (entry.questions >= kQuestions) return GiveUp(hop, entry, now);
      Ask(hop, entry, State::kIncomplete, now);
      return true;
    case State::kFailed:
      if (!entry.in_use()) return false;
      Ask(hop, entry, State::kIncomplete, now);
      return true;
  }
  return false;
}

bool NeighbourCache::GiveUp(const NextHop& hop, Entry& entry, Nanos now) {
  changes_.push_back({hop, std::nullopt});
  if (!entry.in_use()) return false;
  entry.state = State::kFailed;
  entry.questions = 0;
  SetDeadline(entry, now + kFailedPause);
  return true;
}

void NeighbourCache::SetDeadline(Entry& entry, Nanos deadline) {
  entry.deadline = deadline;
  deadline_ = std::min(deadline_, deadline);
}

}  // namespace uroce::nic
