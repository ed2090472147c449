// SPDX-License-Identifier: Apache-2.0
#include "pipeline/os/side_thread.h"

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace uroce {
namespace {

// An idle thread is kept for a while: starting one takes as long as a command.
constexpr std::chrono::milliseconds kIdleTime{100};
constexpr std::chrono::microseconds kAwaitPoll{50};

std::atomic<uint32_t> left_behind{0};  // The number of states whose objects are destroyed.
// The number of works that are not destroyed. The last owner of an object may be the object's work.
std::atomic<uint64_t> works_left{0};

}  // namespace

struct SideThread::State {
  explicit State(std::shared_ptr<void> its_held) : held(std::move(its_held)) {}
  ~State() { left_behind.fetch_sub(1, std::memory_order_release); }

  const std::shared_ptr<void> held;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> waiting;
  bool is_running = false;
  bool is_abandoned = false;
};

/// Work of destroyed objects, for which the system refused a thread.
struct SideThread::Stranded {
  static Stranded& Get() {
    static auto* const all = new Stranded;  // Threads may use it until the process ends.
    return *all;
  }

  std::mutex mutex;
  std::vector<std::shared_ptr<State>> states;
};

SideThread::SideThread(std::shared_ptr<void> held)
    : state_(std::make_shared<State>(std::move(held))) {}

SideThread::~SideThread() {
  left_behind.fetch_add(1, std::memory_order_relaxed);
  {
    const std::lock_guard lock(state_->mutex);
    state_->is_abandoned = true;
  }
  state_->changed.notify_one();
  {
    Stranded& stranded = Stranded::Get();
    const std::lock_guard lock(stranded.mutex);
    stranded.states.push_back(std::move(state_));
  }
  LaunchStranded();
}

void SideThread::LaunchStranded() {
  Stranded& stranded = Stranded::Get();
  const std::lock_guard lock(stranded.mutex);
  std::erase_if(stranded.states, [](const auto& state) { return LaunchIfNeeded(state); });
}

bool SideThread::Do(std::function<void()> work) {
  works_left.fetch_add(1, std::memory_order_relaxed);
  {
    const std::lock_guard lock(state_->mutex);
    state_->waiting.push_back(std::move(work));
  }
  state_->changed.notify_one();
  return Launch();
}

bool SideThread::Launch() { return LaunchIfNeeded(state_); }

bool SideThread::LaunchIfNeeded(const std::shared_ptr<State>& state) {
  const std::lock_guard lock(state->mutex);
  if (state->is_running || state->waiting.empty()) return true;
  try {
    std::thread([state] { Run(state); }).detach();
  } catch (const std::system_error&) {
    return false;
  }
  state->is_running = true;
  return true;
}

void SideThread::End(std::shared_ptr<void> last) {
  Do([last = std::move(last)]() mutable { last.reset(); });
}

bool SideThread::AwaitAll(std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (works_left.load(std::memory_order_acquire) != 0 ||
         left_behind.load(std::memory_order_acquire) != 0) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(kAwaitPoll);
  }
  return true;
}

void SideThread::Run(const std::shared_ptr<State>& state) {
  pthread_setname_np(pthread_self(), "uroce-side");
  std::unique_lock lock(state->mutex);
  for (;;) {
    state->changed.wait_for(lock, kIdleTime,
                            [&] { return state->is_abandoned || !state->waiting.empty(); });
    if (state->waiting.empty()) break;
    std::function<void()> work = std::move(state->waiting.front());
    state->waiting.pop_front();
    lock.unlock();
    work();
    work = nullptr;
    works_left.fetch_sub(1, std::memory_order_release);
    lock.lock();
  }
  state->is_running = false;
}

}  // namespace uroce
