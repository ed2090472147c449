// SPDX-License-Identifier: Apache-2.0
#include "drivers/memif/memif_queue.h"

#include <fcntl.h>
#include <rte_mbuf.h>
#include <rte_memcpy.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace uroce::drivers {
namespace {

// Maps whole pages of the file's file system, perhaps huge ones: only whole pages can be unmapped.
absl::StatusOr<MemifMemory> Map(Fd fd, uint64_t size_bytes) {
  struct statfs file_system {};
  if (fstatfs(fd.get(), &file_system) != 0) return absl::ErrnoToStatus(errno, "memif: fstatfs");
  const auto page_bytes = static_cast<uint64_t>(file_system.f_bsize);
  const uint64_t mapped_bytes = (size_bytes + page_bytes - 1) / page_bytes * page_bytes;
  void* const data = mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED) return absl::ErrnoToStatus(errno, "memif: mmap");
  absl::StatusOr<GuardedMapping> guarded =
      GuardedMapping::Make(Mapping(data, mapped_bytes), MappingGuard::kNoOwner);
  if (!guarded.ok()) return guarded.status();
  return MemifMemory{std::move(fd), *std::move(guarded), size_bytes};
}

}  // namespace

absl::StatusOr<MemifMemory> MakeMemifMemory(uint64_t size_bytes) {
  Fd fd(memfd_create("uroce-memif", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return absl::ErrnoToStatus(errno, "memif: memfd_create");
  if (ftruncate(fd.get(), static_cast<off_t>(size_bytes)) != 0) {
    return absl::ErrnoToStatus(errno, "memif: ftruncate");
  }
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return absl::ErrnoToStatus(errno, "memif: F_ADD_SEALS");
  }
  return Map(std::move(fd), size_bytes);
}

absl::StatusOr<MemifMemory> MapMemifMemory(Fd fd, uint64_t size_bytes) {
  const int seals = fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return absl::InvalidArgumentError("memory that is not sealed against shrinking");
  }
  struct stat status {};
  if (fstat(fd.get(), &status) != 0 || size_bytes == 0 ||
      static_cast<uint64_t>(status.st_size) < size_bytes) {
    return absl::InvalidArgumentError("memory smaller than announced");
  }
  return Map(std::move(fd), size_bytes);
}

bool IsEventFd(int fd) {
  char target[PATH_MAX];
  const ssize_t length =
      readlink(absl::StrCat("/proc/self/fd/", fd).c_str(), target, sizeof(target));
  if (length <= 0) return false;
  const absl::string_view name(target, static_cast<size_t>(length));
  return name == "anon_inode:[eventfd]";
}

namespace {

using memif::Descriptor;

/// Copies a descriptor, which is read exactly once, whatever the compiler does.
Descriptor Load(Descriptor& shared) {
  auto* const words = reinterpret_cast<uint64_t*>(&shared);
  const uint64_t copy[2] = {std::atomic_ref(words[0]).load(std::memory_order_relaxed),
                            std::atomic_ref(words[1]).load(std::memory_order_relaxed)};
  Descriptor descriptor;
  static_assert(sizeof(descriptor) == sizeof(copy));
  __builtin_memcpy(&descriptor, copy, sizeof(copy));
  return descriptor;
}

uint16_t Acquire(uint16_t& shared) {
  return std::atomic_ref(shared).load(std::memory_order_acquire);
}

}  // namespace

std::span<uint8_t> MemifRing::Buffer(uint16_t index, const Descriptor& descriptor) const {
  if (is_clients())
    return buffers.subspan(size_t{index & (slots - 1)} * buffer_bytes, buffer_bytes);
  if (descriptor.region >= regions->size()) return {};
  const std::span<uint8_t> region = (*regions)[descriptor.region];
  if (descriptor.offset_bytes > region.size()) return {};
  if (descriptor.length_bytes > region.size() - descriptor.offset_bytes) return {};
  return region.subspan(descriptor.offset_bytes, descriptor.length_bytes);
}

// A client sends by advancing head, a server by advancing tail. The other index ends free slots.
MemifSender::MemifSender(const MemifRing& ring, EventSignal* signal)
    : ring_(ring), signal_(signal) {
  uint16_t& mine = ring.is_clients() ? ring.header->head : ring.header->tail;
  std::atomic_ref(mine).store(0, std::memory_order_release);
}

uint16_t MemifSender::Room(uint16_t enough) {
  if (room_ > enough || is_corrupt_) return room_;
  const uint16_t free =
      ring_.is_clients() ? static_cast<uint16_t>(ring_.slots - next_ + Acquire(ring_.header->tail))
                         : static_cast<uint16_t>(Acquire(ring_.header->head) - next_);
  is_corrupt_ = free > ring_.slots;
  room_ = is_corrupt_ ? 0 : free;
  return room_;
}

uint16_t MemifSender::Send(rte_mbuf** frames, uint16_t count) {
  uint16_t sent = 0;
  for (; sent < count; ++sent) {
    const uint16_t used = Put(*frames[sent]);
    if (used == 0) break;
    next_ = static_cast<uint16_t>(next_ + used);
    room_ = static_cast<uint16_t>(room_ - used);
  }
  if (sent == 0) return 0;
  Publish();
  rte_pktmbuf_free_bulk(frames, sent);
  return sent;
}

/// Copies one frame behind those that wait to be published. Returns the slots used; 0: no room.
uint16_t MemifSender::Put(const rte_mbuf& frame) {
  const auto* from = rte_pktmbuf_mtod(&frame, const uint8_t*);
  uint32_t left = frame.data_len;
  uint16_t used = 0;
  do {
    if (Room(used) <= used) {
      // A ring that is too small for one frame can never send it.
      is_corrupt_ |= used == ring_.slots;
      return 0;
    }
    const auto index = static_cast<uint16_t>(next_ + used);
    Descriptor descriptor = Load(ring_.At(index));
    const std::span<uint8_t> buffer = ring_.Buffer(index, descriptor);
    if (buffer.empty()) {
      is_corrupt_ = true;
      return 0;
    }
    const auto part = static_cast<uint32_t>(std::min<size_t>(left, buffer.size()));
    rte_memcpy(buffer.data(), from, part);
    from += part;
    left -= part;
    descriptor.flags = left != 0 ? memif::kFrameGoesOn : 0;
    descriptor.length_bytes = part;
    if (ring_.is_clients()) {
      descriptor.region = 0;
      descriptor.offset_bytes =
          ring_.buffers_offset + static_cast<uint32_t>(buffer.data() - ring_.buffers.data());
    }
    ring_.At(index) = descriptor;
    ++used;
  } while (left != 0);
  return used;
}

// Index and flag are each stored before the other end's value is loaded, in one total order: either
// the receiver that asks for a wake-up finds the frame, or we find that it asked.
void MemifSender::Publish() {
  uint16_t& mine = ring_.is_clients() ? ring_.header->head : ring_.header->tail;
  std::atomic_ref(mine).store(next_, std::memory_order_seq_cst);
  const uint16_t flags = std::atomic_ref(ring_.header->flags).load(std::memory_order_seq_cst);
  if ((flags & memif::kDoNotWake) == 0) signal_->Raise(ring_.event_fd);
}

MemifReceiver::MemifReceiver(const MemifRing& ring, rte_mempool* pool) : ring_(ring), pool_(pool) {
  std::atomic_ref(ring.header->flags).store(memif::kDoNotWake, std::memory_order_relaxed);
  if (ring.is_clients()) {
    GiveBack(static_cast<uint16_t>(ring.slots));
    next_ = 0;
  } else {
    std::atomic_ref(ring.header->tail).store(0, std::memory_order_release);
  }
}

uint16_t MemifReceiver::Available() {
  uint16_t& others = ring_.is_clients() ? ring_.header->tail : ring_.header->head;
  const auto available =
      static_cast<uint16_t>(std::atomic_ref(others).load(std::memory_order_seq_cst) - next_);
  if (available <= ring_.slots) return available;
  is_corrupt_ = true;
  return 0;
}

uint16_t MemifReceiver::Receive(rte_mbuf** frames, uint16_t count) {
  if (is_corrupt_) return 0;
  uint16_t available = Available();
  if (available == 0) return 0;
  if (is_wake_asked_) StopWake();
  count = std::min(count, available);
  // Without free mbufs the frames stay in the ring.
  if (rte_pktmbuf_alloc_bulk(pool_, frames, count) != 0) return 0;
  uint16_t received = 0;
  uint16_t all_used = 0;
  while (received < count && available != 0) {
    uint16_t used = 0;
    const Taken taken = Take(*frames[received], available, used);
    if (taken == Taken::kIncomplete) break;
    if (taken == Taken::kImpossible) {
      is_corrupt_ = true;
      break;
    }
    received = static_cast<uint16_t>(received + (taken == Taken::kFrame ? 1 : 0));
    next_ = static_cast<uint16_t>(next_ + used);
    all_used = static_cast<uint16_t>(all_used + used);
    available = static_cast<uint16_t>(available - used);
  }
  rte_pktmbuf_free_bulk(frames + received, count - received);
  GiveBack(all_used);
  return received;
}

/// Copies the frame that begins at `next_`, and sets `used` to the number of its slots.
MemifReceiver::Taken MemifReceiver::Take(rte_mbuf& frame, uint16_t available, uint16_t& used) {
  uint64_t length = 0;
  const uint64_t room = rte_pktmbuf_tailroom(&frame);
  for (bool goes_on = true; goes_on; ++used) {
    // The slots begin a frame whose last slot cannot come.
    if (used == available)
      return available == ring_.slots ? Taken::kImpossible : Taken::kIncomplete;
    const auto index = static_cast<uint16_t>(next_ + used);
    const Descriptor descriptor = Load(ring_.At(index));
    const std::span<const uint8_t> buffer = ring_.Buffer(index, descriptor);
    if (descriptor.length_bytes > buffer.size()) return Taken::kImpossible;
    if (length + descriptor.length_bytes <= room) {
      rte_memcpy(rte_pktmbuf_mtod_offset(&frame, uint8_t*, length), buffer.data(),
                 descriptor.length_bytes);
    }
    length += descriptor.length_bytes;
    goes_on = (descriptor.flags & memif::kFrameGoesOn) != 0;
  }
  if (length > room) {
    ++too_long_;
    return Taken::kTooLong;
  }
  frame.data_len = static_cast<uint16_t>(length);
  frame.pkt_len = frame.data_len;
  return Taken::kFrame;
}

// A client hands the slots that it has read over again, empty; a server only releases them.
void MemifReceiver::GiveBack(uint16_t used) {
  if (!ring_.is_clients()) {
    std::atomic_ref(ring_.header->tail).store(next_, std::memory_order_release);
    return;
  }
  for (auto index = static_cast<uint16_t>(next_ - used); index != next_; ++index) {
    ring_.At(index) = {
        .flags = 0,
        .region = 0,
        .length_bytes = ring_.buffer_bytes,
        .offset_bytes = ring_.buffers_offset + (index & (ring_.slots - 1)) * ring_.buffer_bytes,
        .metadata = 0};
  }
  std::atomic_ref(ring_.header->head)
      .store(static_cast<uint16_t>(next_ + ring_.slots), std::memory_order_release);
}

bool MemifReceiver::AskForWake() {
  if (is_corrupt_) return true;
  if (!is_wake_asked_) {
    is_wake_asked_ = true;
    std::atomic_ref(ring_.header->flags).store(0, std::memory_order_seq_cst);
  }
  return Available() == 0;
}

void MemifReceiver::StopWake() {
  is_wake_asked_ = false;
  std::atomic_ref(ring_.header->flags).store(memif::kDoNotWake, std::memory_order_relaxed);
}

}  // namespace uroce::drivers
