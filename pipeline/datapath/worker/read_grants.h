// SPDX-License-Identifier: Apache-2.0
// READs of queue pairs whose port has a small receive buffer: they ask when the budget of the port
// lets them (pipeline/datapath/thread/read_budget.h).
#pragma once

#include <cstdint>

#include "pipeline/datapath/port/device_port.h"
#include "pipeline/datapath/queue/queue_pair.h"
#include "pipeline/datapath/worker/send_schedule.h"

namespace uroce::datapath {

inline void LineUp(QueuePair& qp, ReadBudget& budget, Nanos now) {
  transport::RcQueuePair& core = qp.core().reliable();
  if (core.read_allowance() == transport::ReadAllowance::kUnlimited) core.AllowReads(0);
  const uint64_t wanted = core.WantedByRead();
  // What was granted and is not used: the next READ takes more, or there is none.
  if (core.read_allowance() != 0 && (wanted != 0 || !core.HasPacket(now))) core.AllowReads(0);
  budget.Shrink(qp.reads(), core.AwaitedByReads() + core.read_allowance(), now);
  ReadLine& line = qp.links().session_flow->reads;
  if (wanted == 0) return budget.Leave(line, qp.reads());
  budget.Wait(line, qp.reads(), wanted);
}

/// Gives back what was answered, and lines `qp` up when its next packet is a READ request that it
/// may not send yet. Called when anything about `qp` may have changed.
inline void SettleReads(QueuePair& qp, Nanos now) {
  ReadBudget& budget = qp.links().port->reads();
  if (!budget.is_bounded()) [[likely]]
    return;
  if (!qp.core().is_reliable()) return;
  if (qp.links().peer == PeerPlace::kSameDevice) {
    // The responses do not come through the port.
    return qp.core().reliable().AllowReads(transport::ReadAllowance::kUnlimited);
  }
  LineUp(qp, budget, now);
}

/// Schedules queue pairs whose READs may ask now; up to a burst of them.
inline void GrantReads(DevicePort& port, Nanos now) {
  for (uint32_t left = kBurst; left != 0; --left) {
    uint64_t granted = 0;
    ReadShare* const share = port.reads().Grant(now, granted);
    if (share == nullptr) return;
    QueuePair& qp = QueuePair::OfShare(*share);
    qp.core().reliable().AllowReads(granted);
    StartSending(qp);
  }
}

/// `qp` ends, and is not settled any more.
inline void ForgetReads(QueuePair& qp, Nanos now) {
  ReadBudget& budget = qp.links().port->reads();
  if (!budget.is_bounded() || !qp.core().is_reliable()) return;
  budget.Leave(qp.links().session_flow->reads, qp.reads());
  budget.Shrink(qp.reads(), 0, now);
}

}  // namespace uroce::datapath
