// SPDX-License-Identifier: Apache-2.0
// The MACs of the neighbours of one host. The cache asks for a MAC, uses the answer for a while,
// and asks again (RFC 4861, 7.3; for IPv4 likewise, as RFC 1122, 2.3.2.1 requires). Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>

#include "nic/net/route.h"
#include "pipeline/base/types.h"

namespace uroce::nic {

/// An entry exists only because this host asked for it, never because of a received packet: a flood
/// of ARP from unknown hosts cannot fill the cache. Expired entries are removed unless they are in
/// use: those are asked for again, and keep their last MAC while there is no answer.
class NeighbourCache {
 public:
  static constexpr size_t kMaxEntries = 4096;
  static constexpr uint32_t kQuestions = 3;  ///< MAX_MULTICAST_SOLICIT, MAX_UNICAST_SOLICIT.
  /// Between two questions. RFC 4861 says 1 s; programs wait up to 1.5 s for all three.
  static constexpr Nanos kRetransmit{400'000'000};
  static constexpr Nanos kReachable{30'000'000'000};
  /// The pause before a silent neighbour that is in use is asked for again.
  static constexpr Nanos kFailedPause{3'000'000'000};

  enum class State : uint8_t {
    kIncomplete,  ///< Asked for; no answer yet.
    kReachable,   ///< It answered not long ago.
    kStale,       ///< The MAC is kept, and checked once it is needed.
    kProbe,       ///< The MAC is used while the neighbour is asked to confirm it.
    kFailed,      ///< It does not answer.
  };
  /// Keeps an entry in the cache while the object lives.
  using Use = std::shared_ptr<const NextHop>;

  // ---- the host's own questions ----
  enum class Answer : uint8_t { kKnown, kAsked, kFull };
  /// Returns the MAC of a neighbour, or starts a search that ends in a Change. kFull: every entry
  /// is in use or being asked for.
  Answer Find(const NextHop& hop, Nanos now, Mac& mac);
  /// Null when there is no such entry.
  Use Hold(const NextHop& hop);
  std::optional<State> StateOf(const NextHop& hop) const;
  size_t size() const { return entries_.size(); }

  // ---- events in ----
  /// A neighbour says that it has `mac`. `solicited`: it answered us, so it exists and hears us.
  /// `overrides`: `mac` replaces a known MAC (RFC 4861, 7.2.5). `mac` absent: unchanged.
  struct Word {
    std::optional<Mac> mac;
    bool solicited = false;
    bool overrides = true;
  };
  void OnWord(const NextHop& hop, const Word& word, Nanos now);
  /// The link has come back: neighbours in use are asked again.
  void OnLinkUp(Nanos now);
  void OnDeadline(Nanos now);
  Nanos NextDeadline() const { return deadline_; }

  // ---- outputs ----
  /// A question to send to `mac`, or to all hosts if it is absent.
  struct Question {
    NextHop hop;
    std::optional<Mac> mac;
  };
  std::optional<Question> PollQuestion();
  /// A new or changed MAC; without `mac` the neighbour does not answer any more.
  struct Change {
    NextHop hop;
    std::optional<Mac> mac;
  };
  std::optional<Change> PollChange();

 private:
  struct Entry {
    State state = State::kIncomplete;
    std::optional<Mac> mac;
    uint32_t questions = 0;  ///< Sent in this state.
    Nanos deadline = kNever;
    std::weak_ptr<const NextHop> use;
    bool in_use() const { return !use.expired(); }
    bool has_believed_mac() const {
      return state == State::kReachable || state == State::kStale || state == State::kProbe;
    }
  };
  using Entries = std::map<NextHop, Entry>;

  bool MakeRoom();
  void Ask(const NextHop& hop, Entry& entry, State state, Nanos now);
  void Settle(const NextHop& hop, Entry& entry, State state, Nanos now);
  /// Returns false when the entry has to be removed.
  bool Expire(const NextHop& hop, Entry& entry, Nanos now);
  bool GiveUp(const NextHop& hop, Entry& entry, Nanos now);
  void SetDeadline(Entry& entry, Nanos deadline);

  Entries entries_;
  Nanos deadline_ = kNever;  ///< Not later than the deadline of any entry.
  std::deque<Question> questions_;
  std::deque<Change> changes_;
};

}  // namespace uroce::nic
