// SPDX-License-Identifier: Apache-2.0
#include "nic/peers/capability_negotiation.h"

#include <algorithm>
#include <utility>

namespace uroce::nic::peers {

using wire::CapabilitiesMad;
using wire::CapabilitiesResult;
using wire::MadMethod;

CapabilityNegotiation::CapabilityNegotiation(Config config, Random random)
    : config_(std::move(config)),
      random_(random),
      shares_(config_.most_peers),
      answers_(config_.secret, kAnswersPerSecond, kAnswerBurst) {
  for (uint32_t device = 0; device < config_.features.size(); ++device) {
    SetFeatures(device, config_.features[device]);
  }
}

uint32_t CapabilityNegotiation::FeaturesOf(uint32_t device) const {
  const auto found = features_.find(device);
  return found == features_.end() ? 0 : found->second;
}

Holder CapabilityNegotiation::Use(const Key& key, uint32_t user, Nanos now) {
  auto found = records_.find(key);
  if (found == records_.end()) {
    if (!MakeRoom(user)) {
      ++counters_.no_room;
      return nullptr;
    }
    found = records_.try_emplace(key).first;
    found->second.user = user;
    found->second.capabilities->key = key;
    Schedule(found->second, now);
    return found->second.capabilities;
  }
  Record& record = found->second;
  const PeerCapabilities& capabilities = *record.capabilities;
  const bool is_old = !record.in_use() && now - capabilities.heard_at > kTrust;
  if (is_old && capabilities.state == State::kAnswered)
    record.capabilities->state = State::kUnknown;
  const bool answers =
      capabilities.state == State::kAnswered || capabilities.state == State::kUnknown;
  Hasten(record, answers ? kShortestInterval : kShortestPause, now);
  return record.capabilities;
}

void CapabilityNegotiation::OnMad(const Key& from, std::span<const uint8_t> bytes, Nanos now) {
  CapabilitiesMad mad;
  if (wire::DecodeCapabilities(bytes, mad) != CapabilitiesResult::kOk) {
    ++counters_.malformed;
    return;
  }
  mad.method == MadMethod::kGet ? OnQuestion(from, mad, now) : OnAnswer(from, mad, now);
}

void CapabilityNegotiation::OnQuestion(const Key& from, const CapabilitiesMad& mad, Nanos now) {
  ++counters_.questions_received;
  Answer(from, mad.transaction_id, now);
  const auto found = records_.find(from);
  if (found == records_.end() || !found->second.in_use()) return;
  const PeerCapabilities& capabilities = *found->second.capabilities;
  const bool is_news =
      capabilities.state != State::kAnswered || !(capabilities.peer == mad.capabilities);
  if (is_news) Hasten(found->second, kShortestInterval, now);
}

void CapabilityNegotiation::Answer(const Key& to, uint64_t transaction_id, Nanos now) {
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

void CapabilityNegotiation::OnAnswer(const Key& from, const CapabilitiesMad& mad, Nanos now) {
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

void CapabilityNegotiation::TakeCapabilities(Record& record, const wire::Capabilities& peer,
                                             Nanos now) {
  ++counters_.answers_received;
  PeerCapabilities& capabilities = *record.capabilities;
  const uint64_t before = capabilities.peer.instance;
  if (before != 0 && before != peer.instance) ++capabilities.restarts;
  capabilities.heard_at = now;
  Enter(record, State::kAnswered, peer);
  record.tries = kTries;
  const bool agrees = peer.selective_repeat();
  record.pause = agrees ? kFirstPause : kLongestPause;
  Schedule(record, now + (agrees ? kInterval : kLongestPause));
}

void CapabilityNegotiation::OnDeadline(Nanos now) {
  while (NextDeadline() <= now) Act(records_.at(due_.begin()->second), now);
}

void CapabilityNegotiation::Act(Record& record, Nanos now) {
  if (!record.in_use()) return Rest(record, now);
  if (record.asked > 0 && record.asked == record.tries) return GiveUp(record, now);
  Ask(record, now);
}

void CapabilityNegotiation::Ask(Record& record, Nanos now) {
  if (!questions_.Take(now)) return Schedule(record, now + kFirstWaits[0]);
  const PeerCapabilities& capabilities = *record.capabilities;
  if (record.asked == 0) record.transaction_id = random_() | 1;
  const bool has_answered = capabilities.state == State::kAnswered;
  const Nanos wait = (has_answered ? kLaterWaits : kFirstWaits)[record.asked];
  ++record.asked;
  record.asked_at = now;
  Schedule(record, now + wait);
  ++counters_.questions_sent;
  datagrams_.push_back({capabilities.key,
                        {.method = MadMethod::kGet,
                         .transaction_id = record.transaction_id,
                         .capabilities = {FeaturesOf(capabilities.key.device), config_.instance}}});
}

// A late answer to the last question still counts.
void CapabilityNegotiation::GiveUp(Record& record, Nanos now) {
  if (record.capabilities->selective_repeat()) ++counters_.fell_silent;
  Enter(record, State::kSilent, record.capabilities->peer);
  record.asked = 0;
  record.tries = 1;
  Schedule(record, now + record.pause);
  record.pause = std::min(record.pause * 2, kLongestPause);
}

void CapabilityNegotiation::Rest(Record& record, Nanos now) {
  record.asked = 0;
  const Nanos end = record.asked_at + kKeep;
  if (now < end) return Schedule(record, end);
  Forget(record.capabilities->key);
}

void CapabilityNegotiation::Hasten(Record& record, Nanos pause, Nanos now) {
  if (record.asked != 0) return;
  const Nanos earliest = std::max(now, record.asked_at + pause);
  if (earliest >= record.due) return;
  record.tries = kTries;
  Schedule(record, earliest);
}

void CapabilityNegotiation::Enter(Record& record, State state, const wire::Capabilities& peer) {
  PeerCapabilities& capabilities = *record.capabilities;
  const bool before = capabilities.selective_repeat();
  capabilities.state = state;
  if (state == State::kAnswered) capabilities.peer = peer;
  const bool after = capabilities.selective_repeat();
  if (before != after) changes_.push_back({capabilities.key, after});
}

void CapabilityNegotiation::Schedule(Record& record, Nanos due) {
  const Key& key = record.capabilities->key;
  due_.erase({record.due, key});
  record.due = due;
  due_.insert({due, key});
}

void CapabilityNegotiation::Forget(const Key& key) {
  const auto found = records_.find(key);
  due_.erase({found->second.due, key});
  shares_.Return(found->second.user);
  records_.erase(found);
}

// Records that are not in use are removed first.
bool CapabilityNegotiation::MakeRoom(uint32_t user) {
  if (shares_.Take(user)) return true;
  std::vector<Key> unused;
  for (const auto& [key, record] : records_) {
    if (!record.in_use()) unused.push_back(key);
  }
  for (const Key& key : unused) Forget(key);
  return shares_.Take(user);
}

bool CapabilityNegotiation::PollDatagram(Datagram& datagram) {
  if (datagrams_.empty()) return false;
  datagram = datagrams_.front();
  datagrams_.pop_front();
  return true;
}

bool CapabilityNegotiation::PollChange(Change& change) {
  if (changes_.empty()) return false;
  change = changes_.front();
  changes_.pop_front();
  return true;
}

}  // namespace uroce::nic::peers
