// SPDX-License-Identifier: Apache-2.0
// The state that congestion control keeps for one queue pair.
#pragma once

#include <array>
#include <cstdint>

#include "pipeline/congestion/flow_rate.h"
#include "pipeline/congestion/notification_point.h"

namespace uroce::datapath {

/// Used by the worker that owns the queue pair.
struct FlowControl {
  congestion::FlowRate rate;              ///< The rate at which the queue pair sends.
  congestion::NotificationPoint answers;  ///< CNPs for marks on received packets; not for UD.

  uint32_t cnps_sent = 0;     ///< CNPs that this side sent. Wraps.
  uint32_t cnps_handled = 0;  ///< CNPs that slowed this flow down. Wraps.

  /// Address handles of the newest datagrams. CNPs from where these lead are believed.
  std::array<uint32_t, 4> paths{};
  void NoteDatagram(uint32_t path) { paths[path % paths.size()] = path; }
  /// The traffic class of the newest datagram: CNPs and losses concern its priority.
  uint8_t traffic_class = 0;
};

}  // namespace uroce::datapath
