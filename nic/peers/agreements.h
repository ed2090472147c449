// SPDX-License-Identifier: Apache-2.0
// Which peers are of this make, and what they know beyond the standard: asks them and answers them.
// Pure.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "nic/base/fair_share.h"
#include "nic/cm/request_limit.h"
#include "nic/cm/source_limit.h"
#include "nic/peers/types.h"

namespace uroce::nic::peers {

struct Config {
  std::vector<uint32_t> features;  ///< Of each device: bits of wire::Capabilities.
  uint64_t instance = 0;           ///< Random, of this daemon.
  uint64_t secret = 0;             ///< Random too.
  uint32_t most_peers = 4096;      ///< Asked at a time.
};

/// One record a path that queue pairs use: strangers make none. An answer counts only if it repeats
/// the random number of a question, so nobody who does not see our packets can speak for a peer; a
/// question of the peer's is a reason to ask it, and no more. One thread. `now` never goes back.
/// After any call: poll, and ask NextDeadline() again.
class Agreements {
 public:
  using Random = uint64_t (*)();

  /// A peer of whom nothing is known, or that just had agreed, is asked three times; then it is
  /// silent.
  static constexpr int kTries = 3;
  static constexpr Nanos kFirstWaits[kTries] = {Nanos(10'000'000), Nanos(40'000'000),
                                                Nanos(160'000'000)};
  static constexpr Nanos kLaterWaits[kTries] = {Nanos(200'000'000), Nanos(400'000'000),
                                                Nanos(800'000'000)};
  /// A peer that agreed is asked again so long after its answer.
  static constexpr Nanos kInterval{2'000'000'000};
  /// A silent one, once each time, after a pause that doubles from the first to the longest. So is
  /// one that refused or does not agree, after the longest.
  static constexpr Nanos kFirstPause{4'000'000'000};
  static constexpr Nanos kLongestPause{64'000'000'000};
  /// What makes it worth to ask earlier (a new connection, a question of the peer) does not make us
  /// ask more often than this: one that has answered, and one that has not.
  static constexpr Nanos kShortestInterval{1'000'000'000};
  static constexpr Nanos kShortestPause{10'000'000'000};
  /// What a peer said before nobody used the path is believed for so long after its answer.
  static constexpr Nanos kTrust{4'000'000'000};
  /// A record that nobody uses is kept for so long after the last question.
  static constexpr Nanos kKeep{64'000'000'000};
  static constexpr uint32_t kQuestionsPerSecond = 1000;
  static constexpr uint32_t kQuestionBurst = 64;
  /// Answers, to one source.
  static constexpr uint32_t kAnswersPerSecond = 100;
  static constexpr uint32_t kAnswerBurst = 8;

  Agreements(Config config, Random random);

  /// A queue pair of a program of `user` is to use the path. Null: so many are in use, or so many
  /// by this user, that this one goes without.
  Holder Use(const Key& key, uint32_t user, Nanos now);
  void OnMad(const Key& from, std::span<const uint8_t> bytes, Nanos now);
  void OnDeadline(Nanos now);

  bool PollDatagram(Datagram& datagram);
  bool PollChange(Change& change);
  Nanos NextDeadline() const { return due_.empty() ? kNever : due_.begin()->first; }
  const Counters& counters() const { return counters_; }
  size_t size() const { return records_.size(); }

 private:
  struct Record {
    uint32_t user = 0;  ///< Who was the first to use the path.
    std::shared_ptr<Agreement> agreement = std::make_shared<Agreement>();
    uint64_t transaction_id = 0;  ///< 0: no answer is awaited.
    int asked = 0;                ///< Times, in the inquiry under way; 0: none is.
    int tries = kTries;           ///< Of the next inquiry.
    Nanos asked_at{0};
    Nanos due = kNever;
    Nanos pause = kFirstPause;

    bool in_use() const { return agreement.use_count() > 1; }
  };

  void Answer(const Key& to, uint64_t transaction_id, Nanos now);
  void OnQuestion(const Key& from, const wire::CapabilitiesMad& mad, Nanos now);
  void OnAnswer(const Key& from, const wire::CapabilitiesMad& mad, Nanos now);
  void TakeCapabilities(Record& record, const wire::Capabilities& peer, Nanos now);
  void Act(Record& record, Nanos now);
  void Ask(Record& record, Nanos now);
  void GiveUp(Record& record, Nanos now);
  void Rest(Record& record, Nanos now);
  /// Asks before it is due, but not sooner than `pause` after the last question.
  void Hasten(Record& record, Nanos pause, Nanos now);
  void Enter(Record& record, State state, const wire::Capabilities& peer);
  void Schedule(Record& record, Nanos due);
  void Forget(const Key& key);
  bool MakeRoom(uint32_t user);

  const Config config_;
  const Random random_;
  std::map<Key, Record> records_;
  FairShare<uint32_t> shares_;  ///< Of `records_`, by user.
  std::set<std::pair<Nanos, Key>> due_;
  cm::SourceLimit answers_;
  cm::RequestLimit questions_{kQuestionsPerSecond, kQuestionBurst};
  std::deque<Datagram> datagrams_;
  std::deque<Change> changes_;
  Counters counters_;
};

}  // namespace uroce::nic::peers
