// SPDX-License-Identifier: Apache-2.0
// All workers of a daemon, and what they share.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "pipeline/datapath/frames/cross_worker_queues.h"
#include "pipeline/datapath/thread/grace_periods.h"
#include "pipeline/datapath/worker/worker.h"

namespace uroce::datapath {

/// Settings that each worker has for itself.
struct WorkerSeat {
  int core = -1;  ///< CPU to pin to, or -1.
  rte_mempool* pool = nullptr;
};

/// Used by the control thread, except `at(i).Wake`, which any thread may call.
class Workers {
 public:
  /// One worker per seat; all else is as in `common`.
  Workers(const WorkerConfig& common, std::span<const WorkerSeat> seats);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  uint32_t count() const { return static_cast<uint32_t>(workers_.size()); }
  Worker& at(uint32_t index) const { return *workers_[index]; }
  Worker& OwnerOf(Qpn qpn) const { return at(uroce::OwnerOf(qpn, count())); }
  void Start();
  void Stop();

  /// Runs `work` on each worker, as Worker::Run does, one after the other.
  void RunOnEach(absl::FunctionRef<void(Worker&)> work);
  /// Runs `work` on the caller's thread while all workers stand still between two bursts: for
  /// objects that several workers use.
  void RunTogether(absl::FunctionRef<void()> work);
  /// Returns when no worker uses objects any more that were unpublished before the call. Does not
  /// wake a sleeping worker.
  void AwaitGrace() { grace_.Wait(); }
  /// For a worker that was not started but turned by hand: it holds nothing any more.
  void LeaveGrace(uint32_t index) { grace_.Leave(index); }
  /// The number of frames that the pools have given out. Any thread; takes some us per pool.
  uint64_t frames_in_use() const;

  /// Gives the device to all workers.
  void AddDevice(Device* device);
  /// The device's port is about to be removed: `absent` stands for it from now on, and no worker
  /// uses the port any more.
  void UnplugDevice(Device& device, drivers::Port* absent);
  /// Takes the device, whose queue pairs are gone, from all workers.
  void RemoveDevice(Device* device);
  /// Changes the device's MAC: it receives frames to `mac`, and its queue pairs send from `mac`.
  /// Paths to the old MAC lead to the new one.
  void ChangeMac(Device& device, const Mac& mac);

 private:
  CrossWorkerQueues cross_worker_;
  GracePeriods grace_;
  std::set<rte_mempool*> pools_;  ///< Workers of one NUMA node share one.
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace uroce::datapath
