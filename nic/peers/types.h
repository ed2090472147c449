// SPDX-License-Identifier: Apache-2.0
// Inputs and outputs of the agreements with peers, as values. Pure.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>

#include "pipeline/base/types.h"
#include "pipeline/wire/capabilities_mad.h"

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

/// What is known of the NIC at the other end of a path. `Agreements` updates it.
struct Agreement {
  Key key;
  State state = State::kUnknown;
  wire::Capabilities peer;  ///< From its last answer.
  Nanos heard_at{0};        ///< The time of that answer.
  uint32_t restarts = 0;    ///< How often another instance than before answered.

  bool selective_repeat() const { return state == State::kAnswered && peer.selective_repeat(); }
};
/// The peer is asked while a holder exists.
using Holder = std::shared_ptr<const Agreement>;

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

}  // namespace uroce::nic::peers
