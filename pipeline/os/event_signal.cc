// SPDX-License-Identifier: Apache-2.0
#include "pipeline/os/event_signal.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <utility>

namespace uroce {

absl::StatusOr<EventSignal> EventSignal::Make() {
  Fd nothing(memfd_create("uroce-nothing", MFD_CLOEXEC));
  if (!nothing) return absl::ErrnoToStatus(errno, "memfd_create");
  aio_context_t context = 0;
  if (syscall(SYS_io_setup, 1, &context) != 0) return absl::ErrnoToStatus(errno, "io_setup");
  return EventSignal(context, std::move(nothing));
}

EventSignal::EventSignal(aio_context_t context, Fd nothing)
    : context_(context), nothing_(std::move(nothing)) {}

EventSignal::EventSignal(EventSignal&& other) noexcept
    : context_(std::exchange(other.context_, 0)), nothing_(std::move(other.nothing_)) {}

EventSignal::~EventSignal() {
  if (context_ != 0) syscall(SYS_io_destroy, context_);
}

// A read of no bytes is complete when io_submit returns. Its result is taken, to make room for the
// next.
void EventSignal::Raise(int event_fd) {
  iocb read{};
  read.aio_lio_opcode = IOCB_CMD_PREAD;
  read.aio_fildes = static_cast<uint32_t>(nothing_.get());
  read.aio_flags = IOCB_FLAG_RESFD;
  read.aio_resfd = static_cast<uint32_t>(event_fd);
  iocb* reads[] = {&read};
  if (syscall(SYS_io_submit, context_, 1, reads) != 1) return;
  io_event done;
  timespec at_once{};
  syscall(SYS_io_getevents, context_, 0, 1, &done, &at_once);
}

}  // namespace uroce
