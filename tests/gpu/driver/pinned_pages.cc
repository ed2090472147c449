// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/driver/pinned_pages.h"

#include <linux/io_uring.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

namespace uroce::test_gpu {
namespace {

constexpr size_t kPageBytes = 4096;
constexpr uint32_t kMostBuffers = 1024;
constexpr size_t kBounceBytes = 64 << 10;
constexpr size_t kMostBytes = 1 << 30;  // Of a buffer of io_uring.

uint8_t* Map(size_t bytes, int fd, off_t offset) {
  const int flags = fd < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED | MAP_POPULATE;
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd, offset);
  if (memory == MAP_FAILED) std::abort();
  return static_cast<uint8_t*>(memory);
}

bool is_counted = false;

/// Makes a ring in a child that shares the open files with this process and then ends, as ring's
/// accounts stay with the memory of their maker. Returns its fd or a negative number.
int MakeRing(io_uring_params& parameters) {
  struct Shared {
    io_uring_params parameters;
    int fd;
  };
  auto* const shared = reinterpret_cast<Shared*>(Map(sizeof(Shared), -1, 0));
  shared->fd = -1;
  const long child = syscall(SYS_clone, CLONE_FILES, nullptr, nullptr, nullptr, nullptr);
  if (child == 0) {
    shared->fd = static_cast<int>(syscall(SYS_io_uring_setup, 4, &shared->parameters));
    syscall(SYS_exit_group, 0);
  }
  if (child > 0) syscall(SYS_wait4, child, nullptr, __WALL, nullptr);
  parameters = shared->parameters;
  const int fd = shared->fd;
  munmap(shared, sizeof(Shared));
  return fd;
}

/// One ring for the process. A buffer is moved through a file of the ring's own.
class Ring {
 public:
  Ring() {
    io_uring_params parameters = {};
    fd_ = is_counted ? static_cast<int>(syscall(SYS_io_uring_setup, 4, &parameters))
                     : MakeRing(parameters);
    if (fd_ < 0) return;
    io_uring_rsrc_register table = {};
    table.nr = kMostBuffers;
    table.flags = IORING_RSRC_REGISTER_SPARSE;
    if (Register(IORING_REGISTER_BUFFERS2, &table, sizeof(table)) != 0) {
      close(fd_);
      fd_ = -1;
      return;
    }
    MapQueues(parameters);
    file_ = memfd_create("uroce-test-gpu", MFD_CLOEXEC);
    if (ftruncate(file_, kBounceBytes) != 0) std::abort();
    bounce_ = Map(kBounceBytes, file_, 0);
  }

  bool is_there() const { return fd_ >= 0; }

  /// Returns the number of the buffer, or a negative one.
  int Pin(uint8_t* memory, size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto free = std::find(used_.begin(), used_.end(), false);
    if (fd_ < 0 || free == used_.end() || bytes > kMostBytes) return -1;
    const auto number = static_cast<uint32_t>(free - used_.begin());
    if (!Update(number, {memory, bytes})) return -1;
    *free = true;
    return static_cast<int>(number);
  }

  void Unpin(int number) {
    const std::lock_guard lock(mutex_);
    Update(static_cast<uint32_t>(number), {nullptr, 0});
    used_[static_cast<size_t>(number)] = false;
  }

  void Read(int number, const uint8_t* at, uint8_t* to, size_t bytes) {
    const std::lock_guard lock(mutex_);
    for (size_t done = 0; done < bytes;) {
      const size_t some = std::min(bytes - done, kBounceBytes);
      Move(IORING_OP_WRITE_FIXED, number, at + done, some);
      std::memcpy(to + done, bounce_, some);
      done += some;
    }
  }

  void Write(int number, const uint8_t* at, const uint8_t* from, size_t bytes) {
    const std::lock_guard lock(mutex_);
    for (size_t done = 0; done < bytes;) {
      const size_t some = std::min(bytes - done, kBounceBytes);
      std::memcpy(bounce_, from + done, some);
      Move(IORING_OP_READ_FIXED, number, at + done, some);
      done += some;
    }
  }

 private:
  long Register(unsigned what, void* argument, unsigned count) const {
    return syscall(SYS_io_uring_register, fd_, what, argument, count);
  }

  bool Update(uint32_t number, iovec buffer) const {
    io_uring_rsrc_update2 update = {};
    update.offset = number;
    update.data = reinterpret_cast<uintptr_t>(&buffer);
    update.nr = 1;
    return Register(IORING_REGISTER_BUFFERS_UPDATE, &update, sizeof(update)) == 1;
  }

  void MapQueues(const io_uring_params& parameters) {
    const auto& sq = parameters.sq_off;
    const auto& cq = parameters.cq_off;
    uint8_t* const requests =
        Map(sq.array + parameters.sq_entries * sizeof(uint32_t), fd_, IORING_OFF_SQ_RING);
    uint8_t* const completions =
        Map(cq.cqes + parameters.cq_entries * sizeof(io_uring_cqe), fd_, IORING_OFF_CQ_RING);
    entries_ = reinterpret_cast<io_uring_sqe*>(
        Map(parameters.sq_entries * sizeof(io_uring_sqe), fd_, IORING_OFF_SQES));
    tail_ = reinterpret_cast<uint32_t*>(requests + sq.tail);
    mask_ = *reinterpret_cast<uint32_t*>(requests + sq.ring_mask);
    array_ = reinterpret_cast<uint32_t*>(requests + sq.array);
    head_ = reinterpret_cast<uint32_t*>(completions + cq.head);
    done_tail_ = reinterpret_cast<uint32_t*>(completions + cq.tail);
    done_mask_ = *reinterpret_cast<uint32_t*>(completions + cq.ring_mask);
    done_ = reinterpret_cast<io_uring_cqe*>(completions + cq.cqes);
  }

  /// Moves between the buffer and the file.
  void Move(uint8_t operation, int number, const uint8_t* at, size_t bytes) {
    const uint32_t place = *tail_ & mask_;
    io_uring_sqe& entry = entries_[place];
    entry = {};
    entry.opcode = operation;
    entry.fd = file_;
    entry.addr = reinterpret_cast<uintptr_t>(at);
    entry.len = static_cast<uint32_t>(bytes);
    entry.buf_index = static_cast<uint16_t>(number);
    array_[place] = place;
    __atomic_store_n(tail_, *tail_ + 1, __ATOMIC_RELEASE);
    syscall(SYS_io_uring_enter, fd_, 1, 1, IORING_ENTER_GETEVENTS, nullptr, 0);
    while (__atomic_load_n(done_tail_, __ATOMIC_ACQUIRE) == *head_) {
      syscall(SYS_io_uring_enter, fd_, 0, 1, IORING_ENTER_GETEVENTS, nullptr, 0);
    }
    if (done_[*head_ & done_mask_].res != static_cast<int>(bytes)) std::abort();
    __atomic_store_n(head_, *head_ + 1, __ATOMIC_RELEASE);
  }

  std::mutex mutex_;
  std::vector<bool> used_ = std::vector<bool>(kMostBuffers);
  int fd_ = -1;
  int file_ = -1;
  uint8_t* bounce_ = nullptr;
  io_uring_sqe* entries_ = nullptr;
  uint32_t* tail_ = nullptr;
  uint32_t* array_ = nullptr;
  uint32_t mask_ = 0;
  uint32_t* head_ = nullptr;
  uint32_t* done_tail_ = nullptr;
  uint32_t done_mask_ = 0;
  io_uring_cqe* done_ = nullptr;
};

/// Made at the first registration; never destroyed, as threads may use it while the process exits.
Ring& TheRing() {
  static Ring& ring = *new Ring;
  return ring;
}

}  // namespace

void PinnedPages::Count() { is_counted = true; }

bool PinnedPages::ArePinned() { return TheRing().is_there(); }

std::shared_ptr<PinnedPages> PinnedPages::Make(void* memory, size_t bytes) {
  auto* const start = static_cast<uint8_t*>(memory);
  std::shared_ptr<PinnedPages> pages(new PinnedPages(start, bytes));
  const size_t before = reinterpret_cast<uintptr_t>(memory) % kPageBytes;
  const size_t whole = (before + bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  // The kernel maps shared pages a second time, and refuses private ones.
  const long second = syscall(SYS_mremap, start - before, 0, whole, MREMAP_MAYMOVE, nullptr);
  if (second != -1) {
    pages->second_ = reinterpret_cast<uint8_t*>(second);
    pages->second_bytes_ = whole;
    pages->mapped_ = pages->second_ + before;
    if (is_counted) pages->buffer_ = TheRing().Pin(start, bytes);
    return pages;
  }
  unsigned char resident;
  if (mincore(start - before, 1, &resident) != 0) return nullptr;
  if (!ArePinned()) {
    pages->mapped_ = start;
    return pages;
  }
  pages->buffer_ = TheRing().Pin(start, bytes);
  return pages->buffer_ < 0 ? nullptr : pages;
}

PinnedPages::~PinnedPages() {
  if (second_ != nullptr) syscall(SYS_munmap, second_, second_bytes_);
  if (buffer_ >= 0) TheRing().Unpin(buffer_);
}

void PinnedPages::Read(size_t offset, uint8_t* to, size_t bytes) const {
  TheRing().Read(buffer_, memory_ + offset, to, bytes);
}

void PinnedPages::Write(size_t offset, const uint8_t* from, size_t bytes) const {
  TheRing().Write(buffer_, memory_ + offset, from, bytes);
}

}  // namespace uroce::test_gpu
