// SPDX-License-Identifier: Apache-2.0
#include "pipeline/port/frames.h"

#include <rte_mbuf.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdint>

namespace uroce::drivers {

FrameQueue::FrameQueue(uint32_t depth_frames)
    : depth_(depth_frames),
      mask_(std::bit_ceil(depth_frames) - 1),
      slots_(std::make_unique<rte_mbuf*[]>(mask_ + 1)) {}

FrameQueue::~FrameQueue() {
  rte_mbuf* frame = nullptr;
  while (Take(&frame, 1) != 0) rte_pktmbuf_free(frame);
}

uint32_t FrameQueue::Room(uint32_t enough) {
  if (depth_ - (put_ - seen_consumed_) < enough) {
    seen_consumed_ = consumed_.load(std::memory_order_acquire);
  }
  return depth_ - (put_ - seen_consumed_);
}

uint16_t FrameQueue::Put(rte_mbuf* const* frames, uint16_t count) {
  const auto fitting = static_cast<uint16_t>(std::min<uint32_t>(count, Room(count)));
  if (fitting == 0) return 0;
  for (uint32_t i = 0; i < fitting; ++i) slots_[(put_ + i) & mask_] = frames[i];
  put_ += fitting;
  produced_.store(put_, std::memory_order_release);
  return fitting;
}

uint16_t FrameQueue::Take(rte_mbuf** frames, uint16_t count) {
  if (seen_produced_ - taken_ < count) seen_produced_ = produced_.load(std::memory_order_acquire);
  const auto there = static_cast<uint16_t>(std::min<uint32_t>(count, seen_produced_ - taken_));
  if (there == 0) return 0;
  for (uint32_t i = 0; i < there; ++i) frames[i] = slots_[(taken_ + i) & mask_];
  taken_ += there;
  consumed_.store(taken_, std::memory_order_release);
  return there;
}

ReceiveWake::ReceiveWake() : epoll_fd_(epoll_create1(EPOLL_CLOEXEC)) {}

ReceiveWake::~ReceiveWake() { close(epoll_fd_); }

bool ReceiveWake::Add(int fd) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  event.data.fd = fd;
  if (epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) != 0) return false;
  fds_.push_back(fd);
  return true;
}

bool ReceiveWake::AddLate(int fd) {
  if (!Add(fd)) return false;
  late_.push_back({.fd = fd, .events = POLLIN, .revents = 0});
  return true;
}

// An fd with an error only, such as that of a detached queue, has no frames.
bool ReceiveWake::IsLate() {
  if (late_.empty() || poll(late_.data(), late_.size(), 0) <= 0) return false;
  return std::ranges::any_of(late_, [](const pollfd& fd) { return (fd.revents & POLLIN) != 0; });
}

void ReceiveWake::RemoveAll() {
  for (const int fd : fds_) epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr);
  fds_.clear();
  late_.clear();
}

void ReceiveWake::Drain() {
  constexpr int kMostEvents = 16;
  epoll_event events[kMostEvents];
  while (epoll_wait(epoll_fd_, events, kMostEvents, 0) == kMostEvents) {
  }
}

Bell::Bell() : event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void Bell::Ring() {
  if (!asleep_.exchange(false, std::memory_order_acq_rel)) return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(event_.get(), &one, sizeof(one));
}

void Bell::TakeBack() {
  asleep_.store(false, std::memory_order_relaxed);
  uint64_t rings = 0;
  [[maybe_unused]] const ssize_t got = read(event_.get(), &rings, sizeof(rings));
}

}  // namespace uroce::drivers
