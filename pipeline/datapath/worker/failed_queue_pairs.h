// SPDX-License-Identifier: Apache-2.0
// Queue pairs that went to error by themselves, until the control thread has their packets.
#pragma once

#include <vector>

#include "pipeline/datapath/capture/packet_history.h"
#include "pipeline/datapath/queue/queue_pair.h"
#include "pipeline/datapath/worker/turn_time.h"

namespace uroce::datapath {

/// One thread.
class FailedQueuePairs {
 public:
  /// `sink` is null where no flight recorder is asked for.
  FailedQueuePairs(FailureSink* sink, TurnTime& time) : sink_(sink), time_(time) {}

  /// `qp` is told of when it has sent what it owes: the NAK that tells its peer belongs to its
  /// packets. What is said first of its cause stands.
  void Add(QueuePair& qp, FailureCause cause);
  /// Tells of those that have sent all.
  void Deliver() {
    if (!failed_.empty()) DeliverSome();
  }
  /// `qp` goes: it is told of at once, if it has failed.
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
