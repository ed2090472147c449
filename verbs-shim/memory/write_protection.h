// SPDX-License-Identifier: Apache-2.0
// Makes writes to a range of this process's memory wait while its pages are replaced: by
// userfaultfd, or, where the kernel gives none, by read-only pages and a handler of SIGSEGV.
#pragma once

#include <cstdint>

#include "verbs-shim/memory/maps.h"

namespace uroce::memory {

// ---- Write windows, without userfaultfd ----
// The range is read-only for a while, and a handler of SIGSEGV lets a thread that writes there wait
// and write again.

/// Puts the handler in front of the program's action (segv_action.h), or makes sure that it is
/// there. False: there is no way to. The caller holds the lock of the registrations.
[[nodiscard]] bool PrepareWriteWindows();

/// Opens the only window of the process: from here on no thread writes to `pages`, whose protection
/// is `protection` (PROT_*, with write access). System calls that write there get EFAULT. Reading
/// goes on. Returns 0, or a negative errno: then nothing has changed. Makes raw system calls only.
[[nodiscard]] int64_t OpenWriteWindow(AddressRange pages, int protection);

/// Closes the window: who waits writes again, to what lies there. With `is_replaced` this is
/// another mapping; otherwise the pages get their protection back.
void CloseWriteWindow(bool is_replaced);

// ---- Write protection, by userfaultfd or by a write window ----

/// How writers can be made to wait, and what the kernel's userfaultfd offers to this process.
struct FaultSupport {
  enum class Origin : uint8_t { kDevice, kSystemCall, kSignal };
  Origin origin = Origin::kSignal;
  bool kernel_mode = false;      // also stops writes made by the kernel; otherwise these get EFAULT
  bool protects_absent = false;  // write-protects pages that were never touched (Linux 6.4)
  bool protects_shared = false;  // write-protects shared memory too (Linux 5.19)
  bool moves_pages = false;      // moves private pages that are not pinned (Linux 6.8)
  int device_fd = -1;            // kDevice: /dev/userfaultfd
  bool operator==(const FaultSupport&) const = default;
};

/// Tries, in this order: the device that the daemon passed (-1: none), the system call, and the
/// system call for user-mode faults only, which needs no privilege. What is left is a handler of
/// SIGSEGV, which is all there is in most containers.
FaultSupport ProbeFaultSupport(int device_fd);

/// Called in a fork child: closes the userfaultfd, which is the parent's.
void ForgetUserfault();

/// Between Begin() and End() every thread that writes to the pages waits. Its write then goes to
/// the memory that lies at the address after End(). Makes raw system calls only and writes nothing
/// but the stack: it runs under RunOnRemapStack().
class WriteProtection {
 public:
  /// `protection` (PROT_*) is that of the pages. With kSignal the caller has prepared write
  /// windows. Returns 0 or a negative errno; then no write is stopped, and End() does nothing.
  int64_t Begin(const FaultSupport& support, AddressRange pages, int protection);

  /// From here on accesses to absent pages wait too. Fails with kSignal.
  int64_t HoldAbsent();

  /// Begins in another way, in kernel mode or without other threads: all accesses to the pages
  /// wait. The pages, which are all of one private mapping, move to the mapping at `to`, which has
  /// the same protection and no pages, and which no other code uses. Needs
  /// FaultSupport::moves_pages. `page_map` is an fd of /proc/self/pagemap or a negative errno: the
  /// kernel's move of pages that were never touched takes longer than to find the others. Returns 0
  /// or a negative errno, after which nothing has changed: EBUSY where one of the pages is pinned,
  /// or is shared with a fork child.
  int64_t BeginByMoving(const FaultSupport& support, int64_t page_map, AddressRange pages,
                        uint64_t to);
  /// Moves the pages back, before End(false).
  void MoveBack(uint64_t from);

  /// Fills absent pages of `target`, a mapping of a file in memory that no other code uses, by
  /// userfaultfd: without a fault for each, and without a page being cleared first. Between Begin()
  /// and End(). An access to absent pages would wait until EndFill(). All return 0 or a negative
  /// errno; EndFill() also after a failed Fill().
  [[nodiscard]] int64_t BeginFill(AddressRange target);
  /// Copies whole pages to the absent pages at `to`. Any thread.
  [[nodiscard]] int64_t Fill(uint64_t to, uint64_t from, uint64_t length) const;
  [[nodiscard]] int64_t EndFill(AddressRange target);

  /// Wakes every thread that waits. `is_replaced`: another mapping lies there.
  void End(bool is_replaced);

 private:
  int64_t Open(const FaultSupport& support);
  int64_t Protect(const FaultSupport& support);
  int64_t Watch(AddressRange range, uint64_t mode);
  int64_t Unwatch(AddressRange range);
  void Wake(bool is_replaced);
  int64_t MoveMapped(int64_t page_map, uint64_t to);
  int64_t Move(uint64_t to, uint64_t from, uint64_t length, uint64_t& moved);
  void Return(uint64_t from, uint64_t length);

  AddressRange pages_ = {0, 0};
  int64_t fd_ = -1;
  bool is_window_ = false;
};

/// Calls `function` on a stack of this library, with all signals blocked, so that no memory but
/// that stack is written. False when there is no such stack. Not reentrant: the caller holds the
/// lock of the registrations.
[[nodiscard]] bool RunOnRemapStack(void (*function)(void*), void* argument);

/// The address range of that stack, which may adjoin an application's memory.
AddressRange RemapStack();

}  // namespace uroce::memory
