// SPDX-License-Identifier: Apache-2.0
// The worker's thread, its turns, and the way in for control.
#include "pipeline/datapath/worker.h"

#include <pthread.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>

#include "drivers/port.h"
#include "pipeline/datapath/capture_tap.h"
#include "pipeline/datapath/grace_periods.h"
#include "pipeline/datapath/worker_impl.h"
#include "pipeline/rings/shared_word.h"

namespace uroce::datapath {
namespace {

// What a worker is asked about so many takes some tens of us at most.
constexpr size_t kQueuePairsPerRun = 32;

void PinTo(int core) {
  if (core < 0) return;
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  pthread_setaffinity_np(pthread_self(), sizeof(cores), &cores);
}

}  // namespace

Worker::Impl::Impl(const WorkerConfig& worker_config)
    : config(worker_config),
      keys(*worker_config.keys),
      idle(worker_config.spin_before_sleep),
      handover(worker_config.handover, worker_config.index),
      waiting_frames(worker_config.waiting),
      kept_frames(worker_config.kept),
      sessions(worker_config.index, worker_config.park_after, waiting_frames.all()),
      key_waits(worker_config.grace) {
  now = clock.Now();
}

Worker::Impl::~Impl() { rte_pktmbuf_free_bulk(stash.data(), stash_count); }

void Worker::Impl::ThreadMain() {
  pthread_setname_np(pthread_self(), "uroce-worker");
  PinTo(config.core);
  prctl(PR_SET_TIMERSLACK, 1);  // Sleeps end when they should, not 50 us later.
  // A thread that DPDK knows has a cache of every mempool; without it each frame costs a ring
  // access and comes back cold.
  const bool registered = rte_thread_register() == 0;
  if (config.grace != nullptr) config.grace->Enter(config.index);
  while (!stop.load(std::memory_order_relaxed)) {
    const bool busy = Turn(clock.Now());
    switch (idle.AfterTurn(busy, now)) {
      case IdleStep::kPoll:
        break;
      case IdleStep::kYield:
        sched_yield();
        break;
      case IdleStep::kSleep:
        Sleep();
        break;
    }
  }
  if (config.grace != nullptr) config.grace->Leave(config.index);
  if (registered) rte_thread_unregister();
}

bool Worker::Impl::Turn(Nanos time) {
  Account(time);
  bool busy = mailbox.HasRequest();
  if (busy) mailbox.Serve();
  if (!taps.list.empty()) taps.BeginTurn(clock, now);
  busy |= FinishCopies();
  if (!key_waits.empty()) busy |= EndKeyWaits();
  busy |= Receive();
  busy |= TakeDoorbells();
  if (postponed != 0) busy |= TakePostponed();
  if (!held.empty()) busy |= ReleaseHeld();
  if (!failing_rings.empty()) busy |= FailQueuePairs();
  busy |= Expire();
  // Programs see what is complete before the time that sending takes.
  SettleAll();
  FinishBursts();
  if (Transmit()) {
    busy = true;
    SettleAll();
    FinishBursts();
  }
  if (now >= record_retries.next()) record_retries.Pass(now);
  if (!ended_flights.empty()) HandOverFlights();
  TendSessions();
  if (config.grace != nullptr) config.grace->Pass(config.index);
  was_busy = busy;
  return busy;
}

void Worker::Impl::Account(Nanos time) {
  Count(own_counters.turns);
  ++turn;
  if (was_busy) Count(own_counters.busy_ns, static_cast<uint64_t>((time - now).count()));
  now = time;
}

Worker::Worker(const WorkerConfig& config) : impl_(std::make_unique<Impl>(config)) {}

Worker::~Worker() { Stop(); }

void Worker::Start() {
  Impl& impl = *impl_;
  if (impl.running.exchange(true)) return;
  impl.stop.store(false);
  impl.thread = std::thread([&impl] { impl.ThreadMain(); });
}

void Worker::Stop() {
  Impl& impl = *impl_;
  const std::lock_guard lock(impl.run_mutex);
  if (!impl.running.load()) return;
  impl.stop.store(true);
  impl.sleeper.Wake();
  impl.thread.join();
  impl.running.store(false);
}

void Worker::Run(absl::FunctionRef<void()> work) {
  Impl& impl = *impl_;
  const std::lock_guard lock(impl.run_mutex);
  if (!impl.running.load()) {
    work();
    return;
  }
  impl.mailbox.Post(work);
  Wake();
  impl.mailbox.WaitDone();
}

void Worker::RunForEach(std::span<QueuePair* const> queue_pairs,
                        absl::FunctionRef<void(QueuePair&)> work) {
  while (!queue_pairs.empty()) {
    const std::span some = queue_pairs.first(std::min(queue_pairs.size(), kQueuePairsPerRun));
    Run([&] {
      for (QueuePair* qp : some) work(*qp);
    });
    queue_pairs = queue_pairs.subspan(some.size());
  }
}

void Worker::Hold() {
  Impl& impl = *impl_;
  impl.run_mutex.lock();
  if (!impl.running.load()) return;
  impl.mailbox.Post(impl.stand_still_request);
  Wake();
}

void Worker::AwaitHold() {
  if (impl_->running.load()) impl_->stand_still.held.Acquire();
}

void Worker::Release() {
  Impl& impl = *impl_;
  if (impl.running.load()) {
    impl.stand_still.released.Release();
    impl.mailbox.WaitDone();
  }
  impl.run_mutex.unlock();
}

void Worker::Wake() {
  rings::FullFence();
  if (impl_->asleep.load(std::memory_order_relaxed)) impl_->sleeper.Wake();
}

bool Worker::RunOnce(Nanos now) { return impl_->Turn(now); }

uint32_t Worker::index() const { return impl_->config.index; }
const WorkerCounters& Worker::counters() const { return impl_->own_counters; }

void Worker::AddDevice(Device* device) {
  const auto position = static_cast<uint16_t>(impl_->ports.size());
  impl_->ports.push_back(
      std::make_unique<DevicePort>(device, position, &impl_->handover, &impl_->taps));
  const int fd = impl_->ports.back()->wait_fd();
  if (fd >= 0) impl_->sleeper.WatchReadable(fd);
}

void Worker::AddSession(Session* session) { impl_->AddSession(session); }
void Worker::RemoveSession(Session* session) { impl_->RemoveSession(session); }
void Worker::AddQueuePair(QueuePair* queue_pair) { impl_->AddQueuePair(queue_pair); }
void Worker::RemoveQueuePair(QueuePair* queue_pair) { impl_->RemoveQueuePair(queue_pair); }

bool Worker::LookForSends(QueuePair* queue_pair) {
  const bool sends = queue_pair->state() == transport::QpState::kRts;
  if (!sends || !queue_pair->HasUnsent()) return false;
  queue_pair->links().sends_wait = true;
  impl_->Touch(*queue_pair);
  return true;
}

void Worker::AddSharedReceiveQueue(SharedReceiveQueue* queue) {
  impl_->AddSharedReceiveQueue(queue);
}
void Worker::RemoveSharedReceiveQueue(SharedReceiveQueue* queue) {
  impl_->RemoveSharedReceiveQueue(queue);
}
void Worker::SetReceiveLimit(SharedReceiveQueue* queue, uint32_t limit) {
  queue->SetLimit(limit);
  if (queue->has_pending_record()) impl_->WantRetry(*queue);
}

void Worker::RemoveCompletionRing(CompletionRing* ring) {
  impl_->record_retries.Remove({.ring = ring});
  std::erase(impl_->failing_rings, ring);
}
void Worker::FailQueuePairsOf(CompletionRing* ring) { impl_->FailQueuePairsOf(*ring); }

void Worker::Modify(QueuePair* queue_pair, transport::QpState state, const Attributes& attributes,
                    const Path* path) {
  impl_->Modify(queue_pair, state, attributes, path);
}

void Worker::RewritePaths(PathRewriter rewrite) { impl_->RewritePaths(rewrite); }
void Worker::SetSelectiveRepeat(AgreementOf agreement) { impl_->SetSelectiveRepeat(agreement); }
void Worker::FollowMac(const Device& device, const Mac& old) { impl_->FollowMac(device, old); }

void Worker::AddTap(CaptureTap* tap) { impl_->taps.list.push_back(tap); }
void Worker::RemoveTap(CaptureTap* tap) {
  tap->Publish(kNever);
  std::erase(impl_->taps.list, tap);
}

}  // namespace uroce::datapath
