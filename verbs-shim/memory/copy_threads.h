// SPDX-License-Identifier: Apache-2.0
// Threads of this library that share the copies of one long registration or deregistration with the
// thread that makes it.
#pragma once

#include <cstdint>

#include "verbs-shim/memory/maps.h"

namespace uroce::memory {

/// Shorter memory is copied by its caller alone: to start and end a thread takes a tenth of a
/// millisecond.
inline constexpr uint64_t kLeastThreadedBytes = 64 << 20;
inline constexpr uint32_t kMostCopyThreads = 3;

/// The copy threads of one registration. While there are any, the thread that made this object
/// cannot be cancelled: it would leave them an object that is gone. They start and end with this
/// object, without the lock of the registrations: the heap may be locked by a thread that waits for
/// that lock. No copy thread starts where the process may run on one CPU alone; where none starts,
/// the caller does all by itself. A copy thread blocks all signals but SIGSEGV, makes raw system
/// calls only, and writes nothing but its stack, this object, and what its work tells it to.
class CopyThreads {
 public:
  /// For the copies of about `bytes` bytes.
  explicit CopyThreads(uint64_t bytes);
  /// Afterwards the kernel lists none of them as a thread of the process.
  ~CopyThreads();
  CopyThreads(const CopyThreads&) = delete;
  CopyThreads& operator=(const CopyThreads&) = delete;

  uint32_t count() const { return count_; }

  /// Calls `visit(part)` once for each part of `range` that ends at a multiple of `part_bytes` or
  /// at its end (at most 2^32 parts), in any order, on the caller's thread and on copy threads.
  /// After one has returned another value than 0, parts that have not begun are left out. Returns
  /// such a value, or 0. When it returns no copy thread is in `visit`. Makes raw system calls only.
  template <typename Visit>
  int64_t ForEachPart(AddressRange range, uint64_t part_bytes, const Visit& visit) {
    const auto call = [](const void* with, AddressRange part) {
      return (*static_cast<const Visit*>(with))(part);
    };
    return Share({.range = range, .part_bytes = part_bytes, .visit = call, .with = &visit});
  }

 private:
  struct Work {
    AddressRange range;
    uint64_t part_bytes;
    int64_t (*visit)(const void* with, AddressRange part);
    const void* with;
  };
  struct Thread {
    uint64_t pthread;  // pthread_t
    int64_t id;        // of the kernel; written by the thread
    CopyThreads* owner;
  };

  static uint32_t ThreadsFor(uint64_t bytes);
  static void* Main(void* thread);
  bool StartOne();
  void Serve();
  int64_t Share(const Work& work);
  /// Does parts of the work until none is left: the caller from the front on, and copy threads from
  /// the back, so that they seldom touch the same huge page or page table.
  enum class End : uint8_t { kFront, kBack };
  void DoParts(End from);
  bool TakePart(End from, uint32_t& part);
  bool Enter();
  void Leave();

  // A futex word: the number of copy threads in the work, and whether more may enter it.
  static constexpr uint32_t kOpen = uint32_t{1} << 31;

  uint32_t count_ = 0;
  int cancel_state_ = 0;  // of the thread, before
  uint32_t gate_ = 0;
  uint32_t calls_ = 0;  // a futex word: changes with each work, and when the threads are to end
  bool ends_ = false;
  // Written while the gate is closed and no copy thread is inside.
  Work work_ = {};
  uint64_t first_part_ = 0;  // its number, counted from address 0
  uint64_t parts_ = 0;       // that are left: the first one, and 32 bits above it the end
  int64_t result_ = 0;
  Thread threads_[kMostCopyThreads] = {};
};

/// The same, on the caller's thread alone where `copy_threads` is null: then `range` is one
/// part.
template <typename Visit>
int64_t ForEachPart(CopyThreads* copy_threads, AddressRange range, uint64_t part_bytes,
                    const Visit& visit) {
  const bool is_alone = copy_threads == nullptr || copy_threads->count() == 0;
  return is_alone ? visit(range) : copy_threads->ForEachPart(range, part_bytes, visit);
}

}  // namespace uroce::memory
