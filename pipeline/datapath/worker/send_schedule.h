// SPDX-License-Identifier: Apache-2.0
// Puts a queue pair into the send schedule of its port, and takes it out.
#pragma once

#include <cstdint>

#include "pipeline/datapath/port/device_port.h"
#include "pipeline/datapath/queue/queue_pair.h"
#include "pipeline/datapath/thread/deficit_round_robin.h"

namespace uroce::datapath {

/// `qp` has something to send: its program's turn comes, and within that its own.
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

/// `qp` and its program have sent `bytes` of their share.
inline void Charge(QueuePair& qp, uint32_t bytes) {
  DeficitRoundRobin::Charge(qp.links().flow, bytes);
  DeficitRoundRobin::Charge(*qp.links().session_flow, bytes);
}

}  // namespace uroce::datapath
