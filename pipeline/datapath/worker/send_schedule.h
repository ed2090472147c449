// SPDX-License-Identifier: Apache-2.0
// Adds a queue pair to the send schedule of its port, and removes it.
#pragma once

#include <cstdint>

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

/// Counts `bytes` as sent by `qp` and by its program.
inline void Charge(QueuePair& qp, uint32_t bytes) {
  DeficitRoundRobin::Charge(qp.links().flow, bytes);
  DeficitRoundRobin::Charge(*qp.links().session_flow, bytes);
}

}  // namespace uroce::datapath
