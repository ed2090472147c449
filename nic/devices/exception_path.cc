// SPDX-License-Identifier: Apache-2.0
#include "nic/devices/exception_path.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <span>
#include <utility>

#include "nic/base/log.h"
#include "pipeline/base/observation.h"

namespace uroce::nic {
namespace {

// The pause before a busy worker is tried again. It empties its ring within microseconds.
constexpr int kBehindMs = 1;

}  // namespace

ExceptionPath::ExceptionPath(std::string name, int tap, datapath::HostLink& link,
                             datapath::Worker& worker)
    : name_(std::move(name)),
      tap_(tap),
      link_(link),
      worker_(worker),
      stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      thread_([this] { ThreadMain(); }) {}

ExceptionPath::~ExceptionPath() {
  stopping_.store(true);
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(stop_.get(), &one, sizeof(one));
  thread_.join();
}

void ExceptionPath::ThreadMain() {
  pthread_setname_np(pthread_self(), "uroce-exception");
  while (!stopping_.load(std::memory_order_relaxed)) {
    const bool received = ToKernel();
    const bool sent = FromKernel();
    if (!received && !sent) Wait();
  }
}

// An interface that is down refuses frames; they are lost, as with a NIC that is down.
bool ExceptionPath::ToKernel() {
  int count = 0;
  for (; count < kBurst; ++count) {
    const std::span<const uint8_t> frame = link_.inbound().Front();
    if (frame.empty()) break;
    if (write(tap_, frame.data(), frame.size()) < 0) Count(link_.counters().rx_refused);
    link_.inbound().Pop();
  }
  return count != 0;
}

bool ExceptionPath::FromKernel() {
  int count = 0;
  worker_is_behind_ = false;
  for (; tap_ >= 0 && count < kBurst; ++count) {
    const std::span<uint8_t> slot = link_.outbound().Reserve();
    worker_is_behind_ = slot.empty();
    if (slot.empty()) break;
    const ssize_t length = read(tap_, slot.data(), slot.size());
    if (length < 0) {
      if (errno == EAGAIN || errno == EINTR) break;
      LogWarning("{} is gone: traffic other than RoCE has no way to the kernel any more", name_);
      tap_ = -1;
      break;
    }
    link_.outbound().Commit(static_cast<uint32_t>(length));
  }
  if (count != 0) worker_.Wake();
  return count != 0;
}

void ExceptionPath::Wait() {
  if (!link_.PrepareSleep()) return;
  pollfd fds[] = {{.fd = link_.wait_fd(), .events = POLLIN, .revents = 0},
                  {.fd = stop_.get(), .events = POLLIN, .revents = 0},
                  {.fd = worker_is_behind_ ? -1 : tap_, .events = POLLIN, .revents = 0}};
  poll(fds, std::size(fds), worker_is_behind_ ? kBehindMs : -1);
  link_.ClearWake();
}

}  // namespace uroce::nic
