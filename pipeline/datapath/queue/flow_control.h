// SPDX-License-Identifier: Apache-2.0
// What congestion control keeps of one queue pair.
#pragma once

#include <array>
#include <cstdint>

#include "pipeline/congestion/flow_rate.h"
#include "pipeline/congestion/notification_point.h"

namespace uroce::datapath {

/// The worker's own, like the queue pair.
struct FlowControl {
  congestion::FlowRate rate;              ///< Of what it sends.
  congestion::NotificationPoint answers;  ///< To marks on what it receives; not of datagrams.

  uint32_t cnps_sent = 0;     ///< Wraps.
  uint32_t cnps_handled = 0;  ///< Wraps.

  /// Address handles of the newest datagrams: from where they lead CNPs are believed.
  std::array<uint32_t, 4> paths{};
  void NoteDatagram(uint32_t path) { paths[path % paths.size()] = path; }
};

}  // namespace uroce::datapath
