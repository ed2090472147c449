// SPDX-License-Identifier: Apache-2.0
// Inputs and outputs of the agreements with peers, as values. Pure.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>

#include "pipeline/base/types.h"
#include "pipeline/wire/capabilities_mad.h"

namespace uroce::nic::peers {

/// An address of ours and one of a peer.
struct Key {
  uint32_t device = 0;   ///< Index among the daemon's.
  uint16_t vlan_id = 0;  ///< 0: untagged.
  Gid local;
  Gid remote;
  friend auto operator<=>(const Key&, const Key&) = default;
};

/// What the last inquiry came to.
enum class State : uint8_t {
  kUnknown,   ///< None has ended yet, or what was known is too old.
  kAnswered,  ///< The peer is of this make, and said what it knows.
  kRefused,   ///< It answered by an error status: it is of another make.
  kSilent,    ///< It does not answer.
};

/// What is known of the NIC at the other end of a path. `Agreements` changes it.
struct Agreement {
  Key key;
  State state = State::kUnknown;
  wire::Capabilities peer;  ///< Of its last answer.
  Nanos heard_at{0};        ///< When that came.
  uint32_t restarts = 0;    ///< Times that it answered as another instance than before.

  bool selective_repeat() const { return state == State::kAnswered && peer.selective_repeat(); }
};
/// The peer is asked for as long as somebody holds one.
using Holder = std::shared_ptr<const Agreement>;

/// A MAD to send.
struct Datagram {
  Key key;
  wire::CapabilitiesMad mad;
};

/// What live queue pairs on the path are to be told.
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
  uint64_t unmatched = 0;          ///< Answers to no question of ours, or to one answered before.
  uint64_t malformed = 0;
  uint64_t over_rate = 0;    ///< Questions not answered: too many came.
  uint64_t no_room = 0;      ///< Paths that no peer is asked on: there are too many.
  uint64_t fell_silent = 0;  ///< Peers that had agreed and do not answer any more.
};

}  // namespace uroce::nic::peers
