// SPDX-License-Identifier: Apache-2.0
#include "nic/base/background_tasks.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <mutex>
#include <utility>
#include <vector>

#include "nic/base/fd.h"

namespace uroce {
namespace {

constexpr Nanos kRetryInterval{20'000'000};

}  // namespace

struct BackgroundTasks::Mailbox {
  Fd event{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::mutex mutex;
  std::vector<Id> finished;
  bool abandoned = false;  ///< Nobody will look at `finished`: a background task ends by itself.
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
