// SPDX-License-Identifier: Apache-2.0
// Records what a program did with one end of a communication, and which events it got, and checks
// that both are plausible at this end and together with the other end.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nic/cm/types.h"

namespace uroce::sim::cm {

using nic::cm::CommId;
using nic::cm::EventKind;

/// One end, from its first call or event until its program destroys it.
struct End {
  uint32_t node = 0;
  CommId id;
  bool active = false;
  // What the program did.
  bool accepted = false;
  bool rejected = false;
  bool established = false;  ///< It sent the RTU, or received it.
  bool destroyed = false;
  bool leaves = false;  ///< Disconnected or destroyed it before it learned of an end.
  // Which events the program got.
  bool replied = false;
  bool was_rejected = false;
  bool unreachable = false;
  bool disconnected = false;
  bool timed_out = false;  ///< It gave up, and the peer had not answered.
  bool timewait_over = false;
  uint16_t reason = 0;  ///< The reason when `was_rejected`.

  /// Takes an event. Returns what is wrong with it, or "".
  std::string OnEvent(EventKind kind);
  /// The program destroys this end.
  void Destroy() {
    leaves |= !ended();
    destroyed = true;
  }
  /// Whether an event told the program how the connection ended.
  bool ended() const { return was_rejected || unreachable || disconnected; }
  std::string ToString() const;
};

/// A connection that a program wanted: its active end, and the ends that its REQs made at the other
/// side. A REQ that is repeated after a rejection makes a second end there.
struct Attempt {
  uint32_t target = 0;
  bool has_listener = true;
  bool claims = false;  ///< It names a queue pair that is in another connection.
  End active;
  std::vector<End> passive;

  /// Returns what is wrong at the end of the run. `both_lived`: neither node died. Otherwise fewer
  /// things are checked. `busy`: how many requests the target has refused because its backlog was
  /// full, without those that earlier calls have taken as the reason of a rejection.
  std::string Judge(bool both_lived, uint64_t& busy) const;

 private:
  std::string JudgeOutcome(uint64_t& busy) const;
};

}  // namespace uroce::sim::cm
