// SPDX-License-Identifier: Apache-2.0
// The objects that a worker has been given: ports, queue pairs by their numbers, shared receive
// queues.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "pipeline/base/types.h"
#include "pipeline/datapath/device/device.h"
#include "pipeline/datapath/queue/queue_pair.h"
#include "pipeline/datapath/queue/work_queues.h"
#include "pipeline/datapath/worker/schedule.h"
#include "pipeline/datapath/worker/worker.h"

namespace uroce::datapath {

/// They change between turns only. One thread.
class Objects {
 public:
  /// Of the worker with this number.
  explicit Objects(uint32_t worker) : worker_(worker) {}

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
  const uint32_t worker_;
  DevicePorts ports_;
  QpnTable queue_pairs_;
  std::vector<SharedReceiveQueue*> shared_queues_;  // There are few, and they are looked up rarely.
};

}  // namespace uroce::datapath
