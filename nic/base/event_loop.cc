// SPDX-License-Identifier: Apache-2.0
// The loop of the control thread: file descriptors, timers, and tasks that run on side threads and
// report to the loop.
#include "nic/base/event_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <mutex>
#include <utility>
#include <vector>

#include "pipeline/os/fd.h"

namespace uroce {
namespace {

constexpr int kEventsPerTurn = 64;
/// How long the loop polls for the next event before it sleeps. A client that has called once
/// mostly calls again, and waking the thread takes longer than most calls (measured on two
/// processors: from a queue pair's creation to RTS 240 us without, and 160 us with this).
constexpr Nanos kLinger{100'000};

}  // namespace

EventLoop::EventLoop() : epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_) std::abort();  // Without an fd at the start nothing works.
}

EventLoop::Id EventLoop::Watch(int fd, uint32_t events, std::function<void()> callback) {
  const Id id = next_id_++;
  epoll_event event{.events = events, .data = {.u64 = id}};
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);
  watched_[id] = {fd, std::make_shared<std::function<void()>>(std::move(callback))};
  return id;
}

void EventLoop::SetEvents(Id id, uint32_t events) {
  const auto it = watched_.find(id);
  if (it == watched_.end()) return;
  epoll_event event{.events = events, .data = {.u64 = id}};
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, it->second.fd, &event);
}

void EventLoop::Forget(Id id) {
  const auto it = watched_.find(id);
  if (it == watched_.end()) return;
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, it->second.fd, nullptr);
  watched_.erase(it);
}

Nanos EventLoop::Now() const {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return Nanos(int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec);
}

EventLoop::Id EventLoop::After(Nanos delay, std::function<void()> callback) {
  const Id id = next_id_++;
  timer_places_[id] = timers_.emplace(Now() + delay, Timer{id, std::move(callback)});
  return id;
}

void EventLoop::Cancel(Id id) {
  const auto place = timer_places_.find(id);
  if (place == timer_places_.end()) return;
  timers_.erase(place->second);
  timer_places_.erase(place);
}

void EventLoop::Run() {
  while (!stopped_) RunOnce(INT_MAX);
}

// An event of this turn may belong to an fd that an earlier callback has forgotten. So ids are
// looked up one by one, and are never used twice.
void EventLoop::RunOnce(int timeout_ms) {
  epoll_event events[kEventsPerTurn];
  if (!std::exchange(has_run_, true)) run_delay_.Open();
  const int count = Wait(events, kEventsPerTurn, timeout_ms);
  const ThreadTimes begin = ReadTimes();
  ++turn_;
  for (int i = 0; i < count; ++i) {
    const auto it = watched_.find(events[i].data.u64);
    if (it == watched_.end()) continue;
    const auto callback = it->second.callback;  // The copy survives its own Forget.
    (*callback)();
  }
  const bool was_due = FireTimers();
  if (count <= 0 && !was_due) return;
  const Nanos end = Now();
  if (count > 0) busy_at_ = end;
  CountTurn(begin, end);
}

EventLoop::ThreadTimes EventLoop::ReadTimes() const {
  return {
      .cpu = ThreadCpuTime(), .delay = run_delay_.Read(), .sleeps = ThreadSleeps(), .wall = Now()};
}

// What is long because others have the CPU says nothing of the work: other threads, or other
// virtual machines. A turn in which the thread has not slept took what it was on a CPU.
void EventLoop::CountTurn(const ThreadTimes& begin, Nanos end) {
  constexpr Nanos kLong{1'000'000};
  Nanos took = end - begin.wall;
  if (took >= kLong) {
    const ThreadTimes now = ReadTimes();
    took = std::max(took - (now.delay - begin.delay), Nanos(0));
    if (now.sleeps == begin.sleeps) took = std::min(took, now.cpu - begin.cpu);
  }
  const auto took_ns = static_cast<uint64_t>(took.count());
  turn_ns_.Add(took_ns);
  longest_turn_ns_ = std::max(longest_turn_ns_, took_ns);
}

int EventLoop::Wait(epoll_event* events, int size, int limit_ms) const {
  int count = 0;
  const Nanos linger_end =
      timers_.empty() ? busy_at_ + kLinger : std::min(busy_at_ + kLinger, timers_.begin()->first);
  while (count == 0 && limit_ms != 0 && Now() < linger_end) {
    count = epoll_wait(epoll_.get(), events, size, 0);
  }
  return count != 0 ? count : epoll_wait(epoll_.get(), events, size, TimeoutMs(limit_ms));
}

int EventLoop::TimeoutMs(int limit_ms) const {
  if (timers_.empty()) return limit_ms == INT_MAX ? -1 : limit_ms;
  const int64_t wait_ns = (timers_.begin()->first - Now()).count();
  const int64_t wait_ms = wait_ns <= 0 ? 0 : wait_ns / 1'000'000 + 1;
  return static_cast<int>(std::min<int64_t>(wait_ms, limit_ms));
}

bool EventLoop::FireTimers() {
  if (timers_.empty()) return false;
  const Nanos now = Now();
  const bool is_due = timers_.begin()->first <= now;
  while (!timers_.empty() && timers_.begin()->first <= now) {
    const Timer timer = std::move(timers_.begin()->second);
    timers_.erase(timers_.begin());
    timer_places_.erase(timer.id);
    timer.callback();
  }
  return is_due;
}

namespace {

constexpr Nanos kRetryInterval{20'000'000};

}  // namespace

struct BackgroundTasks::Mailbox {
  Fd event{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::mutex mutex;
  std::vector<Id> finished;
  bool abandoned = false;  ///< No thread will look at `finished`: a background task ends by itself.
};

BackgroundTasks::BackgroundTasks(EventLoop& loop)
    : loop_(loop),
      mailbox_(std::make_shared<Mailbox>()),
      watch_(loop.Watch(mailbox_->event.get(), EPOLLIN, [this] { OnFinished(); })) {}

BackgroundTasks::~BackgroundTasks() {
  loop_.Forget(watch_);
  loop_.Cancel(retry_);
  const std::lock_guard lock(mailbox_->mutex);
  mailbox_->abandoned = true;
  for (const Id id : mailbox_->finished) tasks_.erase(id);
  for (auto& [id, task] : tasks_) static_cast<void>(task.release());  // Its thread owns it now.
}

BackgroundTasks::Id BackgroundTasks::Start(std::function<void()> work, std::function<void()> done,
                                           std::shared_ptr<SideThread> thread) {
  const Id id = next_id_++;
  auto& its = tasks_[id];
  its = std::make_unique<Task>(Task{std::move(work), std::move(done)});
  if (thread == nullptr) thread = std::make_shared<SideThread>();
  const auto run = [id, mailbox = mailbox_, task = its.get()] {
    task->work();
    std::unique_lock lock(mailbox->mutex);
    if (mailbox->abandoned) {
      lock.unlock();
      delete task;
      return;
    }
    mailbox->finished.push_back(id);
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(mailbox->event.get(), &one, sizeof(one));
  };
  if (thread->Do(run)) return id;
  refused_.push_back(std::move(thread));
  if (refused_.size() == 1) retry_ = loop_.After(kRetryInterval, [this] { LaunchRefused(); });
  return id;
}

void BackgroundTasks::LaunchRefused() {
  std::erase_if(refused_, [](const auto& thread) { return thread->Launch(); });
  if (refused_.empty()) return;
  retry_ = loop_.After(kRetryInterval, [this] { LaunchRefused(); });
}

void BackgroundTasks::Cancel(Id id) {
  const auto it = tasks_.find(id);
  if (it != tasks_.end()) it->second->done = nullptr;
}

void BackgroundTasks::OnFinished() {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = read(mailbox_->event.get(), &count, sizeof(count));
  std::vector<Id> finished;
  {
    const std::lock_guard lock(mailbox_->mutex);
    finished.swap(mailbox_->finished);
  }
  for (const Id id : finished) {
    const auto node = tasks_.extract(id);
    if (node.mapped()->done) node.mapped()->done();
  }
}

}  // namespace uroce
