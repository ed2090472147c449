// SPDX-License-Identifier: Apache-2.0
// What a program did with one end of a communication, what it was told, and whether that makes
// sense at this end and beside the other.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nic/cm/types.h"

namespace uroce::sim::cm {

using nic::cm::CommId;
using nic::cm::EventKind;

/// One end, from its first call or event to its program's Destroy.
struct End {
  uint32_t node = 0;
  CommId id;
  bool active = false;
  // What the program did.
  bool accepted = false;
  bool rejected = false;
  bool established = false;  ///< Sent RTU, or was told.
  bool destroyed = false;
  bool leaves = false;  ///< Disconnected or destroyed it before it was told of an end.
  // What it was told.
  bool replied = false;
  bool was_rejected = false;
  bool unreachable = false;
  bool disconnected = false;
  bool timed_out = false;  ///< And the peer had not answered.
  bool timewait_over = false;
  uint16_t reason = 0;  ///< Of `was_rejected`.

  /// Takes an event; what is wrong with it, or nothing.
  std::string OnEvent(EventKind kind);
  /// The program destroys it.
  void Destroy() {
    leaves |= !ended();
    destroyed = true;
  }
  /// Whether the program is told how it ended.
  bool ended() const { return was_rejected || unreachable || disconnected; }
  std::string ToString() const;
};

/// A connection that somebody wanted: its active end, and what its REQs became at the other side. A
/// REQ that comes again behind a rejection makes a second end there.
struct Attempt {
  uint32_t target = 0;
  bool has_listener = true;
  bool claims = false;  ///< Names a queue pair that is in another connection.
  End active;
  std::vector<End> passive;

  /// What is wrong when all is over. `both_lived`: neither node died; otherwise less is promised.
  std::string Judge(bool both_lived) const;

 private:
  std::string JudgeOutcome() const;
};

}  // namespace uroce::sim::cm
