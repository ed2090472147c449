// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/queue/completion_queue.h"

#include <linux/futex.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <ctime>
#include <iterator>

#include "pipeline/datapath/queue/work_queues.h"
#include "pipeline/shm/rings/completion_queue.h"
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

// The word lies in memory of this daemon, which the program shares: the kernel waits for no page of
// the program.
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

namespace {

// Values of ibv_wc_flags.
constexpr uint8_t kWcGrh = 1;
constexpr uint8_t kWcWithImm = 2;
constexpr uint8_t kWcWithInv = 8;

// The kind of IP header in front of a datagram, coded as mlx5 does: programs take the length of the
// sender's address from it (docs/protocol/verbs-semantics.md, section 7).
constexpr uint8_t kSlOfIpv6 = 0x9;
constexpr uint8_t kSlOfIpv4 = 0xa;

constexpr uint64_t kNanosPerMicro = 1000;

// Not the worker's time of this turn, which drifts: programs compare it with their clock.
uint64_t TimeNow() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

uroce_cqe ToCqe(const transport::Completion& completion, uint32_t handle, Qpn qpn) {
  uroce_cqe cqe{};
  cqe.wr_id = completion.wr_id;
  cqe.qp_handle = handle;
  cqe.qp_num = qpn.value();
  cqe.wqe_index = completion.slot;
  cqe.byte_len = completion.length_bytes;
  cqe.imm_or_rkey = completion.immediate_or_rkey;
  cqe.status = static_cast<uint8_t>(completion.status);
  cqe.opcode = static_cast<uint8_t>(completion.opcode);
  if (completion.has_immediate) cqe.wc_flags |= kWcWithImm;
  if (completion.has_invalidate) cqe.wc_flags |= kWcWithInv;
  if (completion.is_receive) cqe.flags = UROCE_CQE_RECEIVE;
  if (completion.queue != 0) cqe.flags |= UROCE_CQE_SHARED;
  if (completion.queue > kSharedQueue) cqe.flags |= UROCE_CQE_XRC;
  if (completion.has_grh) {
    cqe.wc_flags |= kWcGrh;
    cqe.src_qp = completion.source_qpn.value();
    cqe.sl = completion.is_ipv6 ? kSlOfIpv6 : kSlOfIpv4;
  }
  return cqe;
}

}  // namespace

// Searches from the end: a program that ends destroys its newest queue pairs first.
void CompletionRing::ForgetUser(const QueuePair* qp) {
  const auto found = std::find(users_.rbegin(), users_.rend(), qp);
  if (found == users_.rend()) return;
  const auto place = std::next(found).base();
  if (static_cast<size_t>(place - users_.begin()) < left_to_fail_) --left_to_fail_;
  users_.erase(place);
}

PublishResult CompletionRing::Publish(const transport::Completion& completion, uint32_t handle,
                                      Qpn qpn) {
  if (queue_.overflowed()) return PublishResult::kInError;
  uroce_cqe cqe = ToCqe(completion, handle, qpn);
  if (queue_.config().has_times) [[unlikely]]
    cqe.time_ns = TimeNow();
  if (ring_.Push(cqe) != rings::PushResult::kOk) return Overflow();
  in_burst_ = true;
  ++published_;
  ++held_cqes_;
  // A failed work request counts as solicited (IBTA vol. 1, 11.4.2.2).
  if (completion.solicited || completion.status != transport::WcStatus::kSuccess) {
    solicited_in_burst_ = true;
  }
  return PublishResult::kOk;
}

void CompletionRing::FinishBurst() {
  in_burst_ = false;
  is_held_ = queue_.moderation().is_on() && MustHold();
  if (!is_held_) Announce();
}

bool CompletionRing::MustHold() {
  const Moderation moderation = queue_.moderation();
  rings::FullFence();
  const bool is_armed = rings::LoadRelaxed(queue_.config().page->arm.value) != UROCE_CQ_DISARMED;
  if (!is_armed || held_cqes_ >= moderation.count) return false;
  const uint64_t time_ns = TimeNow();
  if (!is_held_) held_since_ns_ = time_ns;
  return time_ns - held_since_ns_ < moderation.period_us * kNanosPerMicro;
}

void CompletionRing::Announce() {
  held_cqes_ = 0;
  const bool due = rings::TakeArming(*queue_.config().page, solicited_in_burst_);
  solicited_in_burst_ = false;
  if (!due || !queue_.config().channel.is_open()) return;
  // If an earlier record is still pending, this one is tried with it by RetryRecords.
  if (++pending_channel_ == 1) WriteRecords();
}

PublishResult CompletionRing::Overflow() {
  if (!queue_.MarkOverflowed()) return PublishResult::kInError;
  rings::StoreRelease(queue_.config().page->error.value, uint32_t{1});
  pending_error_ = queue_.config().async.is_open();
  WriteRecords();
  return PublishResult::kOverflow;
}

Nanos CompletionRing::RetryAfter() const {
  if (!is_held_) return kRecordRetry;
  const Nanos end{
      static_cast<int64_t>(held_since_ns_ + queue_.moderation().period_us * kNanosPerMicro)};
  return std::clamp(end - Nanos(static_cast<int64_t>(TimeNow())), Nanos(0), kRecordRetry);
}

void CompletionRing::RetryRecords() {
  if (is_held_) FinishBurst();
  WriteRecords();
}

void CompletionRing::WriteRecords() {
  const CompletionQueueConfig& queue = queue_.config();
  while (pending_channel_ != 0 && queue.channel.Write(queue.user_handle, UROCE_EVENT_COMPLETION)) {
    --pending_channel_;
    ++channel_records_;
  }
  if (!pending_error_) return;
  if (!queue.async.Write(queue.user_handle, kEventCqError)) return;
  pending_error_ = false;
  ++async_records_;
}

CompletionRing::Moved CompletionRing::MoveTo(const rings::CqeRingLayout& layout, uint32_t waiting) {
  const Moved moved{.from = ring_.layout(), .produced = ring_.produced(), .waiting = waiting};
  ring_ = rings::CqeProducer(layout, waiting);
  return moved;
}

}  // namespace uroce::datapath
