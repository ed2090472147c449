// SPDX-License-Identifier: Apache-2.0
// A worker, put together from its parts. Included by worker.cc and worker_impl.cc alone.
#pragma once

#include "pipeline/datapath/frames/cross_worker_queues.h"
#include "pipeline/datapath/frames/kept_frames.h"
#include "pipeline/datapath/queue/session_list.h"
#include "pipeline/datapath/thread/controlled_thread.h"
#include "pipeline/datapath/thread/idle_policy.h"
#include "pipeline/datapath/thread/run_delay.h"
#include "pipeline/datapath/worker/completion_publisher.h"
#include "pipeline/datapath/worker/congestion_control.h"
#include "pipeline/datapath/worker/copy_engine.h"
#include "pipeline/datapath/worker/effects.h"
#include "pipeline/datapath/worker/failed_queue_pairs.h"
#include "pipeline/datapath/worker/frame_recorder.h"
#include "pipeline/datapath/worker/frame_stash.h"
#include "pipeline/datapath/worker/held_senders.h"
#include "pipeline/datapath/worker/key_changes.h"
#include "pipeline/datapath/worker/objects.h"
#include "pipeline/datapath/worker/packet_executor.h"
#include "pipeline/datapath/worker/queue_pair_timers.h"
#include "pipeline/datapath/worker/ready_lists.h"
#include "pipeline/datapath/worker/receiver.h"
#include "pipeline/datapath/worker/resumption.h"
#include "pipeline/datapath/worker/settler.h"
#include "pipeline/datapath/worker/sleep_control.h"
#include "pipeline/datapath/worker/state_changes.h"
#include "pipeline/datapath/worker/transmitter.h"
#include "pipeline/datapath/worker/turn_time.h"
#include "pipeline/datapath/worker/waiting_packets.h"
#include "pipeline/datapath/worker/worker.h"

namespace uroce::datapath {

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
  void AddSharedReceiveQueue(SharedReceiveQueue& queue);
  /// Removes the queue from all lists. XRC targets may still have a message that uses it.
  void RemoveSharedReceiveQueue(SharedReceiveQueue& queue);
  void ForgetRecords(SharedReceiveQueue& queue) {
    completions.retries().Remove({.shared_queue = &queue});
  }
  void SetSelectiveRepeat(QueuePair& qp, AgreementOf agreement);
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
  CopyEngine copies;
  KeyChanges key_changes;
  Effects effects;
  Transmitter transmitter;
  StateChanges states;
  Settler settler;
  PacketExecutor executor;
  Resumption resumption;
  Receiver receiver;
  ControlledThread thread;
};

}  // namespace uroce::datapath
