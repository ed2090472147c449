// SPDX-License-Identifier: Apache-2.0
// Holds queue pairs that went to error by themselves, until the control thread has their packets.
#pragma once

#include <vector>

#include "pipeline/datapath/capture/packet_history.h"
#include "pipeline/datapath/queue/queue_pair.h"
#include "pipeline/datapath/worker/turn_time.h"

namespace uroce::datapath {

/// One thread.
class FailedQueuePairs {
 public:
  /// `sink` is null when there is no flight recorder.
  FailedQueuePairs(FailureSink* sink, TurnTime& time) : sink_(sink), time_(time) {}

  /// Adds `qp`, which is reported once it has sent what it owes: the NAK to its peer is one of its
  /// packets. The cause of the first call stands.
  void Add(QueuePair& qp, FailureCause cause);
  /// Reports the queue pairs that have sent all.
  void Deliver() {
    if (!failed_.empty()) DeliverSome();
  }
  /// Called when `qp` is removed: reports it at once, if it has failed.
  void Remove(const QueuePair& qp);

 private:
  struct Failed {
    QueuePair* queue_pair = nullptr;
    FailureCause cause = FailureCause::kTransport;
  };
  void DeliverSome();
  void Deliver(const Failed& failed);

  FailureSink* const sink_;
  TurnTime& time_;
  std::vector<Failed> failed_;
};

}  // namespace uroce::datapath
