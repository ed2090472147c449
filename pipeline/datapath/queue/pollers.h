// SPDX-License-Identifier: Apache-2.0
// Threads of a program that sleep until a completion queue has a CQE.
#pragma once

#include <cstdint>

#include "pipeline/shm/rings/pollers.h"

namespace uroce::datapath {

class WakePace;

/// Where the threads that poll one CQ sleep. Any worker. Owned by nic.
struct Pollers {
  uroce_line32* word = nullptr;  ///< In the arena; null: nobody sleeps.
  uint32_t bit = 0;              ///< Of the CQ: rings::PollerBit.
  WakePace* pace = nullptr;      ///< The pace of its user; null: no limit.

  /// Whether Wake is due for the CQEs that are published. The caller has made a full fence since.
  bool any() const { return word != nullptr && rings::HasPollers(*word, bit); }
  /// Wakes them: a system call, if they have not been woken since any() returned true. When the
  /// user's wake-ups have taken too long, nobody is woken; who sleeps has a timeout.
  void Wake() const;
};

}  // namespace uroce::datapath
