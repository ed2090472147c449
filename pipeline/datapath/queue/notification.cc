// SPDX-License-Identifier: Apache-2.0
// How workers notify programs: records on sockets, wakes of sleeping pollers, and a limit of the
// time that they take.
#include "pipeline/datapath/queue/notification.h"

#include <linux/futex.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <ctime>

#include "pipeline/shm/rings/shared_word.h"

namespace uroce::datapath {
namespace {

Nanos TimeOf(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return Nanos(int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec);
}

}  // namespace

Nanos WakePace::WallTime() { return TimeOf(CLOCK_MONOTONIC); }
Nanos WakePace::OwnTime() { return TimeOf(CLOCK_THREAD_CPUTIME_ID); }

namespace {

bool Send(int fd, uint64_t element, uint32_t event_type) {
  const uroce_event_record record{element, event_type, 0};
  return send(fd, &record, sizeof(record), MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(record) ||
         errno != EAGAIN;
}

}  // namespace

bool RecordSocket::Write(uint64_t element, uint32_t event_type) const {
  if (fd < 0) return true;
  if (pace == nullptr) return Send(fd, element, event_type);
  return pace->Run([&] { return Send(fd, element, event_type); });
}

namespace {

// The word lies in memory of this daemon, which the program shares: the kernel waits for nobody.
bool WakeSleepers(uint32_t& word, uint32_t bits) {
  return syscall(SYS_futex, &word, FUTEX_WAKE_BITSET, INT_MAX, nullptr, nullptr, bits) >= 0;
}

}  // namespace

void Pollers::Wake() const {
  if (!rings::TakePollers(*word, bit)) return;
  if (pace == nullptr) {
    WakeSleepers(word->value, bit);
  } else {
    (void)pace->Run([this] { return WakeSleepers(word->value, bit); });
  }
}

void EventRecords::Raise(uint32_t event_type) {
  if (!async_.is_open() || pending_count_ == kMaxPending) return;
  pending_[pending_count_++] = event_type;
  Retry();
}

void EventRecords::Retry() {
  uint32_t written = 0;
  while (written < pending_count_ && async_.Write(element_, pending_[written])) {
    ++written;
  }
  std::shift_left(pending_.begin(), pending_.begin() + pending_count_, written);
  pending_count_ -= written;
  written_ += written;
}

bool QueuePairReports::PublishState(transport::QpState state) {
  if (state == published_state_) return false;
  published_state_ = state;
  rings::StoreRelease(page_.state.value, static_cast<uint32_t>(state));
  rings::FullFence();
  return true;
}

template <typename Send>
void QueuePairReports::ForEachReceiver(Send&& send) {
  send(receivers_->own);
  has_pending_records_ = receivers_->own.has_pending();
  for (EventRecords* other : receivers_->others) {
    send(*other);
    has_pending_records_ |= other->has_pending();
  }
}

void QueuePairReports::RaiseEvent(uint32_t event_type) {
  ForEachReceiver([event_type](EventRecords& receiver) { receiver.Raise(event_type); });
}

void QueuePairReports::RetryRecords() {
  ForEachReceiver([](EventRecords& receiver) { receiver.Retry(); });
}

}  // namespace uroce::datapath
