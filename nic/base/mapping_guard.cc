// SPDX-License-Identifier: Apache-2.0
#include "nic/base/mapping_guard.h"

#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fstream>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace uroce {
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

MappingGuard* MakeProcessGuard() {
  auto* guard = new MappingGuard(ProgramsShare());
  struct sigaction action {};
  action.sa_sigaction = OnBusError;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, &previous_action);
  return guard;
}

}  // namespace

MappingGuard::MappingGuard(uint32_t capacity)
    : capacity_(capacity),
      slots_(std::make_unique<Slot[]>(capacity)),
      event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

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
    // Not mmap(): a sanitizer's version of it is not safe in signal handlers.
    const long result = syscall(SYS_mmap, start, length, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    if (result == -1) return false;
    slot.struck.store(true, std::memory_order_release);
    Signal();
    return true;
  }
  return false;
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
