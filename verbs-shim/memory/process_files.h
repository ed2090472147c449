// SPDX-License-Identifier: Apache-2.0
// This process's own files in /proc. They are opened early and kept: later the program may have no
// free fd, have no /proc (chroot), or have no right to them (setuid).
#pragma once

#include <dirent.h>
#include <sys/syscall.h>

#include <cstdint>

#include "verbs-shim/memory/system_call.h"

namespace uroce::memory {

// ---- Files that stay open ----

/// A file that stays open, though the program may close its number, and though a child made by
/// clone(2) inherits the number of its parent's file.
class KeptFile {
 public:
  /// The number of the file if it is open and this process's own; otherwise a negative number, and
  /// a file of the parent is closed.
  int64_t Find();
  /// Keeps `fd`. False: the kernel does not identify it, and it is closed.
  [[nodiscard]] bool Keep(int64_t fd);
  void Close();

 private:
  /// No other file has this identity while the file is open.
  bool Identify(int64_t fd);
  bool IsOpen() const;

  int64_t fd_ = -1;
  int64_t process_ = 0;  // whose file it is
  uint64_t device_ = 0;
  uint64_t inode_ = 0;
};

enum class ProcessFile : uint8_t { kMaps, kTasks, kStatus, kMemory, kPageMap, kOpenFiles };
inline constexpr int kProcessFiles = 6;

// The caller holds the lock of the registrations.

/// The open file, at its beginning; it stays open. Opens it where it is not kept, or where the
/// program has closed it. Returns a negative errno when it cannot be opened.
[[nodiscard]] int64_t OpenProcessFile(ProcessFile file);

/// Opens all files that are not open.
void KeepProcessFiles();

/// Called in a fork child: closes the files, which are the parent's.
void ForgetProcessFiles();

// ---- Directories whose entries are numbers ----

/// A decimal number; -1: the name is none.
inline int64_t NumberIn(const char* name) {
  int64_t number = 0;
  if (*name == '\0') return -1;
  for (; *name >= '0' && *name <= '9'; ++name) number = number * 10 + (*name - '0');
  return *name == '\0' ? number : -1;
}

/// Room for the entries of a directory. Static, because the caller's stack may be small.
inline constexpr int64_t kEntryBytes = 16384;
alignas(8) inline char directory_entries[kEntryBytes];

/// Calls `visit(number, name)` for each entry whose name is a number, until one returns another
/// value than 0. Returns that value, 0, or a negative errno.
template <typename Visit>
int64_t ForEachNumber(int64_t directory, Visit&& visit) {
  for (;;) {
    const int64_t bytes = SystemCall(SYS_getdents64, directory, directory_entries, kEntryBytes);
    if (bytes <= 0) return bytes;
    for (int64_t at = 0; at < bytes;) {
      const auto* entry = reinterpret_cast<const dirent64*>(directory_entries + at);
      at += entry->d_reclen;
      const int64_t number = NumberIn(entry->d_name);
      const int64_t result = number < 0 ? 0 : visit(number, entry->d_name);
      if (result != 0) return result;
    }
  }
}

}  // namespace uroce::memory
