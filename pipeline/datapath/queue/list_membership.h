// SPDX-License-Identifier: Apache-2.0
// Says which lists of its worker a queue pair is in.
#pragma once

#include <cstdint>

namespace uroce::datapath {

/// The lists of a worker that name a queue pair at most once.
enum class WorkerList : uint8_t {
  kTouched = 1,    ///< The queue pair is looked after in this turn.
  kReceived = 2,   ///< A packet came in this turn.
  kHeld = 4,       ///< The queue pair must not send for now: see HeldSenders.
  kPostponed = 8,  ///< The rings hold more than one turn takes.
  kRetried = 16,   ///< Records of the queue pair wait for room: see RecordRetries.
};

/// A set of these lists.
class ListMembership {
 public:
  bool Has(WorkerList list) const { return (lists_ & Bit(list)) != 0; }
  /// False: the list was in the set already.
  bool Enter(WorkerList list) {
    if (Has(list)) return false;
    lists_ |= Bit(list);
    return true;
  }
  /// False: the list was not in the set.
  bool Leave(WorkerList list) {
    if (!Has(list)) return false;
    lists_ &= static_cast<uint8_t>(~Bit(list));
    return true;
  }

 private:
  static constexpr uint8_t Bit(WorkerList list) { return static_cast<uint8_t>(list); }

  uint8_t lists_ = 0;
};

}  // namespace uroce::datapath
