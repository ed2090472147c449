// SPDX-License-Identifier: Apache-2.0
// Memory shared with other processes: sealed files that only the daemon makes, and a guard that
// keeps the daemon alive when a file of another process shrinks under its mapping.
#include "pipeline/os/shared_memory.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace uroce {
namespace {

constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

absl::Status WriteAll(int fd, const void* data, uint64_t length) {
  const auto* next = static_cast<const uint8_t*>(data);
  while (length != 0) {
    const ssize_t written = write(fd, next, length);
    if (written < 0) return SystemError("write to a memfd", errno);
    next += written;
    length -= static_cast<uint64_t>(written);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Fd> MakeSharedFile(const char* name, uint64_t length) {
  Fd fd(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return SystemError("memfd_create", errno);
  if (ftruncate(fd.get(), static_cast<off_t>(length)) != 0) return SystemError("ftruncate", errno);
  if (fcntl(fd.get(), F_ADD_SEALS, kSizeSeals) != 0) return SystemError("sealing a memfd", errno);
  return fd;
}

// No seal does so for a file that other processes are still to map for writing. The flag of an
// inode does (ioctl_iflags(2)).
void KeepPages(int fd) {
  int flags = FS_IMMUTABLE_FL;
  ioctl(fd, FS_IOC_SETFLAGS, &flags);
}

absl::StatusOr<Mapping> MapShared(int fd, uint64_t length) {
  void* data = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (data == MAP_FAILED) return SystemError("mmap", errno);
  return Mapping(data, length);
}

absl::StatusOr<Fd> MakeConstantFile(const char* name, const void* data, uint64_t length) {
  Fd fd(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return SystemError("memfd_create", errno);
  if (absl::Status status = WriteAll(fd.get(), data, length); !status.ok()) return status;
  if (fcntl(fd.get(), F_ADD_SEALS, kSizeSeals | F_SEAL_WRITE) != 0) {
    return SystemError("sealing a memfd", errno);
  }
  return fd;
}

bool IsOvercommitStrict() {
  int mode = 0;
  std::ifstream("/proc/sys/vm/overcommit_memory") >> mode;
  return mode == 2;
}

absl::Status SystemError(const char* what, int error) { return absl::ErrnoToStatus(error, what); }

namespace {

constexpr uint32_t kDefaultMaxMapCount = 65530;  // The kernel's default.
constexpr uint32_t kMaxCapacity = 1 << 20;

struct sigaction previous_action;

/// The mappings of the process that programs may use: the others are for heaps, stacks and ports.
uint32_t ProgramsShare() {
  uint32_t limit = kDefaultMaxMapCount;
  std::ifstream("/proc/sys/vm/max_map_count") >> limit;
  return std::min(limit - limit / 8, kMaxCapacity);
}

/// A fault elsewhere gets the previous action, when the instruction or the signal repeats.
void OnBusError(int number, siginfo_t* info, void*) {
  const int error = errno;
  const bool is_fault = info->si_code > 0;
  if (is_fault && MappingGuard::Get().Strike(info->si_addr)) {
    errno = error;
    return;
  }
  sigaction(SIGBUS, &previous_action, nullptr);
  if (!is_fault) raise(number);
  errno = error;
}

// Not mmap(): a sanitizer's version of it is not safe in signal handlers.
bool PutZeros(uintptr_t start, size_t length) {
  return syscall(SYS_mmap, start, length, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) != -1;
}

MappingGuard* MakeProcessGuard() {
  constexpr uint32_t kReservePages = 256;
  auto* guard = new MappingGuard(ProgramsShare(), IsOvercommitStrict() ? kReservePages : 0);
  struct sigaction action {};
  action.sa_sigaction = OnBusError;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, &previous_action);
  return guard;
}

}  // namespace

MappingGuard::MappingGuard(uint32_t capacity, uint32_t reserve_pages)
    : capacity_(capacity),
      slots_(std::make_unique<Slot[]>(capacity)),
      event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (reserve_pages != 0) MakeReserve(reserve_pages);
}

void MappingGuard::MakeReserve(uint32_t pages) {
  const uint64_t bytes = pages * kPageBytes;
  absl::StatusOr<Fd> file = MakeSharedFile("uroce-reserve", bytes);
  if (!file.ok() || fallocate(file->get(), 0, 0, static_cast<off_t>(bytes)) != 0) return;
  absl::StatusOr<Mapping> mapping = MapShared(file->get(), bytes);
  if (!mapping.ok()) return;
  reserve_file_ = *std::move(file);
  reserve_ = *std::move(mapping);
  reserve_users_ = std::make_unique<std::atomic<uint32_t>[]>(pages);
}

// The guard is never destroyed: a fault may come as long as there are threads.
MappingGuard& MappingGuard::Get() {
  static MappingGuard* const guard = MakeProcessGuard();
  return *guard;
}

std::optional<uint32_t> MappingGuard::Add(const void* start, size_t length, uint32_t owner) {
  const std::lock_guard lock(mutex_);
  uint32_t index = used_.load(std::memory_order_relaxed);
  if (!free_.empty()) {
    index = free_.back();
    free_.pop_back();
  } else if (index == capacity_) {
    return std::nullopt;
  }
  Slot& slot = slots_[index];
  slot.length.store(length, std::memory_order_relaxed);
  slot.owner.store(owner, std::memory_order_relaxed);
  slot.struck.store(false, std::memory_order_relaxed);
  slot.start.store(reinterpret_cast<uintptr_t>(start), std::memory_order_release);
  if (index == used_.load(std::memory_order_relaxed)) {
    used_.store(index + 1, std::memory_order_release);
  }
  return index;
}

void MappingGuard::Remove(uint32_t slot) {
  const std::lock_guard lock(mutex_);
  slots_[slot].start.store(0, std::memory_order_release);
  NoteIfStruck(slots_[slot]);
  pieces_.fetch_sub(slots_[slot].pieces.exchange(0, std::memory_order_relaxed),
                    std::memory_order_relaxed);
  TakeBack(slots_[slot]);
  free_.push_back(slot);
}

// Two threads may strike the same mapping: the second one replaces zeros by zeros.
bool MappingGuard::Strike(const void* address) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  const uint32_t used = used_.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < used; ++i) {
    Slot& slot = slots_[i];
    const uintptr_t start = slot.start.load(std::memory_order_acquire);
    const size_t length = slot.length.load(std::memory_order_relaxed);
    if (start == 0 || at - start >= length) continue;
    const size_t before = (at - start) / kPieceBytes * kPieceBytes;
    const size_t piece_bytes = std::min(kPieceBytes, length - before);
    // The kernel cuts no huge page.
    const bool is_piece = TakePiece(slot) && PutZeros(start + before, piece_bytes);
    if (!is_piece && !PutZeros(start, length) && !PutReserve(slot, at)) {
      return false;
    }
    slot.struck.store(true, std::memory_order_release);
    Signal();
    return true;
  }
  return false;
}

bool MappingGuard::PutReserve(const Slot& slot, uintptr_t address) {
  const uint32_t user = IndexOf(slot) + 1;
  for (uint32_t page = 0; page < reserve_pages(); ++page) {
    uint32_t none = 0;
    if (!reserve_users_[page].compare_exchange_strong(none, user, std::memory_order_acquire)) {
      continue;
    }
    const uintptr_t start = address / kPageBytes * kPageBytes;
    return syscall(SYS_mmap, start, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                   reserve_file_.get(), page * kPageBytes) != -1;
  }
  return false;
}

// No thread uses the mapping any more.
void MappingGuard::TakeBack(const Slot& slot) {
  for (uint32_t page = 0; page < reserve_pages(); ++page) {
    if (reserve_users_[page].load(std::memory_order_relaxed) != IndexOf(slot) + 1) continue;
    std::memset(reserve_.data() + page * kPageBytes, 0, kPageBytes);
    reserve_users_[page].store(0, std::memory_order_release);
  }
}

bool MappingGuard::TakePiece(Slot& slot) {
  if (pieces_.load(std::memory_order_relaxed) >= kMostPiecesOfAll) return false;
  if (slot.pieces.load(std::memory_order_relaxed) >= kMostPieces) return false;
  pieces_.fetch_add(1, std::memory_order_relaxed);
  slot.pieces.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void MappingGuard::Signal() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(event_.get(), &one, sizeof(one));
}

void MappingGuard::NoteLost(uint32_t owner) {
  {
    const std::lock_guard lock(mutex_);
    struck_owners_.push_back(owner);
  }
  Signal();
}

void MappingGuard::NoteIfStruck(Slot& slot) {
  if (!slot.struck.exchange(false, std::memory_order_acquire)) return;
  struck_owners_.push_back(slot.owner.load(std::memory_order_relaxed));
}

std::vector<uint32_t> MappingGuard::TakeStruck() {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = read(event_.get(), &count, sizeof(count));
  const std::lock_guard lock(mutex_);
  for (uint32_t i = 0; i < used_.load(std::memory_order_relaxed); ++i) NoteIfStruck(slots_[i]);
  std::vector<uint32_t> owners = std::exchange(struck_owners_, {});
  std::sort(owners.begin(), owners.end());
  owners.erase(std::unique(owners.begin(), owners.end()), owners.end());
  return owners;
}

absl::StatusOr<GuardedMapping> GuardedMapping::Make(Mapping&& mapping, uint32_t owner) {
  GuardedMapping guarded;
  guarded.slot_ = MappingGuard::Get().Add(mapping.data(), mapping.length(), owner);
  if (!guarded.slot_) {
    return absl::ResourceExhaustedError(
        "segment: the daemon has no more mappings for programs, see vm.max_map_count");
  }
  guarded.mapping_ = std::move(mapping);
  return guarded;
}

}  // namespace uroce
