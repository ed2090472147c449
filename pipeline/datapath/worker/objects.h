// SPDX-License-Identifier: Apache-2.0
// The objects that a worker has been given: ports, queue pairs by their numbers, shared receive
// queues.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "pipeline/base/types.h"
#include "pipeline/datapath/device/device_port.h"
#include "pipeline/datapath/queue/queue_pair.h"
#include "pipeline/datapath/queue/session.h"
#include "pipeline/datapath/queue/shared_receive_queue.h"
#include "pipeline/datapath/worker/worker.h"

namespace uroce::datapath {

/// Finds the queue pair of a number in a packet. Each worker has its own table. A table with open
/// addressing, half full at most. Queue pair numbers are random, so their low bits serve as the
/// hash.
class QpnTable {
 public:
  QueuePair* Find(Qpn qpn) const {
    for (size_t at = qpn.value() & mask_;; at = (at + 1) & mask_) {
      if (slots_[at].queue_pair == nullptr || slots_[at].qpn == qpn) return slots_[at].queue_pair;
    }
  }
  /// Prefetches what Find will look at first.
  void Prefetch(Qpn qpn) const { __builtin_prefetch(&slots_[qpn.value() & mask_]); }
  /// Adds a queue pair. Range: `qpn` is not in the table. May allocate, so call it between bursts.
  void Insert(Qpn qpn, QueuePair* queue_pair);
  void Erase(Qpn qpn);
  size_t size() const { return size_; }
  template <typename Visitor>
  void ForEach(Visitor&& visit) const {
    for (const Slot& slot : slots_) {
      if (slot.queue_pair != nullptr) visit(*slot.queue_pair);
    }
  }
  /// How many slots of the table one ForSome looks at.
  struct Piece {
    size_t most_queue_pairs = 0;
    size_t most_slots = 0;
  };
  /// Calls `visit` for the queue pairs of one piece of the table, from position `from` on; 0 is the
  /// beginning. Returns the position to continue at, while the table does not change; 0 at the end.
  template <typename Visitor>
  size_t ForSome(size_t from, Piece piece, Visitor&& visit) const {
    const size_t end = std::min(slots_.size(), from + piece.most_slots);
    for (; from < end && piece.most_queue_pairs != 0; ++from) {
      if (slots_[from].queue_pair == nullptr) continue;
      visit(*slots_[from].queue_pair);
      --piece.most_queue_pairs;
    }
    return from < slots_.size() ? from : 0;
  }

 private:
  struct Slot {
    Qpn qpn;
    QueuePair* queue_pair = nullptr;
  };
  void Grow();
  void Place(const Slot& slot);

  std::vector<Slot> slots_ = std::vector<Slot>(64);
  size_t mask_ = 63;
  size_t size_ = 0;
};

/// The objects themselves. They change between turns only. One thread.
class Objects {
 public:
  const DevicePorts& ports() const { return ports_; }
  const QpnTable& queue_pairs() const { return queue_pairs_; }
  size_t shared_queues() const { return shared_queues_.size(); }

  DevicePort& AddDevice(Device* device, CrossWorkerLink& cross_worker, Taps& taps);
  /// Range: no queue pair of `device` is left.
  void RemoveDevice(const Device& device) { ports_.Remove(device); }
  /// Adds a queue pair to the tables, and to the flows of its program and its port.
  void Add(QueuePair& qp, const SessionList& sessions);
  void Remove(QueuePair& qp);
  void Add(SharedReceiveQueue& queue);
  void Remove(SharedReceiveQueue& queue);

  /// `qp` sends to `path` from now on.
  void SetPath(QueuePair& qp, const Path& path) const;
  /// Does what Worker::RewritePaths does, for one queue pair.
  void RewritePath(QueuePair& qp, Worker::PathRewriter rewrite) const;
  /// See Worker::FollowMac.
  void FollowMac(const Device& device, const Mac& old) const;

 private:
  DevicePorts ports_;
  QpnTable queue_pairs_;
  std::vector<SharedReceiveQueue*> shared_queues_;  // There are few, and they are looked up rarely.
};

}  // namespace uroce::datapath
