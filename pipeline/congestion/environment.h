// SPDX-License-Identifier: Apache-2.0
// The settings and measurements that all flows of one NIC, priority and worker share.
#pragma once

#include <cstdint>

#include "pipeline/base/types.h"
#include "pipeline/congestion/settings.h"

namespace uroce::congestion {

/// Owned by the shell, and outlives the flows. One thread uses it. `settings` change only while
/// that thread does nothing else.
struct Environment {
  Settings settings;
  /// The priority of the flows' packets, 0 to 7 (PriorityOf).
  uint32_t priority = 0;
  /// The line rate of the port, in bits per second.
  uint64_t line_bps = 100'000'000'000;
  /// The total time in which the shell's thread was ready but not running. Round trips exclude it.
  Nanos stalled{};
  /// How far the time of an emulated network is behind the thread's clock: see drivers::Port::Lag.
  /// Round trips are measured by the network's time.
  Nanos lag{};
  /// How long packets that arrived since the thread's last turn may have waited for it; 0 where
  /// that is the time of a turn. Peers that agree to it are told (pipeline/wire/host_delay.h).
  Nanos host_delay{};

  bool is_on() const { return settings.profile != Profile::kOff; }
  /// Whether marks on packets of this priority are answered.
  bool notifies() const { return is_on() && IsEnabled(settings.np.np_enable, priority); }
  /// Whether flows of this priority react: to CNPs, losses, and round trips if the profile is
  /// kDelay. Their packets say ECT(0).
  bool reacts() const { return is_on() && IsEnabled(settings.rp.rp_enable, priority); }
};

}  // namespace uroce::congestion
