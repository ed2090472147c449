// SPDX-License-Identifier: Apache-2.0
// Workers as nic sees them: one worker is a thread that owns queue pairs and runs them to
// completion, burst by burst. All workers together share grace periods and queues for frames.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "pipeline/base/observation.h"
#include "pipeline/base/types.h"
#include "pipeline/datapath/frames/waiting_frames.h"
#include "pipeline/datapath/memory/memory_keys.h"
#include "pipeline/datapath/queue/grace_periods.h"
#include "pipeline/datapath/queue/queue_pair.h"

// One worker: a thread that owns queue pairs and runs them to completion, burst by burst.

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
  uint32_t index = 0;  ///< Number of the worker in the daemon; OwnerOf names it by this.
  int core = -1;       ///< CPU to pin to, or -1.
  rte_mempool* pool = nullptr;
  KeyTable* keys = nullptr;
  FailureSink* failures = nullptr;    ///< Null: queue pairs keep no packet history.
  OverflowSink* overflows = nullptr;  ///< Null when the daemon has one worker.
  Nanos spin_before_sleep{20'000};
  Nanos park_after{100'000};  ///< See SessionList; kNever: no program is parked.
  /// Limits of frames kept behind missing packets. When 0, all queue pairs recover by go-back-N.
  FrameLimits kept{.of_worker = 6144, .of_program = 4096, .of_queue_pair = 2048};
  /// Limits of frames that wait for a copy helper, or behind a frame that does.
  FrameLimits waiting{.of_worker = 5120, .of_program = 5120, .of_queue_pair = 512};
  // Objects that the workers of a daemon share; null when the daemon has one worker.
  CrossWorkerQueues* cross_worker = nullptr;
  GracePeriods* grace = nullptr;
};

/// Counters of one worker. The worker writes them with relaxed stores; control reads at any time.
struct WorkerCounters {
  std::atomic<uint64_t> turns{0};
  std::atomic<uint64_t> busy_ns{0};      ///< Time of turns that found something to do.
  std::atomic<uint64_t> handed_over{0};  ///< Received frames given to the worker that owns them.
  std::atomic<uint64_t> taken_over{0};   ///< Frames that other workers received for this one.
  TurnHistogram turn_ns;                 ///< Turns that found something to do.
  std::atomic<uint64_t> longest_turn_ns{0};  ///< Of these.
  std::atomic<int32_t> thread{0};  ///< The kernel's number of its thread; 0: there is none.
};

/// From Start to Stop a worker has its own thread. nic reaches the objects that the worker owns
/// through Run.
class Worker {
 public:
  explicit Worker(const WorkerConfig& config);
  ~Worker();
  void Start();
  void Stop();

  /// Runs `work` on the worker's thread between two bursts and returns when it is done. Before
  /// Start and after Stop it runs on the caller's thread. Control thread.
  void Run(absl::FunctionRef<void()> work);
  /// Calls `work` for each index below `count` as Run does, in pieces; packets go in between.
  void RunInPieces(size_t count, absl::FunctionRef<void(size_t index)> work);
  /// Calls `work` for each of this worker's `queue_pairs`, in pieces as RunInPieces does.
  void RunForEach(std::span<QueuePair* const> queue_pairs,
                  absl::FunctionRef<void(QueuePair&)> work);
  /// Makes the worker stand still between two bursts until Release. AwaitHold returns when it does:
  /// the caller may then use what the worker owns. Control thread.
  void Hold();
  void AwaitHold();
  void Release();

  /// Ends the worker's sleep, if it sleeps: called after something was put where it looks each
  /// turn. Any thread, between Start and Stop.
  void Wake();

  /// One turn on the caller's thread, at the time that the caller says. For tests and benchmarks of
  /// a worker that was not started. True: there was something to do.
  /// `waited`: how long the thread was ready before, but had no CPU.
  bool RunOnce(Nanos now, Nanos waited = Nanos(0));
  /// When the next RunOnce has something to do, if no frame arrives, no program rings and the ports
  /// have room: the time of a timer; kNever without one; a time in the past while there is work.
  Nanos NextDeadline() const;

  // ---- control thread; in pieces, as RunInPieces ----
  /// Forgets this worker's `queues`. Nothing but XRC targets takes from them any more: targets with
  /// an unfinished message for one of them go to error.
  void RemoveSharedReceiveQueues(std::span<SharedReceiveQueue* const> queues);
  /// Calls `rewrite` for every queue pair with an address vector. True: it changed the path, and
  /// packets made from then on take the new one. MACs and the tag may change; what the ICRC covers
  /// may not, since packets whose payload is being gathered keep the headers they have.
  using PathRewriter = absl::FunctionRef<bool(const QueuePair& queue_pair, Path& path)>;
  void RewritePaths(PathRewriter rewrite);
  /// Calls `capability` for every reliable connection with an address vector. It says whether the
  /// NIC at the other end agrees to selective repeat from now on
  /// (pipeline/transport/loss-recovery.md), or nothing where that did not change.
  using CapabilityOf = absl::FunctionRef<std::optional<bool>(const QueuePair& queue_pair)>;
  void SetSelectiveRepeat(CapabilityOf capability);

  /// Puts this worker's queue pairs of the device in error: their works are flushed.
  void FailDevice(const Device& device);

  uint32_t index() const;
  const WorkerCounters& counters() const;

  // ---- inside Run, or between AwaitHold and Release ----
  void AddDevice(Device* device);
  /// The device's port was removed, and `absent` stands for it: nothing arrives there, what waits
  /// to be sent is dropped, and captures leave the device out. Its queue pairs stay.
  void UnplugDevice(Device* device, drivers::Port* absent);
  /// Forgets a device, whose queue pairs are gone.
  void RemoveDevice(Device* device);
  void AddSession(Session* session);
  void RemoveSession(Session* session);
  void AddQueuePair(QueuePair* queue_pair);
  /// Forgets the queue pair: no table, timer, list or helper refers to it afterwards.
  void RemoveQueuePair(QueuePair* queue_pair);
  /// Makes this turn look for posted works, rung for or not. True: something is still to be sent.
  bool LookForSends(QueuePair* queue_pair);
  /// Adds a shared receive queue, whose queue pairs are this worker's.
  void AddSharedReceiveQueue(SharedReceiveQueue* queue);
  /// See SharedReceiveQueue::SetLimit.
  void SetReceiveLimit(SharedReceiveQueue* queue, uint32_t limit);
  /// Forgets a ring of this worker that no queue pair uses any more, before nic destroys it.
  void RemoveCompletionRing(CompletionRing* ring);
  /// Puts the queue pairs that complete on `ring` in error, after another worker's ring of the same
  /// completion queue has overflowed.
  void FailQueuePairsOf(CompletionRing* ring);
  /// Sets attributes and state. `path` is null when the address vector did not change.
  void Modify(QueuePair* queue_pair, transport::QpState state, const Attributes& attributes,
              const Path* path);
  /// Called when the device's MAC has changed from `old`: its queue pairs send from the new MAC,
  /// and paths to the old MAC lead to the new one.
  void FollowMac(const Device& device, const Mac& old);
  void AddTap(CaptureTap* tap);
  void RemoveTap(CaptureTap* tap);

 private:
  friend class Workers;

  void RunForAll(absl::FunctionRef<void(QueuePair&)> work);

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Settings that each worker has for itself.
struct WorkerSeat {
  int core = -1;  ///< CPU to pin to, or -1.
  rte_mempool* pool = nullptr;
};

/// All workers of a daemon, and what they share. Used by the control thread, except `at(i).Wake`,
/// which any thread may call.
class Workers {
 public:
  /// One worker per seat; all else is as in `common`.
  Workers(const WorkerConfig& common, std::span<const WorkerSeat> seats);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  uint32_t count() const { return static_cast<uint32_t>(workers_.size()); }
  Worker& at(uint32_t index) const { return *workers_[index]; }
  Worker& OwnerOf(Qpn qpn) const { return at(owners().OwnerOf(qpn)); }
  QpnOwners& owners() { return cross_worker_.owners(); }
  const QpnOwners& owners() const { return cross_worker_.owners(); }
  /// Rings on one worker: those that a queue pair completes on there.
  struct Rings {
    CompletionRing& send;
    CompletionRing& receive;
  };
  /// Moves a queue pair that is in INIT, and was never connected, from its worker to `worker`,
  /// where it completes on these rings. False: it is in another state, or there is no memory, and
  /// nothing has changed.
  [[nodiscard]] bool Move(QueuePair& queue_pair, uint32_t worker, const Rings& rings);
  /// Pauses both ends of a connection inside the daemon, whose worker has both, before they move:
  /// they neither send requests nor report completions. False: one of them cannot move, and nothing
  /// has changed. A queue pair cannot move that uses an SRQ, whose rate is limited, that has a
  /// packet history, or that has used memory which another thread copies.
  [[nodiscard]] bool Pause(QueuePair& a, QueuePair& b);
  /// Ends the pause of a queue pair; without one it changes nothing.
  void Resume(QueuePair& queue_pair);
  /// Moves the paused ends of a connection to `worker`, where they complete on these rings, and
  /// ends their pause. False: nothing has changed, since their programs have not polled all
  /// completions of the former worker yet, an answer is due, one of them cannot move any more, or
  /// there is no memory.
  [[nodiscard]] bool MovePair(QueuePair& a, const Rings& rings_of_a, QueuePair& b,
                              const Rings& rings_of_b, uint32_t worker);
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
  /// Whether they are the two ends of a connection, and have one worker.
  bool AreOneConnection(const QueuePair& a, const QueuePair& b) const;

  CrossWorkerQueues cross_worker_;
  GracePeriods grace_;
  std::set<rte_mempool*> pools_;  ///< Workers of one NUMA node share one.
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace uroce::datapath
