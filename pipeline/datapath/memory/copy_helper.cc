// SPDX-License-Identifier: Apache-2.0
// A program's helper thread, which copies between frames and memory that the daemon does not map.
#include "pipeline/datapath/memory/copy_helper.h"

#include <fcntl.h>
#include <pthread.h>
#include <rte_mbuf.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "pipeline/base/spin.h"
#include "pipeline/datapath/memory/copy_lanes.h"
#include "pipeline/datapath/memory/job_generations.h"
#include "pipeline/datapath/memory/stage.h"
#include "pipeline/shm/rings/shared_word.h"

namespace uroce::datapath {

// The helper's thread, the queue to it and the queues back to the workers.

namespace {

constexpr int64_t kSpinBeforeSleepNs = 20'000;
// A queue pair takes so long to send or receive the 256 KB of a job: a wake-up would delay it.
constexpr int64_t kSpinWithStageNs = 200'000;
constexpr std::chrono::seconds kStopLimit{1};
// Of less, a worker that may access the memory itself is faster than a thread that may have to be
// woken.
constexpr uint32_t kLeastForProgram = 16 << 10;
constexpr uint32_t kLeastRangesForProgram = 3;

bool IsLarge(uint32_t bytes, uint32_t ranges) {
  return bytes >= kLeastForProgram || ranges >= kLeastRangesForProgram;
}

std::atomic<uint32_t> live_helpers{0};  // Counts a helper until its last user has released it.

enum class Outcome : uint8_t { kDone, kRefused, kProcessEnded };

Outcome OutcomeOf(ssize_t moved) { return moved == 0 ? Outcome::kProcessEnded : Outcome::kRefused; }

/// Counts `bytes` as moved.
void Pass(CopyJob& job, uint64_t bytes) {
  while (bytes != 0) {
    CopyPiece& piece = job.pieces[job.moved_pieces];
    const auto part = static_cast<uint32_t>(std::min<uint64_t>(bytes, piece.length_bytes));
    piece.app_addr += part;
    piece.bytes += part;
    piece.length_bytes -= part;
    bytes -= part;
    if (piece.length_bytes == 0) ++job.moved_pieces;
  }
}

/// The ways to the memory of a program. `stage` and `stop` are the helper's alone.
struct Ways {
  int fd = -1;
  Stage* stage = nullptr;
  const std::atomic<bool>* stop = nullptr;

  Stage::Waiter waiter() const { return {*stop, fd}; }
};

ssize_t MoveSome(const Ways& ways, const CopyJob& job) {
  const CopyPiece& first = job.pieces[job.moved_pieces];
  if (first.is_staged) return ways.stage->Move(job, job.moved_pieces, ways.waiter());
  const CopyVector vector = GatherPieces(job, job.moved_pieces);
  const auto at = static_cast<off_t>(first.app_addr);
  return job.kind == CopyJob::Kind::kRead
             ? preadv(ways.fd, vector.entries.data(), vector.count, at)
             : pwritev(ways.fd, vector.entries.data(), vector.count, at);
}

Outcome MoveAll(const Ways& ways, CopyJob& job) {
  job.moved_pieces = 0;
  while (job.moved_pieces < job.piece_count) {
    const ssize_t moved = MoveSome(ways, job);
    if (moved <= 0) return job.moved_pieces < job.own_pieces ? OutcomeOf(moved) : Outcome::kDone;
    Pass(job, static_cast<uint64_t>(moved));
  }
  return Outcome::kDone;
}

ssize_t ReadWord(const Ways& ways, const CopyPiece& piece, uint64_t& word) {
  if (piece.is_staged) {
    return ways.stage->MoveWord(UROCE_STAGE_READ, piece.app_addr, word, ways.waiter());
  }
  return pread(ways.fd, &word, sizeof(word), static_cast<off_t>(piece.app_addr));
}

ssize_t WriteWord(const Ways& ways, const CopyPiece& piece, uint64_t word) {
  if (piece.is_staged) {
    return ways.stage->MoveWord(UROCE_STAGE_WRITE, piece.app_addr, word, ways.waiter());
  }
  return pwrite(ways.fd, &word, sizeof(word), static_cast<off_t>(piece.app_addr));
}

Outcome ExecuteAtomic(const Ways& ways, CopyJob& job) {
  ssize_t moved = ReadWord(ways, job.pieces[0], job.original);
  if (moved != sizeof(job.original)) return OutcomeOf(moved);
  uint64_t updated = job.original + job.swap_add;
  if (job.kind == CopyJob::Kind::kCompareSwap) {
    if (job.original != job.compare) return Outcome::kDone;
    updated = job.swap_add;
  }
  moved = WriteWord(ways, job.pieces[0], updated);
  return moved == sizeof(updated) ? Outcome::kDone : OutcomeOf(moved);
}

/// False: no queue pair waits for the job any more.
bool Begin(CopyJob& job) {
  auto queued = CopyJob::Phase::kQueued;
  return job.phase.compare_exchange_strong(queued, CopyJob::Phase::kBegun,
                                           std::memory_order_acq_rel);
}

bool IsAtomic(const CopyJob& job) {
  return job.kind == CopyJob::Kind::kFetchAdd || job.kind == CopyJob::Kind::kCompareSwap;
}

Outcome Execute(const Ways& ways, CopyJob& job) {
  return IsAtomic(job) ? ExecuteAtomic(ways, job) : MoveAll(ways, job);
}

/// A thread that a worker starts would stay on the worker's CPU.
void UseAllCpus() {
  cpu_set_t cpus;
  std::memset(&cpus, 0xff, sizeof(cpus));
  pthread_setaffinity_np(pthread_self(), sizeof(cpus), &cpus);
}

void Signal(int event_fd) {
  const uint64_t one = 1;
  // A full counter is readable already, which is all that a waiting thread needs.
  [[maybe_unused]] const ssize_t written = write(event_fd, &one, sizeof(one));
}

void DeleteAll(CopyJobQueue& jobs) {
  while (CopyJob* job = jobs.Take()) delete job;
}

}  // namespace

uint32_t CopyJob::bytes() const {
  uint32_t sum = 0;
  for (uint32_t i = 0; i < piece_count; ++i) sum += pieces[i].length_bytes;
  return sum;
}

uint32_t CopyJob::ranges() const {
  uint32_t sum = 0;
  for (uint32_t i = 0; i < piece_count; ++i) {
    const CopyPiece* const before = i == 0 ? nullptr : &pieces[i - 1];
    if (before == nullptr || before->app_addr + before->length_bytes != pieces[i].app_addr) ++sum;
  }
  return sum;
}

// A frame may still be linked in its queue pair's list, so only this segment is freed.
void CopyJob::DropBatched() {
  for (uint32_t i = 0; i < batched_count; ++i) rte_pktmbuf_free_seg(batched[i].frame);
  batched_count = 0;
}

CopyJob::~CopyJob() {
  DropBatched();
  if (frame != nullptr) rte_pktmbuf_free(frame);
}

void CopyJobQueue::Post(CopyJob* job) {
  CopyJob* newest = newest_.load(std::memory_order_relaxed);
  do {
    job->next = newest;
  } while (!newest_.compare_exchange_weak(newest, job, std::memory_order_release,
                                          std::memory_order_relaxed));
}

CopyJob* CopyJobQueue::Take() {
  if (taken_ == nullptr) {
    CopyJob* newest = newest_.exchange(nullptr, std::memory_order_acquire);
    while (newest != nullptr) {  // The list has the newest first: reverse it.
      CopyJob* const older = newest->next;
      newest->next = taken_;
      taken_ = newest;
      newest = older;
    }
  }
  CopyJob* const job = taken_;
  if (job != nullptr) taken_ = job->next;
  return job;
}

// All workers share one queue to the helper, so all jobs have one order. The queue costs a worker
// one locked instruction, which is nothing beside the system call of a job.
struct CopyHelper::Shared {
  /// The part of one worker.
  struct alignas(64) Lane {
    int wake_fd = -1;
    // Used by the worker alone.
    uint32_t in_flight = 0;
    AccessRest rest;
    AccessSpeed speed;
    std::atomic<bool> sleeps{false};
    CopyJobQueue done;
  };

  Shared(ProgramMemory its_memory, std::span<const int> wake_fds)
      : memory(std::move(its_memory)), own_fd(eventfd(0, EFD_CLOEXEC)), lanes(wake_fds.size()) {
    for (size_t i = 0; i < wake_fds.size(); ++i) {
      lanes[i].wake_fd = fcntl(wake_fds[i], F_DUPFD_CLOEXEC, 0);
    }
    live_helpers.fetch_add(1, std::memory_order_relaxed);
  }
  ~Shared() {
    DeleteAll(to_helper);
    DeleteAll(orphaned);
    for (Lane& lane : lanes) {
      DeleteAll(lane.done);
      close(lane.wake_fd);
    }
    if (memory.fd >= 0) close(memory.fd);
    delete stage.load(std::memory_order_relaxed);
    DropLanes();
    close(own_fd);
    live_helpers.fetch_sub(1, std::memory_order_release);
  }

  void DropLanes() {
    for (std::atomic<CopyLanes*>* const place : {&lanes_of_program, &lanes_of_stage}) {
      CopyLanes* const its = place->exchange(nullptr, std::memory_order_acq_rel);
      if (its == nullptr) continue;
      its->TakeAll([](CopyJob* job) { delete job; });
      delete its;
    }
  }
  /// The lanes that there are.
  struct Lanes {
    CopyLanes* const* begin() const { return all.data(); }
    CopyLanes* const* end() const { return all.data() + count; }
    std::array<CopyLanes*, 2> all{};
    size_t count = 0;
  };
  Lanes all_lanes() const {
    Lanes lanes;
    for (const std::atomic<CopyLanes*>* const place : {&lanes_of_program, &lanes_of_stage}) {
      CopyLanes* const its = place->load(std::memory_order_acquire);
      if (its != nullptr) lanes.all[lanes.count++] = its;
    }
    return lanes;
  }

  /// The job is done, or left out.
  void EndPhase(CopyJob& job) {
    const auto before = job.phase.exchange(CopyJob::Phase::kAtWorker, std::memory_order_acq_rel);
    if (before == CopyJob::Phase::kLate) late_writes.fetch_sub(1, std::memory_order_release);
  }

  ProgramMemory memory;
  const int own_fd;
  CopyJobQueue to_helper;
  CopyJobQueue orphaned;  // Used by the helper: jobs whose process has ended.
  std::vector<Lane> lanes;
  std::atomic<Stage*> stage{nullptr};
  std::atomic<CopyLanes*> lanes_of_program{nullptr};
  std::atomic<CopyLanes*> lanes_of_stage{nullptr};
  std::mutex launch_mutex;
  std::atomic<bool> launched{false};
  std::atomic<bool> stop{false};
  std::atomic<bool> helper_sleeps{false};
  std::atomic<uint32_t> late_writes{0};
  JobGenerations jobs;
};

CopyHelper::CopyHelper(ProgramMemory memory, std::span<const int> wake_fds)
    : shared_(std::make_shared<Shared>(std::move(memory), wake_fds)) {}

bool CopyHelper::Launch() {
  if (shared_->launched.load(std::memory_order_acquire)) [[likely]]
    return true;
  const std::lock_guard lock(shared_->launch_mutex);
  if (shared_->launched.load(std::memory_order_relaxed)) return true;
  try {
    std::thread([shared = shared_] { Run(shared); }).detach();
  } catch (const std::system_error&) {
    return false;
  }
  shared_->launched.store(true, std::memory_order_release);
  return true;
}

// The thread also closes the memory, which may block: without a thread another one does.
CopyHelper::~CopyHelper() {
  Launch();
  shared_->stop.store(true, std::memory_order_seq_cst);
  Signal(shared_->own_fd);
}

void CopyHelper::AwaitAll() {
  const auto limit = std::chrono::steady_clock::now() + kStopLimit;
  while (live_helpers.load(std::memory_order_acquire) != 0 &&
         std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

bool CopyHelper::DoNow(uint32_t worker, CopyJob& job) {
  if (!shared_->memory.by_workers) return false;
  Shared::Lane& lane = shared_->lanes[worker];
  if (IsAtomic(job) && (shared_->lanes.size() != 1 || lane.in_flight != 0)) return false;
  const auto begin = std::chrono::steady_clock::now();
  if (lane.rest.IsOn(begin)) [[unlikely]]
    return false;
  const uint32_t bytes = IsAtomic(job) ? 0 : job.bytes();
  const Outcome outcome = Execute({.fd = shared_->memory.fd}, job);
  const auto end = std::chrono::steady_clock::now();
  lane.rest.Note(begin, end, shared_->memory.long_access);
  job.succeeded = outcome == Outcome::kDone;
  if (job.succeeded && bytes >= kLeastForProgram) lane.speed.Note(bytes, end - begin);
  return outcome != Outcome::kProcessEnded;
}

void AccessRest::Note(Time begin, Time end, Time::duration long_access) {
  if (end - begin < long_access) [[likely]] {
    if (since_long_ != kFew) ++since_long_;
    return;
  }
  if (since_long_ < kFew) until_ = end + kTimesAsLong * (end - begin);
  since_long_ = 0;
}

void AccessSpeed::Note(uint32_t bytes, std::chrono::nanoseconds took) {
  lane_copies_ = 0;
  least_ = std::min(least_, static_cast<uint64_t>(took.count()) * (64 << 10) / bytes);
  if (++copies_ < kWindow) return;
  is_slow_ = least_ > static_cast<uint64_t>(kSlowestOf64KiB.count());
  copies_ = 0;
  least_ = UINT64_MAX;
}

void CopyHelper::Submit(uint32_t worker, CopyJob* job) {
  job->worker = worker;
  ++shared_->lanes[worker].in_flight;
  job->generation = shared_->jobs.Begin();
  CopyLanes* const own = shared_->lanes_of_program.load(std::memory_order_acquire);
  for (CopyLanes* const lanes : shared_->all_lanes()) {
    const auto now = std::chrono::steady_clock::now();
    const bool is_for_lane =
        lanes != own || !shared_->memory.by_workers || IsLarge(job->bytes(), job->ranges());
    if (!is_for_lane || !lanes->Takes(worker, *job, now)) continue;
    if (lanes == own) shared_->lanes[worker].speed.NoteLane();
    job->phase.store(CopyJob::Phase::kInLane, std::memory_order_relaxed);
    job->lanes = lanes;
    return lanes->Post(worker, job, now);
  }
  GiveToThread(job);
}

bool CopyHelper::IsForProgram(uint32_t worker, uint32_t bytes, uint32_t ranges) const {
  const CopyLanes* const lanes = shared_->lanes_of_program.load(std::memory_order_acquire);
  if (lanes == nullptr || !IsLarge(bytes, ranges)) return false;
  const bool is_for_worker = shared_->memory.by_workers && ranges < kLeastRangesForProgram &&
                             !shared_->lanes[worker].speed.IsSlow();
  return !is_for_worker && lanes->HasRoom(worker, std::chrono::steady_clock::now());
}

void CopyHelper::GiveToThread(CopyJob* job) {
  job->phase.store(CopyJob::Phase::kQueued, std::memory_order_relaxed);
  shared_->to_helper.Post(job);
  Launch();
  rings::FullFence();
  if (shared_->helper_sleeps.load(std::memory_order_relaxed)) Signal(shared_->own_fd);
}

CopyJob* CopyHelper::PollDone(uint32_t worker) {
  Shared::Lane& lane = shared_->lanes[worker];
  for (CopyLanes* const lanes : shared_->all_lanes()) {
    while (lanes->in_flight(worker) != 0) {
      const CopyLanes::Taken taken = lanes->Take(worker, std::chrono::steady_clock::now());
      if (taken.job == nullptr) break;
      const bool is_wanted =
          taken.job->phase.load(std::memory_order_relaxed) == CopyJob::Phase::kInLane;
      if (taken.is_for_helper && is_wanted) {
        GiveToThread(taken.job);
        continue;
      }
      shared_->EndPhase(*taken.job);
      shared_->jobs.End(taken.job->generation);
      --lane.in_flight;
      return taken.job;
    }
  }
  if (lane.in_flight == in_lane(worker) || !Launch()) return nullptr;
  CopyJob* const job = lane.done.Take();
  if (job != nullptr) --lane.in_flight;
  return job;
}

void CopyHelper::Abandon(CopyJob& job) {
  using enum CopyJob::Phase;
  auto phase = job.phase.load(std::memory_order_relaxed);
  if (phase == kInLane) {
    job.lanes->Abandon(job.worker, job);
    return job.phase.store(kWithdrawn, std::memory_order_relaxed);
  }
  phase = kQueued;
  if (job.phase.compare_exchange_strong(phase, kWithdrawn, std::memory_order_acq_rel)) return;
  if (phase != kBegun || job.kind == CopyJob::Kind::kRead) return;
  shared_->late_writes.fetch_add(1, std::memory_order_relaxed);
  if (job.phase.compare_exchange_strong(phase, kLate, std::memory_order_acq_rel)) return;
  shared_->late_writes.fetch_sub(1, std::memory_order_relaxed);  // It has just ended.
}

bool CopyHelper::HasLateWrites() const {
  return shared_->late_writes.load(std::memory_order_acquire) != 0 ||
         std::ranges::any_of(shared_->all_lanes(),
                             [](const CopyLanes* lanes) { return lanes->HasLateWrites(); });
}

uint32_t CopyHelper::in_lane(uint32_t worker) const {
  uint32_t sum = 0;
  for (const CopyLanes* const lanes : shared_->all_lanes()) sum += lanes->in_flight(worker);
  return sum;
}

uint32_t CopyHelper::in_flight(uint32_t worker) const { return shared_->lanes[worker].in_flight; }

bool CopyHelper::AwaitsStage(uint32_t worker) const {
  if (shared_->stage.load(std::memory_order_acquire) == nullptr) return false;
  const CopyLanes* const lanes = shared_->lanes_of_stage.load(std::memory_order_acquire);
  return in_flight(worker) != in_lane(worker) ||
         (lanes != nullptr && lanes->in_flight(worker) != 0);
}

bool CopyHelper::AnnounceSleep(uint32_t worker) {
  Shared::Lane& lane = shared_->lanes[worker];
  lane.sleeps.store(true, std::memory_order_relaxed);
  rings::FullFence();
  return lane.done.empty() &&
         std::ranges::none_of(shared_->all_lanes(),
                              [worker](const CopyLanes* lanes) { return lanes->HasDone(worker); });
}

void CopyHelper::AnnounceAwake(uint32_t worker) {
  shared_->lanes[worker].sleeps.store(false, std::memory_order_relaxed);
}

uint64_t CopyHelper::submitted() const { return shared_->jobs.begun(); }

uint64_t CopyHelper::generation() const { return shared_->jobs.newest(); }

bool CopyHelper::AreDone(uint64_t generation) const { return shared_->jobs.HaveEnded(generation); }

bool CopyHelper::is_by_workers() const { return shared_->memory.by_workers; }

void CopyHelper::SetStage(std::unique_ptr<Stage> stage, std::unique_ptr<CopyLanes> lanes) {
  shared_->lanes_of_stage.store(lanes.release(), std::memory_order_release);
  SetStage(std::move(stage));
}

void CopyHelper::SetStage(std::unique_ptr<Stage> stage) {
  shared_->stage.store(stage.release(), std::memory_order_release);
}

void CopyHelper::SetLanes(std::unique_ptr<CopyLanes> lanes) {
  shared_->lanes_of_program.store(lanes.release(), std::memory_order_release);
}

const LaneCounters* CopyHelper::lane_counters() const {
  const CopyLanes* const lanes = shared_->lanes_of_program.load(std::memory_order_acquire);
  return lanes != nullptr ? &lanes->counters() : nullptr;
}

uint32_t CopyHelper::workers() const { return static_cast<uint32_t>(shared_->lanes.size()); }

const StageCounters* CopyHelper::stage_counters() const {
  const Stage* const stage = shared_->stage.load(std::memory_order_acquire);
  return stage != nullptr ? &stage->counters() : nullptr;
}

const LaneCounters* CopyHelper::stage_lane_counters() const {
  const CopyLanes* const lanes = shared_->lanes_of_stage.load(std::memory_order_acquire);
  return lanes != nullptr ? &lanes->counters() : nullptr;
}

void CopyHelper::Run(const std::shared_ptr<Shared>& shared) {
  UseAllCpus();
  // The kernel also checks the writer's rights: a program must not gain the daemon's privilege.
  const bool may_touch = ActFor(shared->memory.user);
  SpinPolicy spin;
  while (!shared->stop.load(std::memory_order_acquire)) {
    CopyJob* const job = shared->to_helper.Take();
    Stage* const stage = shared->stage.load(std::memory_order_acquire);
    const IdleStep step = spin.AfterLook(job != nullptr, SpinTimeNs(),
                                         stage != nullptr ? kSpinWithStageNs : kSpinBeforeSleepNs);
    if (job != nullptr) {
      Shared::Lane& lane = shared->lanes[job->worker];
      const Ways ways{shared->memory.fd, stage, &shared->stop};
      const bool is_wanted = Begin(*job);
      const Outcome outcome = may_touch && is_wanted ? Execute(ways, *job) : Outcome::kRefused;
      shared->EndPhase(*job);
      job->succeeded = outcome == Outcome::kDone;
      const bool is_orphan = outcome == Outcome::kProcessEnded;
      shared->jobs.End(job->generation);
      (is_orphan ? shared->orphaned : lane.done).Post(job);
      rings::FullFence();
      if (lane.sleeps.load(std::memory_order_relaxed)) Signal(lane.wake_fd);
      const bool is_stopped = shared->stop.load(std::memory_order_relaxed);
      if (is_orphan && !is_stopped && shared->memory.on_end) {
        std::exchange(shared->memory.on_end, nullptr)();
      }
      spin.BeginWait(SpinTimeNs());
      continue;
    }
    if (step == IdleStep::kYield) sched_yield();
    if (step != IdleStep::kSleep) continue;
    shared->helper_sleeps.store(true, std::memory_order_relaxed);
    rings::FullFence();
    uint64_t signals = 0;
    if (shared->to_helper.empty() && !shared->stop.load(std::memory_order_relaxed)) {
      [[maybe_unused]] const ssize_t got = read(shared->own_fd, &signals, sizeof(signals));
    }
    shared->helper_sleeps.store(false, std::memory_order_relaxed);
  }
  // All may block, and no other thread waits for this one.
  close(std::exchange(shared->memory.fd, -1));
  delete shared->stage.exchange(nullptr, std::memory_order_acq_rel);
  shared->DropLanes();
}

namespace {

/// `joins`: the bytes may be one entry with those of the entry before, since each entry costs. The
/// kernel copies an entry in steps of 4,096 bytes, so pieces stay in their order where they begin
/// with a step.
void Add(CopyVector& vector, uint8_t* bytes, uint64_t length_bytes, bool joins) {
  if (length_bytes == 0) return;
  if (joins && vector.count != 0) {
    iovec& before = vector.entries[vector.count - 1];
    if (before.iov_len % 4096 == 0 &&
        static_cast<uint8_t*>(before.iov_base) + before.iov_len == bytes) {
      before.iov_len += length_bytes;
      return;
    }
  }
  vector.entries[vector.count++] = {bytes, length_bytes};
}

}  // namespace

uint32_t BytesOfLastWord(const CopyPiece& piece) {
  const uint64_t past_eight = (piece.app_addr + piece.length_bytes - 1) % 8 + 1;
  return static_cast<uint32_t>(std::min<uint64_t>(past_eight, piece.length_bytes));
}

CopyVector GatherPieces(const CopyJob& job, uint32_t first) {
  CopyVector vector;
  uint64_t next = job.pieces[first].app_addr;
  for (uint32_t i = first; i < job.piece_count && job.pieces[i].app_addr == next; ++i) {
    const CopyPiece& piece = job.pieces[i];
    if (piece.is_staged) break;
    const bool ends_write = job.kind == CopyJob::Kind::kWrite && piece.ends_message;
    const uint64_t end_bytes = ends_write ? BytesOfLastWord(piece) : 0;
    Add(vector, piece.bytes, piece.length_bytes - end_bytes, /*joins=*/true);
    Add(vector, piece.bytes + piece.length_bytes - end_bytes, end_bytes, /*joins=*/false);
    next += piece.length_bytes;
  }
  return vector;
}

}  // namespace uroce::datapath
