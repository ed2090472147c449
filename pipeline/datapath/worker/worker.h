// SPDX-License-Identifier: Apache-2.0
// One worker: a thread that owns queue pairs and runs them to completion, burst by burst.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "pipeline/base/types.h"
#include "pipeline/datapath/frames/frame_shares.h"
#include "pipeline/datapath/memory/key_table.h"
#include "pipeline/datapath/queue/queue_pair_config.h"

struct rte_mbuf;
struct rte_mempool;

namespace uroce::drivers {
class Port;
}

namespace uroce::datapath {

class CaptureTap;
class CompletionRing;
class CopyHelper;
class Device;
class FailureSink;
class GracePeriods;
class CrossWorkerQueues;
class OverflowSink;
class QueuePair;
class Session;
class SharedReceiveQueue;

struct WorkerConfig {
  uint32_t index = 0;  ///< Among the workers of the daemon: it owns queue pairs by OwnerOf.
  int core = -1;       ///< CPU to pin to, or -1.
  rte_mempool* pool = nullptr;
  KeyTable* keys = nullptr;
  FailureSink* failures = nullptr;    ///< Null: queue pairs keep no packet history.
  OverflowSink* overflows = nullptr;  ///< Null: there is no other worker.
  Nanos spin_before_sleep{20'000};
  Nanos park_after{100'000};  ///< See SessionList; kNever: no program is parked.
  /// Frames behind holes; none: all recover by go-back-N.
  FrameLimits kept{.of_worker = 6144, .of_program = 4096, .of_queue_pair = 2048};
  /// Frames that wait for helpers, or behind what does.
  FrameLimits waiting{.of_worker = 5120, .of_program = 5120, .of_queue_pair = 512};
  // What the workers of a daemon share; null for a worker that is alone.
  CrossWorkerQueues* cross_worker = nullptr;
  GracePeriods* grace = nullptr;
};

/// Written by the worker with relaxed stores, read by control at any time.
struct WorkerCounters {
  std::atomic<uint64_t> turns{0};
  std::atomic<uint64_t> busy_ns{0};      ///< In turns that found something to do.
  std::atomic<uint64_t> handed_over{0};  ///< Received frames that went to the worker they are for.
  std::atomic<uint64_t> taken_over{0};   ///< Frames that other workers received for this one.
};

/// From Start to Stop a worker has a thread of its own. nic reaches the objects that the worker
/// owns through Run.
class Worker {
 public:
  explicit Worker(const WorkerConfig& config);
  ~Worker();
  void Start();
  void Stop();

  /// Runs `work` on the worker's thread between two bursts and returns when it is done. Before
  /// Start and after Stop it runs on the caller's thread. Control thread.
  void Run(absl::FunctionRef<void()> work);
  /// Calls `work` for each index below `count` as Run does, some at a time: packets go in between.
  void RunInPieces(size_t count, absl::FunctionRef<void(size_t index)> work);
  /// Shows each of this worker's `queue_pairs` to `work` in such pieces.
  void RunForEach(std::span<QueuePair* const> queue_pairs,
                  absl::FunctionRef<void(QueuePair&)> work);
  /// Has the worker stand still between two bursts until Release. AwaitHold returns when it does:
  /// what it owns is the caller's then. Control thread.
  void Hold();
  void AwaitHold();
  void Release();

  /// Ends the worker's sleep, where it sleeps: after something was put where it looks each turn.
  /// Any thread, between Start and Stop.
  void Wake();

  /// One turn on the caller's thread, at the time that the caller says. For tests and benchmarks of
  /// a worker that was not started. True: there was something to do.
  bool RunOnce(Nanos now);

  // ---- control thread; in pieces, as RunInPieces ----
  /// Forgets this worker's `queues`, which nothing takes from any more but targets of XRC: those
  /// that are at work on a message for one of them go to error.
  void RemoveSharedReceiveQueues(std::span<SharedReceiveQueue* const> queues);
  /// Shows every queue pair with an address vector to `rewrite`, which says whether it changed the
  /// path: packets made from then on take the new one. MACs and the tag may change; what the ICRC
  /// covers may not, since packets whose payload is being gathered keep the headers they have.
  using PathRewriter = absl::FunctionRef<bool(const QueuePair& queue_pair, Path& path)>;
  void RewritePaths(PathRewriter rewrite);
  /// Shows every reliable connection with an address vector to `agreement`, which says whether the
  /// NIC at the other end agrees to selective repeat from now on (pipeline/transport/README.md),
  /// or nothing where that did not change.
  using AgreementOf = absl::FunctionRef<std::optional<bool>(const QueuePair& queue_pair)>;
  void SetSelectiveRepeat(AgreementOf agreement);

  uint32_t index() const;
  const WorkerCounters& counters() const;

  // ---- inside Run, or between AwaitHold and Release ----
  /// In the same order on each worker.
  void AddDevice(Device* device);
  void AddSession(Session* session);
  void RemoveSession(Session* session);
  void AddQueuePair(QueuePair* queue_pair);
  /// Forgets it: no table, timer, list or helper refers to it afterwards.
  void RemoveQueuePair(QueuePair* queue_pair);
  /// Has this turn look for what it has posted, rung for or not. True: something is still to leave.
  bool LookForSends(QueuePair* queue_pair);
  /// The queue pairs that take from it are this worker's.
  void AddSharedReceiveQueue(SharedReceiveQueue* queue);
  /// See SharedReceiveQueue::SetLimit.
  void SetReceiveLimit(SharedReceiveQueue* queue, uint32_t limit);
  /// Forgets a ring of this worker that no queue pair uses any more, before nic destroys it.
  void RemoveCompletionRing(CompletionRing* ring);
  /// Puts the queue pairs that complete on `ring` in error, after another worker's ring of the same
  /// completion queue has overflowed.
  void FailQueuePairsOf(CompletionRing* ring);
  /// Takes the attributes and the state; `path` is null where the address vector did not change.
  void Modify(QueuePair* queue_pair, transport::QpState state, const Attributes& attributes,
              const Path* path);
  /// The device's MAC is another than `old` now: its queue pairs send from there, and paths to the
  /// old MAC lead to the new one.
  void FollowMac(const Device& device, const Mac& old);
  void AddTap(CaptureTap* tap);
  void RemoveTap(CaptureTap* tap);

 private:
  void RunForAll(absl::FunctionRef<void(QueuePair&)> work);

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace uroce::datapath
