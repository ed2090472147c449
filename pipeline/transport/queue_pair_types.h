// SPDX-License-Identifier: Apache-2.0
// States, attributes and events that queue pairs of all services share.
#pragma once

#include <cstdint>

#include "pipeline/wire/psn.h"

namespace uroce::congestion {
struct Environment;
}

namespace uroce::transport {

/// Values are those of ibv_qp_state.
enum class QpState : uint8_t {
  kReset = 0,
  kInit = 1,
  kRtr = 2,
  kRts = 3,
  kSqd = 4,
  kSqe = 5,
  kErr = 6,
};

/// The attributes of ibv_modify_qp that the transport uses. Each service reads those that apply to
/// it. The shell has checked states, masks and ranges.
struct QueuePairAttributes {
  bool remote_write = false;
  bool remote_read = false;
  bool remote_atomic = false;
  uint32_t path_mtu_bytes = 1024;  ///< UD: the port's MTU.
  wire::Psn rq_psn;
  wire::Psn sq_psn;
  uint8_t max_rd_atomic = 0;       ///< READs and atomics that this side may have outstanding.
  uint8_t max_dest_rd_atomic = 0;  ///< READs and atomics that the peer may have outstanding.
  uint8_t min_rnr_timer = 0;       ///< Code 0..31 sent in RNR NAKs.
  uint8_t timeout = 0;             ///< Local ACK timeout code 0..31, 0 = none.
  uint8_t retry_count = 0;         ///< 0..7.
  uint8_t rnr_retry = 0;           ///< 0..7, 7 = for ever.
  uint32_t qkey = 0;               ///< UD.
  bool notify_drained = false;     ///< Raise SQ_DRAINED once when SQD has drained.
  /// The NIC at the other end has agreed to selective repeat (pipeline/transport/README.md).
  bool selective_repeat = false;
  /// The environment of the path's priority, from the next begin of sending on. Null: that of the
  /// queue pair's configuration.
  const congestion::Environment* congestion = nullptr;
};

enum class PostResult : uint8_t { kPosted, kQueueFull };

/// Asynchronous events. Values are those of ibv_event_type.
enum class QpEvent : uint8_t {
  kQpFatal = 1,
  kQpReqErr = 2,
  kQpAccessErr = 3,
  kCommEst = 4,
  kSqDrained = 5,
  kLastWqeReached = 16,
};

}  // namespace uroce::transport
