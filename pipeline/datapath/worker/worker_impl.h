// SPDX-License-Identifier: Apache-2.0
// A worker, put together from its parts, the order of a turn, and sleep without a missed wake-up.
// Only worker.cc and worker_impl.cc include this.
#pragma once

#include <atomic>
#include <span>

#include "pipeline/datapath/frames/waiting_frames.h"
#include "pipeline/datapath/queue/session.h"
#include "pipeline/datapath/thread/controlled_thread.h"
#include "pipeline/datapath/thread/scheduling.h"
#include "pipeline/datapath/thread/sleeper.h"
#include "pipeline/datapath/worker/completion_publisher.h"
#include "pipeline/datapath/worker/congestion_control.h"
#include "pipeline/datapath/worker/copy_engine.h"
#include "pipeline/datapath/worker/direct_delivery.h"
#include "pipeline/datapath/worker/effects.h"
#include "pipeline/datapath/worker/frame.h"
#include "pipeline/datapath/worker/objects.h"
#include "pipeline/datapath/worker/packet_executor.h"
#include "pipeline/datapath/worker/receiver.h"
#include "pipeline/datapath/worker/schedule.h"
#include "pipeline/datapath/worker/settler.h"
#include "pipeline/datapath/worker/stall_watch.h"
#include "pipeline/datapath/worker/state_changes.h"
#include "pipeline/datapath/worker/transmitter.h"
#include "pipeline/datapath/worker/worker.h"
#include "pipeline/os/clock.h"

namespace uroce::datapath {

/// Lets a worker sleep without missing a wake-up: it announces the sleep, looks again, and then
/// sleeps. Also finds the parked programs that have rung. Used by the worker's thread, except Wake.
class SleepControl {
 public:
  SleepControl(SessionList& sessions, const TurnTime& time) : sessions_(sessions), time_(time) {}

  /// The sleeper that wakes the worker.
  Sleeper& sleeper() { return sleeper_; }
  /// Ends the worker's sleep, if it sleeps. Any thread calls it, after it has put something where
  /// the worker looks each turn.
  void Wake();

  /// Tells programs and other threads that the worker is about to sleep. False: a program has rung
  /// or a copy is done meanwhile. The caller checks for other work afterwards.
  [[nodiscard]] bool Announce();
  void Sleep(Nanos limit);
  /// Called after Announce, whether the worker has slept or not.
  void AnnounceAwake();

  /// Parks idle programs, and takes back parked ones that have rung since. Called once per turn.
  void TendPrograms() {
    sessions_.ParkIdle(time_.now());
    if (time_.now() >= look_at_ && sessions_.any_parked()) LookForParked();
  }

 private:
  void LookForParked();
  void TakeBack(std::span<const int> written_fds);

  SessionList& sessions_;
  const TurnTime& time_;
  Sleeper sleeper_;
  std::atomic<bool> asleep_{false};
  Nanos look_at_{0};  // When to look next for parked programs that have come back.
};

/// The parts of a worker. A turn gives what came in (finished copies, frames, doorbells, timers) to
/// the transports, settles their queue pairs (completions, events, state), and sends what they have
/// to send, fair in bytes. Each step is bounded; the next turn continues.
struct Worker::Impl {
  explicit Impl(const WorkerConfig& worker_config);

  void ThreadMain();
  bool Turn(Nanos now);
  /// Begins a turn. Counts the previous turn as well, since its end is known only now.
  void BeginTurn(Nanos now);
  /// How long this thread was ready before a turn at `now`, but had no CPU; also the time of the
  /// last turn, where that was long.
  Nanos WaitBefore(Nanos now);
  /// Whether waits for a CPU after a sleep are measured, at two microseconds a sleep: while
  /// round-trip times control what a port sends.
  bool MeasuresWaits() const;
  /// Called before each turn, which begins at `now`.
  void NoteWait(Nanos waited, Nanos now);
  bool ExpireTimers();

  // ---- sleep ----
  void Sleep();
  /// How long the worker looks for work after it had some.
  Nanos SpinBeforeSleep(bool busy) const;
  /// Announces that the worker is about to sleep. False: there is something to do.
  bool MaySleep();
  bool HasWork() const;
  /// How long to sleep at most; kNever: until something wakes the worker.
  Nanos NextDeadline() const;
  Nanos SleepLimit() const;

  // ---- between turns: see Worker ----
  void AddDevice(Device* device);
  void UnplugDevice(Device& device, drivers::Port* absent);
  void AddSession(Session* session);
  void RemoveSession(Session* session);
  void AddQueuePair(QueuePair& qp);
  void RemoveQueuePair(QueuePair& qp);
  /// Whether the queue pair may move to another worker now: see Workers::MovePair.
  static bool MayMove(QueuePair& qp);
  static void Pause(QueuePair& qp);
  void Resume(QueuePair& qp);
  /// Receives the frames that the queue pair has sent to its peer, who has the same worker. False:
  /// some are left.
  [[nodiscard]] bool ReceiveSent(const QueuePair& qp);
  /// Forgets a queue pair that goes on at another worker.
  void GiveAway(QueuePair& qp);
  /// Goes on with a queue pair of another worker.
  void TakeOver(QueuePair& qp);
  /// Takes the queue pair out of all tables and lists.
  void Forget(QueuePair& qp);
  void AddSharedReceiveQueue(SharedReceiveQueue& queue);
  /// Removes the queue from all lists. XRC targets may still have a message that uses it.
  void RemoveSharedReceiveQueue(SharedReceiveQueue& queue);
  void ForgetRecords(SharedReceiveQueue& queue) {
    completions.retries().Remove({.shared_queue = &queue});
  }
  void SetSelectiveRepeat(QueuePair& qp, CapabilityOf capability);
  /// Reserves room in the lists of a turn, so that no packet causes an allocation.
  void ReserveLists();

  // Each part knows only parts above it, by reference. So there are as many fields as parts, and
  // this struct alone knows all of them.
  const WorkerConfig config;
  WorkerCounters own_counters;
  TurnTime time;
  IdlePolicy idle;
  bool was_busy = false;
  bool has_slept = true;
  RunDelay run_delay;
  Nanos waited_in_sleep{0};  ///< How long the thread waited for a CPU after the event that woke it.
  Nanos told_wait{0};        ///< Environment::host_delay of all ports.
  uint8_t turns_until_timers = 0;  ///< After a stall: timers expire in the turn that makes it 0.
  uint32_t turns_behind = 0;       ///< In a row, in which received frames were left.
  CrossWorkerLink cross_worker;
  FrameStash stash;
  FrameRecorder recorder;
  FailedQueuePairs failed;
  Objects objects;
  WaitingPackets waiting_packets;
  HeldSenders held;
  KeptFramePool kept_frames;
  SessionList sessions;
  SleepControl sleep;
  QueuePairTimers timers;
  ReadyLists ready;
  CompletionPublisher completions;
  CongestionControl congestion;
  StallWatch stalls;
  CopyEngine copies;
  KeyChanges key_changes;
  Effects effects;
  StateChanges states;
  PacketExecutor executor;
  DirectDelivery direct;
  Transmitter transmitter;
  Settler settler;
  Resumption resumption;
  Receiver receiver;
  ControlledThread thread;
};

}  // namespace uroce::datapath
