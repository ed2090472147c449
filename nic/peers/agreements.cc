// SPDX-License-Identifier: Apache-2.0
#include "nic/peers/agreements.h"

#include <algorithm>
#include <utility>

namespace uroce::nic::peers {

using wire::CapabilitiesMad;
using wire::CapabilitiesResult;
using wire::MadMethod;

Agreements::Agreements(Config config, Random random)
    : config_(std::move(config)),
      random_(random),
      shares_(config_.most_peers),
      answers_(config_.secret, kAnswersPerSecond, kAnswerBurst) {
  for (uint32_t device = 0; device < config_.features.size(); ++device) {
    SetFeatures(device, config_.features[device]);
  }
}

uint32_t Agreements::FeaturesOf(uint32_t device) const {
  const auto found = features_.find(device);
  return found == features_.end() ? 0 : found->second;
}

Holder Agreements::Use(const Key& key, uint32_t user, Nanos now) {
  auto found = records_.find(key);
  if (found == records_.end()) {
    if (!MakeRoom(user)) {
      ++counters_.no_room;
      return nullptr;
    }
    found = records_.try_emplace(key).first;
    found->second.user = user;
    found->second.agreement->key = key;
    Schedule(found->second, now);
    return found->second.agreement;
  }
  Record& record = found->second;
  const Agreement& agreement = *record.agreement;
  const bool is_old = !record.in_use() && now - agreement.heard_at > kTrust;
  if (is_old && agreement.state == State::kAnswered) record.agreement->state = State::kUnknown;
  const bool answers = agreement.state == State::kAnswered || agreement.state == State::kUnknown;
  Hasten(record, answers ? kShortestInterval : kShortestPause, now);
  return record.agreement;
}

void Agreements::OnMad(const Key& from, std::span<const uint8_t> bytes, Nanos now) {
  CapabilitiesMad mad;
  if (wire::DecodeCapabilities(bytes, mad) != CapabilitiesResult::kOk) {
    ++counters_.malformed;
    return;
  }
  mad.method == MadMethod::kGet ? OnQuestion(from, mad, now) : OnAnswer(from, mad, now);
}

void Agreements::OnQuestion(const Key& from, const CapabilitiesMad& mad, Nanos now) {
  ++counters_.questions_received;
  Answer(from, mad.transaction_id, now);
  const auto found = records_.find(from);
  if (found == records_.end() || !found->second.in_use()) return;
  const Agreement& agreement = *found->second.agreement;
  const bool is_news = agreement.state != State::kAnswered || !(agreement.peer == mad.capabilities);
  if (is_news) Hasten(found->second, kShortestInterval, now);
}

void Agreements::Answer(const Key& to, uint64_t transaction_id, Nanos now) {
  if (!answers_.Take(to.remote, now)) {
    ++counters_.over_rate;
    return;
  }
  ++counters_.answers_sent;
  datagrams_.push_back({to,
                        {.method = MadMethod::kGetResponse,
                         .transaction_id = transaction_id,
                         .capabilities = {FeaturesOf(to.device), config_.instance}}});
}

void Agreements::OnAnswer(const Key& from, const CapabilitiesMad& mad, Nanos now) {
  const auto found = records_.find(from);
  const bool is_awaited = found != records_.end() && found->second.transaction_id != 0 &&
                          found->second.transaction_id == mad.transaction_id;
  if (!is_awaited) {
    ++counters_.unmatched;
    return;
  }
  Record& record = found->second;
  record.transaction_id = 0;
  record.asked = 0;
  if (mad.status == 0) return TakeCapabilities(record, mad.capabilities, now);
  ++counters_.refusals_received;
  Enter(record, State::kRefused, {});
  record.tries = 1;
  record.pause = kLongestPause;
  Schedule(record, now + kLongestPause);
}

void Agreements::TakeCapabilities(Record& record, const wire::Capabilities& peer, Nanos now) {
  ++counters_.answers_received;
  Agreement& agreement = *record.agreement;
  const uint64_t before = agreement.peer.instance;
  if (before != 0 && before != peer.instance) ++agreement.restarts;
  agreement.heard_at = now;
  Enter(record, State::kAnswered, peer);
  record.tries = kTries;
  const bool agrees = peer.selective_repeat();
  record.pause = agrees ? kFirstPause : kLongestPause;
  Schedule(record, now + (agrees ? kInterval : kLongestPause));
}

void Agreements::OnDeadline(Nanos now) {
  while (NextDeadline() <= now) Act(records_.at(due_.begin()->second), now);
}

void Agreements::Act(Record& record, Nanos now) {
  if (!record.in_use()) return Rest(record, now);
  if (record.asked > 0 && record.asked == record.tries) return GiveUp(record, now);
  Ask(record, now);
}

void Agreements::Ask(Record& record, Nanos now) {
  if (!questions_.Take(now)) return Schedule(record, now + kFirstWaits[0]);
  const Agreement& agreement = *record.agreement;
  if (record.asked == 0) record.transaction_id = random_() | 1;
  const bool has_answered = agreement.state == State::kAnswered;
  const Nanos wait = (has_answered ? kLaterWaits : kFirstWaits)[record.asked];
  ++record.asked;
  record.asked_at = now;
  Schedule(record, now + wait);
  ++counters_.questions_sent;
  datagrams_.push_back({agreement.key,
                        {.method = MadMethod::kGet,
                         .transaction_id = record.transaction_id,
                         .capabilities = {FeaturesOf(agreement.key.device), config_.instance}}});
}

// A late answer to the last question still counts.
void Agreements::GiveUp(Record& record, Nanos now) {
  if (record.agreement->selective_repeat()) ++counters_.fell_silent;
  Enter(record, State::kSilent, record.agreement->peer);
  record.asked = 0;
  record.tries = 1;
  Schedule(record, now + record.pause);
  record.pause = std::min(record.pause * 2, kLongestPause);
}

void Agreements::Rest(Record& record, Nanos now) {
  record.asked = 0;
  const Nanos end = record.asked_at + kKeep;
  if (now < end) return Schedule(record, end);
  Forget(record.agreement->key);
}

void Agreements::Hasten(Record& record, Nanos pause, Nanos now) {
  if (record.asked != 0) return;
  const Nanos earliest = std::max(now, record.asked_at + pause);
  if (earliest >= record.due) return;
  record.tries = kTries;
  Schedule(record, earliest);
}

void Agreements::Enter(Record& record, State state, const wire::Capabilities& peer) {
  Agreement& agreement = *record.agreement;
  const bool before = agreement.selective_repeat();
  agreement.state = state;
  if (state == State::kAnswered) agreement.peer = peer;
  const bool after = agreement.selective_repeat();
  if (before != after) changes_.push_back({agreement.key, after});
}

void Agreements::Schedule(Record& record, Nanos due) {
  const Key& key = record.agreement->key;
  due_.erase({record.due, key});
  record.due = due;
  due_.insert({due, key});
}

void Agreements::Forget(const Key& key) {
  const auto found = records_.find(key);
  due_.erase({found->second.due, key});
  shares_.Return(found->second.user);
  records_.erase(found);
}

// Records that are not in use are removed first.
bool Agreements::MakeRoom(uint32_t user) {
  if (shares_.Take(user)) return true;
  std::vector<Key> unused;
  for (const auto& [key, record] : records_) {
    if (!record.in_use()) unused.push_back(key);
  }
  for (const Key& key : unused) Forget(key);
  return shares_.Take(user);
}

bool Agreements::PollDatagram(Datagram& datagram) {
  if (datagrams_.empty()) return false;
  datagram = datagrams_.front();
  datagrams_.pop_front();
  return true;
}

bool Agreements::PollChange(Change& change) {
  if (changes_.empty()) return false;
  change = changes_.front();
  changes_.pop_front();
  return true;
}

}  // namespace uroce::nic::peers
