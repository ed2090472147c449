// SPDX-License-Identifier: Apache-2.0
// Adds a queue pair to the send schedule of its port, and removes it.
#pragma once

#include <cstdint>

#include "pipeline/congestion/units.h"
#include "pipeline/datapath/port/device_port.h"
#include "pipeline/datapath/queue/queue_pair.h"
#include "pipeline/datapath/thread/deficit_round_robin.h"

namespace uroce::datapath {

/// Schedules `qp`, which has something to send, within its program, and the program on the port.
inline void StartSending(QueuePair& qp) {
  SessionFlow& session = *qp.links().session_flow;
  session.queue_pairs.Add(qp.links().flow);
  qp.links().port->sessions().Add(session);
}

inline void StopSending(QueuePair& qp) {
  SessionFlow& session = *qp.links().session_flow;
  session.queue_pairs.Remove(qp.links().flow);
  if (session.queue_pairs.empty()) qp.links().port->sessions().Remove(session);
}

/// Counts a frame of `bytes` as sent by `qp`, by its program and by its user.
inline void Charge(QueuePair& qp, uint32_t bytes) {
  SessionFlow& session = *qp.links().session_flow;
  DeficitRoundRobin::Charge(qp.links().flow, bytes);
  DeficitRoundRobin::Charge(session, bytes);
  session.share.OnSent(bytes + congestion::kFrameOverheadBytes);
}

}  // namespace uroce::datapath
