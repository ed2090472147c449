// SPDX-License-Identifier: Apache-2.0
// A worker, put together from its parts, the order of a turn, and sleep without a missed wake-up.
// Only worker.cc and worker_impl.cc include this.
#include "pipeline/datapath/worker/worker_impl.h"

#include <pthread.h>
#include <rte_lcore.h>
#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "pipeline/datapath/memory/copy_lanes.h"
#include "pipeline/datapath/queue/grace_periods.h"
#include "pipeline/datapath/queue/work_queues.h"
#include "pipeline/shm/rings/shared_word.h"

namespace uroce::datapath {

void SleepControl::Wake() {
  rings::FullFence();
  if (asleep_.load(std::memory_order_relaxed)) sleeper_.Wake();
}

bool SleepControl::Announce() {
  asleep_.store(true, std::memory_order_relaxed);
  rings::FullFence();
  return sessions_.AnnounceSleep();
}

void SleepControl::Sleep(Nanos limit) { TakeBack(sleeper_.Sleep(limit)); }

void SleepControl::AnnounceAwake() {
  asleep_.store(false, std::memory_order_relaxed);
  sessions_.AnnounceAwake();
}

void SleepControl::LookForParked() {
  const std::span<const int> written = sleeper_.Look();
  TakeBack(written);
  // When Look returns as many as it can, there may be more.
  const bool is_whole = written.size() != Sleeper::kMaxEvents;
  look_at_ = is_whole ? time_.now() + SessionList::kLookInterval : time_.now();
}

void SleepControl::TakeBack(std::span<const int> written_fds) {
  if (written_fds.empty()) return;
  const Nanos time = time_.ReadClock();  // The time of the turn is from before the sleep.
  for (const int fd : written_fds) sessions_.OnEvent(fd, time);
}

namespace {

// The interval of looks at taken-back keys that a worker may still be using.
constexpr Nanos kKeyWaitInterval{50'000};
// The interval of looks at copies that programs have to make.
constexpr Nanos kLaneInterval{std::chrono::nanoseconds(CopyLanes::kPatience).count()};
// A stage has moved 256 KB by then: two wake-ups would take half as long again.
constexpr Nanos kSpinForStage{200'000};

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
      cross_worker(config.cross_worker, config.index),
      stash(config.pool),
      recorder(time),
      failed(config.failures, time),
      objects(config.index),
      waiting_packets(config.waiting, cross_worker.gates(), recorder),
      held(cross_worker.gates(), waiting_packets),
      kept_frames(config.kept),
      sessions(config.index, config.park_after, waiting_packets.frames().all()),
      sleep(sessions, time),
      ready(sessions, time),
      completions(config.overflows, time),
      congestion(stash, time),
      stalls(time),
      copies({.worker = config.index,
              .keys = *config.keys,
              .ports = objects.ports(),
              .sessions = sessions,
              .time = time,
              .stalls = stalls},
             CopyBatches(*config.keys, waiting_packets.frames(), stash)),
      key_changes(*config.keys, config.grace, ready, time),
      effects(*config.keys, copies, key_changes, kept_frames, time),
      states({.completions = completions,
              .congestion = congestion,
              .effects = effects,
              .failed = failed,
              .kept_frames = kept_frames,
              .key_changes = key_changes,
              .ready = ready,
              .waiting_packets = waiting_packets,
              .time = time,
              .acknowledge_all = [this](QueuePair& qp) { transmitter.AcknowledgeAll(qp); }}),
      executor({.effects = effects,
                .recorder = recorder,
                .held = held,
                .kept_frames = kept_frames,
                .ready = ready,
                .states = states,
                .waiting_packets = waiting_packets,
                .time = time}),
      direct({.keys = *config.keys,
              .queue_pairs = objects.queue_pairs(),
              .congestion = congestion,
              .copies = copies,
              .executor = executor,
              .recorder = recorder,
              .time = time}),
      transmitter({.keys = *config.keys,
                   .ports = objects.ports(),
                   .cross_worker = cross_worker,
                   .stash = stash,
                   .congestion = congestion,
                   .copies = copies,
                   .direct = direct,
                   .held = held,
                   .timers = timers,
                   .ready = ready,
                   .recorder = recorder,
                   .time = time}),
      settler({.completions = completions,
               .congestion = congestion,
               .key_changes = key_changes,
               .timers = timers,
               .ready = ready,
               .states = states,
               .time = time}),
      resumption({.copies = copies,
                  .effects = effects,
                  .held = held,
                  .key_changes = key_changes,
                  .executor = executor,
                  .ready = ready,
                  .states = states,
                  .transmitter = transmitter}),
      receiver({.ports = objects.ports(),
                .queue_pairs = objects.queue_pairs(),
                .cross_worker = cross_worker,
                .recorder = recorder,
                .stash = stash,
                .congestion = congestion,
                .executor = executor,
                .counters = own_counters,
                .time = time}),
      thread([this] { sleep.Wake(); }) {}

void Worker::Impl::ThreadMain() {
  pthread_setname_np(pthread_self(), "uroce-worker");
  own_counters.thread.store(gettid(), std::memory_order_relaxed);
  PinTo(config.core);
  prctl(PR_SET_TIMERSLACK, 1);  // Sleeps end when they should, not 50 us later.
  // A thread that is registered with DPDK has a cache of every mempool. Without one each frame
  // costs a ring access and is cold in the cache.
  const bool registered = rte_thread_register() == 0;
  if (config.grace != nullptr) config.grace->Enter(config.index);
  run_delay.Open();
  while (!thread.must_stop()) {
    const Nanos now = time.ReadClock();
    NoteWait(WaitBefore(now), now);
    const bool busy = Turn(now);
    switch (idle.AfterTurn(busy, time.now(), SpinBeforeSleep(busy))) {
      case IdleStep::kPoll:
        break;
      case IdleStep::kYield:
        sched_yield();
        break;
      case IdleStep::kSleep:
        has_slept = true;
        Sleep();
        break;
    }
  }
  if (config.grace != nullptr) config.grace->Leave(config.index);
  if (registered) rte_thread_unregister();
}

Nanos Worker::Impl::WaitBefore(Nanos now) {
  const Nanos since_last = now - time.now();
  return std::exchange(has_slept, false) ? std::exchange(waited_in_sleep, Nanos(0)) : since_last;
}

bool Worker::Impl::MeasuresWaits() const {
  return std::ranges::any_of(objects.ports(), [](const auto& port) {
    return std::ranges::any_of(port->environments(), [](const congestion::Environment& each) {
      return each.settings.profile == congestion::Profile::kDelay;
    });
  });
}

// A turn takes some tens of us. Round-trip times leave out longer waits, here and at peers, which
// are told: the machine causes them, not the network. Answers that arrived meanwhile, or that this
// worker has yet to send to itself, are taken before timers expire: a packet that was not lost is
// not sent again. A worker whose turns are all that long has its timers in each ninth.
void Worker::Impl::NoteWait(Nanos waited, Nanos now) {
  constexpr Nanos kLongestTurn{50'000};
  constexpr Nanos kStall{150'000};
  constexpr uint8_t kTurnsToCatchUp = 8;
  if (waited > kStall && turns_until_timers == 0) turns_until_timers = kTurnsToCatchUp + 1;
  const Nanos told = waited > kLongestTurn ? waited : Nanos(0);
  const Nanos before = std::exchange(told_wait, told);
  if (told == Nanos(0) && before == Nanos(0)) [[likely]]
    return;
  for (const auto& port : objects.ports()) port->NoteWait(told, now);
}

// A queue pair does not probe a silent peer whose answer lies in a queue: 2,000 frames at most may
// be in front of it.
bool Worker::Impl::ExpireTimers() {
  constexpr uint32_t kMostTurnsBehind = 64;
  turns_behind = receiver.has_more() ? turns_behind + 1 : 0;
  if (turns_until_timers != 0) --turns_until_timers;
  return turns_until_timers != 0 ||
         settler.Expire(turns_behind == 0 || turns_behind > kMostTurnsBehind);
}

bool Worker::Impl::Turn(Nanos now) {
  BeginTurn(now);
  bool busy = thread.Serve();
  recorder.BeginTurn();
  busy |= resumption.FinishCopies();
  busy |= resumption.EndKeyWaits();
  busy |= receiver.Receive();
  if (cross_worker.workers() != 1) busy |= receiver.TakeFromOtherWorkers();
  busy |= ready.TakeDoorbells();
  busy |= resumption.TakePostponed();
  busy |= resumption.ReleaseHeld();
  busy |= resumption.FinishDueCopies();
  busy |= states.FailOverflowed();
  busy |= ExpireTimers();
  // Programs see completions before this worker spends time on sending.
  settler.SettleTouched();
  const bool has_sent = transmitter.Transmit();
  if (has_sent) {
    busy = true;
    resumption.FinishDueCopies();
    settler.SettleTouched();
  }
  if (now >= completions.retries().next()) completions.retries().Pass(now);
  congestion.Tend();
  failed.Deliver();
  sleep.TendPrograms();
  if (config.grace != nullptr) config.grace->Pass(config.index);
  completions.poller_wakes().AfterTurn(busy, now);
  was_busy = busy;
  return busy;
}

void Worker::Impl::BeginTurn(Nanos now) {
  Count(own_counters.turns);
  if (was_busy) {
    const Nanos took = now - time.now();
    const auto took_ns = static_cast<uint64_t>(took.count());
    Count(own_counters.busy_ns, took_ns);
    own_counters.turn_ns.Add(took_ns);
    KeepMost(own_counters.longest_turn_ns, took_ns);
    stalls.OnTurn(took, now);
  }
  time.Begin(now);
}

void Worker::Impl::Sleep() {
  if (MaySleep()) {
    if (config.grace != nullptr) config.grace->Leave(config.index);
    const bool measures = MeasuresWaits();
    const Nanos before = measures ? run_delay.Read() : Nanos(0);
    sleep.Sleep(SleepLimit());
    stalls.AfterSleep();
    if (measures) waited_in_sleep = run_delay.Read() - before;
    if (config.grace != nullptr) config.grace->Enter(config.index);
  } else {
    sched_yield();  // The other end, for instance of a full ring, may need this core.
  }
  sleep.AnnounceAwake();
  for (const auto& port : objects.ports()) port->AfterSleep();
}

bool Worker::Impl::MaySleep() {
  bool quiet = sleep.Announce();
  quiet &= !thread.HasRequest() && !thread.must_stop() && !HasWork();
  for (const auto& port : objects.ports()) quiet &= port->BeforeSleep();
  return quiet;
}

bool Worker::Impl::HasWork() const {
  if (ready.has_work() || completions.any_to_fail() || !cross_worker.empty()) return true;
  return std::ranges::any_of(objects.ports(), [](const auto& port) { return port->has_work(); });
}

Nanos Worker::Impl::NextDeadline() const {
  if (was_busy || HasWork() || !key_changes.empty() || !held.empty()) return time.now();
  return std::min(timers.NextDeadline(), completions.retries().next());
}

Nanos Worker::Impl::SpinBeforeSleep(bool busy) const {
  return !busy && sessions.AwaitsStages() ? kSpinForStage : config.spin_before_sleep;
}

Nanos Worker::Impl::SleepLimit() const {
  const Nanos now = time.ReadClock();
  Nanos wake_at = std::min(timers.NextDeadline(), completions.retries().next());
  if (!key_changes.empty()) wake_at = std::min(wake_at, now + kKeyWaitInterval);
  if (!held.empty()) wake_at = std::min(wake_at, now + idle.PollInterval(now));
  if (sessions.AwaitsPrograms()) wake_at = std::min(wake_at, now + kLaneInterval);
  for (const auto& port : objects.ports()) {
    wake_at = std::min(wake_at, port->NextDeadline());
    if (port->needs_polling()) wake_at = std::min(wake_at, now + idle.PollInterval(now));
  }
  return wake_at == kNever ? kNever : wake_at - now;
}

void Worker::Impl::AddDevice(Device* device) {
  const int fd = objects.AddDevice(device, cross_worker, recorder.taps()).wait_fd();
  if (fd >= 0) sleep.sleeper().WatchReadable(fd);
}

void Worker::Impl::UnplugDevice(Device& device, drivers::Port* absent) {
  DevicePort* const port = objects.ports().Find(device);
  const int fd = port->wait_fd();
  if (fd >= 0) sleep.sleeper().Unwatch(fd);
  port->Unplug(absent);
  for (CaptureTap* tap : recorder.taps().list) tap->Forget(device.index());
}

void Worker::Impl::AddSession(Session* session) {
  sessions.Add(session, time.now());
  const int fd = session->wake_fd(config.index);
  if (fd >= 0) sleep.sleeper().WatchEvents(fd);
}

void Worker::Impl::RemoveSession(Session* session) {
  sessions.Remove(session);
  const int fd = session->wake_fd(config.index);
  if (fd >= 0) sleep.sleeper().Unwatch(fd);
  for (const auto& port : objects.ports()) port->ForgetSession(session);
}

void Worker::Impl::AddQueuePair(QueuePair& qp) {
  objects.Add(qp, sessions);
  ReserveLists();
}

void Worker::Impl::RemoveQueuePair(QueuePair& qp) {
  states.End(qp);
  failed.Remove(qp);
  Forget(qp);
  if (qp.lists().Has(WorkerList::kRetried)) {
    completions.retries().Remove({.queue_pair = &qp});
  }
}

void Worker::Impl::Forget(QueuePair& qp) {
  objects.Remove(qp);
  timers.Remove(qp);
  held.Remove(qp);
  ready.Remove(qp);
}

// All that a worker keeps of a queue pair elsewhere than in the queue pair would have to move, too:
// frames, copies, limited rates, records that wait for room. A queue pair with such things stays.
bool Worker::Impl::MayMove(QueuePair& qp) {
  const bool has_peer =
      qp.state() == transport::QpState::kRtr || qp.state() == transport::QpState::kRts;
  if (!has_peer || !qp.core().is_reliable() || !qp.is_peer_in_daemon()) return false;
  if (qp.receive_source().shared() != nullptr || qp.receive_source().is_target()) return false;
  if (qp.has_waited() || qp.kept().any() || qp.core().HasAcknowledgement()) return false;
  if (qp.history() != nullptr || qp.flow().rate.is_limited()) return false;
  return !qp.lists().Has(WorkerList::kRetried);
}

void Worker::Impl::Pause(QueuePair& qp) {
  qp.Pause();
  StopSending(qp);
}

void Worker::Impl::Resume(QueuePair& qp) {
  qp.Resume();
  ready.Touch(qp);
}

// Frames that are on their way during a move would come by the former worker, and frames that the
// queue pair sends after it would overtake them.
bool Worker::Impl::ReceiveSent(const QueuePair& qp) {
  if (!qp.has_sent_frames()) return true;
  const bool to_self = qp.peer() == PeerPlace::kSameDevice;
  if (!qp.port().IsWayEmpty(to_self)) {
    recorder.BeginTurn();
    static_cast<void>(receiver.Receive());
  }
  return qp.port().IsWayEmpty(to_self);
}

void Worker::Impl::GiveAway(QueuePair& qp) {
  StopSending(qp);
  ForgetReads(qp, time.now());
  qp.port().superframes().Close(qp);
  Forget(qp);
}

// The program may have rung the doorbell of the former worker alone: see uroce_qp_page.
void Worker::Impl::TakeOver(QueuePair& qp) {
  AddQueuePair(qp);
  rings::FullFence();
  qp.core().reliable().MoveTo(qp.port().CongestionOf(qp.traffic_class()));
  qp.works().LookForSends();
  Resume(qp);
}

void Worker::Impl::AddSharedReceiveQueue(SharedReceiveQueue& queue) {
  objects.Add(queue);
  ReserveLists();
}

void Worker::Impl::RemoveSharedReceiveQueue(SharedReceiveQueue& queue) {
  objects.Remove(queue);
  ForgetRecords(queue);
}

// Also updates attributes that wait for the end of a copy, since they were made before this call.
void Worker::Impl::SetSelectiveRepeat(QueuePair& qp, CapabilityOf capability) {
  if (!qp.core().is_reliable() || qp.path().destination == Gid{}) return;
  const std::optional<bool> agreed = capability(qp);
  if (!agreed) return;
  qp.core().reliable().SetSelectiveRepeat(*agreed);
  if (qp.is_waiting() && qp.waiting().modification) {
    qp.waiting().modification->attributes.selective_repeat = *agreed;
  }
  ready.Touch(qp);
}

void Worker::Impl::ReserveLists() {
  const size_t queue_pairs = objects.queue_pairs().size();
  const size_t rings = queue_pairs * 2 + objects.shared_queues();
  ready.Reserve(queue_pairs);
  held.Reserve(queue_pairs);
  completions.Reserve(rings, queue_pairs + rings + objects.shared_queues());
}

}  // namespace uroce::datapath
