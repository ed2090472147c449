// SPDX-License-Identifier: Apache-2.0
// Finds out which peers run this software and what they support, by questions and answers that may
// be lost or forged. Pure.
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "pipeline/base/limits.h"
#include "pipeline/base/types.h"
#include "pipeline/wire/gsi.h"

namespace uroce::nic::peers {

/// A path: an address of ours and one of a peer.
struct Key {
  uint32_t device = 0;   ///< Index among the daemon's devices.
  uint16_t vlan_id = 0;  ///< 0: untagged.
  Gid local;
  Gid remote;
  friend auto operator<=>(const Key&, const Key&) = default;
};

/// The result of the last inquiry.
enum class State : uint8_t {
  kUnknown,   ///< No inquiry has ended, or its result is too old.
  kAnswered,  ///< The peer runs this software, and told its capabilities.
  kRefused,   ///< It answered with an error status: it runs other software.
  kSilent,    ///< It does not answer.
};

/// What is known of the NIC at the other end of a path. `CapabilityNegotiation` updates it.
struct PeerCapabilities {
  Key key;
  State state = State::kUnknown;
  wire::Capabilities peer;  ///< From its last answer.
  Nanos heard_at{0};        ///< The time of that answer.
  uint32_t restarts = 0;    ///< How often another instance than before answered.

  bool selective_repeat() const { return state == State::kAnswered && peer.selective_repeat(); }
};
/// The peer is asked while a holder exists.
using Holder = std::shared_ptr<const PeerCapabilities>;

/// A MAD to send.
struct Datagram {
  Key key;
  wire::CapabilitiesMad mad;
};

/// A change that live queue pairs on the path must be told.
struct Change {
  Key key;
  bool selective_repeat = false;
};

struct Counters {
  uint64_t questions_sent = 0;
  uint64_t questions_received = 0;
  uint64_t answers_sent = 0;
  uint64_t answers_received = 0;
  uint64_t refusals_received = 0;  ///< Answers with an error status.
  uint64_t unmatched = 0;          ///< Answers without an open question of ours.
  uint64_t malformed = 0;
  uint64_t over_rate = 0;    ///< Questions not answered: too many arrived.
  uint64_t no_room = 0;      ///< Paths whose peers are not asked: there are too many.
  uint64_t fell_silent = 0;  ///< Peers that had agreed and have stopped answering.
};

struct Config {
  /// Of the devices 0, 1 ...: bits of wire::Capabilities.
  std::vector<uint32_t> features;
  uint64_t instance = 0;       ///< Random; identifies this daemon process.
  uint64_t secret = 0;         ///< Random.
  uint32_t most_peers = 4096;  ///< The most paths with a record.
};

/// Keeps one record per path that queue pairs use: packets of unknown hosts make none. An answer
/// counts only if it repeats the random number of a question, so a host that does not see our
/// packets cannot speak for a peer. A question from a peer is only a reason to ask it. One thread.
/// `now` never goes back. After any call: poll, and call NextDeadline() again.
class CapabilityNegotiation {
 public:
  using Random = uint64_t (*)();

  /// A peer that is unknown, or that had agreed until now, is asked three times; without an answer
  /// it counts as silent.
  static constexpr int kTries = 3;
  static constexpr Nanos kFirstWaits[kTries] = {Nanos(10'000'000), Nanos(40'000'000),
                                                Nanos(160'000'000)};
  static constexpr Nanos kLaterWaits[kTries] = {Nanos(200'000'000), Nanos(400'000'000),
                                                Nanos(800'000'000)};
  /// The time after its answer at which a peer that agreed is asked again.
  static constexpr Nanos kInterval{2'000'000'000};
  /// The pause before a silent peer is asked again, once each time; it doubles from the first to
  /// the longest. A peer that refused or does not agree is asked again after the longest pause.
  static constexpr Nanos kFirstPause{4'000'000'000};
  static constexpr Nanos kLongestPause{64'000'000'000};
  /// A new connection or a question of the peer makes us ask earlier, but not at shorter intervals
  /// than these: for a peer that has answered, and for one that has not.
  static constexpr Nanos kShortestInterval{1'000'000'000};
  static constexpr Nanos kShortestPause{10'000'000'000};
  /// After a path was unused, its peer's last answer is trusted for this time since that answer.
  static constexpr Nanos kTrust{4'000'000'000};
  /// A record of an unused path is kept for this time after the last question.
  static constexpr Nanos kKeep{64'000'000'000};
  static constexpr uint32_t kQuestionsPerSecond = 1000;
  static constexpr uint32_t kQuestionBurst = 64;
  /// Limits of answers to one source.
  static constexpr uint32_t kAnswersPerSecond = 100;
  static constexpr uint32_t kAnswerBurst = 8;

  CapabilityNegotiation(Config config, Random random);

  /// What a device offers from now on; a device of which nothing was said offers nothing.
  void SetFeatures(uint32_t device, uint32_t features) { features_[device] = features; }
  void ForgetDevice(uint32_t device) { features_.erase(device); }

  /// Registers that a queue pair of a program of `user` will use the path. Null: too many paths are
  /// in use, or too many by this user; then nothing is agreed.
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
    uint32_t user = 0;  ///< The user who used the path first.
    std::shared_ptr<PeerCapabilities> capabilities = std::make_shared<PeerCapabilities>();
    uint64_t transaction_id = 0;  ///< 0: no answer is expected.
    int asked = 0;                ///< Questions sent in the current inquiry; 0: there is none.
    int tries = kTries;           ///< For the next inquiry.
    Nanos asked_at{0};
    Nanos due = kNever;
    Nanos pause = kFirstPause;

    bool in_use() const { return capabilities.use_count() > 1; }
  };

  uint32_t FeaturesOf(uint32_t device) const;
  void Answer(const Key& to, uint64_t transaction_id, Nanos now);
  void OnQuestion(const Key& from, const wire::CapabilitiesMad& mad, Nanos now);
  void OnAnswer(const Key& from, const wire::CapabilitiesMad& mad, Nanos now);
  void TakeCapabilities(Record& record, const wire::Capabilities& peer, Nanos now);
  void Act(Record& record, Nanos now);
  void Ask(Record& record, Nanos now);
  void GiveUp(Record& record, Nanos now);
  void Rest(Record& record, Nanos now);
  /// Asks before the deadline, but at least `pause` after the last question.
  void Hasten(Record& record, Nanos pause, Nanos now);
  void Enter(Record& record, State state, const wire::Capabilities& peer);
  void Schedule(Record& record, Nanos due);
  void Forget(const Key& key);
  bool MakeRoom(uint32_t user);

  const Config config_;
  const Random random_;
  std::map<uint32_t, uint32_t> features_;  ///< By the index of the device.
  std::map<Key, Record> records_;
  FairShare<uint32_t> shares_;  ///< Of the entries in `records_`, by user.
  std::set<std::pair<Nanos, Key>> due_;
  SourceLimit answers_;
  TokenBucket questions_{kQuestionsPerSecond, kQuestionBurst};
  std::deque<Datagram> datagrams_;
  std::deque<Change> changes_;
  Counters counters_;
};

}  // namespace uroce::nic::peers
