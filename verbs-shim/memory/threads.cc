// SPDX-License-Identifier: Apache-2.0
// Threads from /proc/self/task, their control blocks from get_robust_list.
#include "verbs-shim/memory/threads.h"

#include <dirent.h>
#include <fcntl.h>
#include <link.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstring>

namespace uroce::memory {
namespace {

// At least the bytes before or after the robust list in glibc's struct pthread (2304 bytes in all
// in 2.36).
constexpr uint64_t kControlBlockBytes = 4096;
// glibc's reserve for modules that are loaded later, with the greatest usual tunables.
constexpr uint64_t kTlsReserveBytes = 8192;
// How much of a coroutine's stack may be in use, below and above the caller's frame.
constexpr uint64_t kCoroutineBelowBytes = 64 << 10;
constexpr uint64_t kCoroutineAboveBytes = 8 << 20;

constexpr uint64_t Min(uint64_t left, uint64_t right) { return left < right ? left : right; }
constexpr uint64_t Max(uint64_t left, uint64_t right) { return left > right ? left : right; }

int64_t ThreadId(const char* name) {
  int64_t id = 0;
  for (; *name >= '0' && *name <= '9'; ++name) id = id * 10 + (*name - '0');
  return *name == '\0' ? id : 0;
}

/// Appends one thread, unless the thread has just ended.
int AddThread(int64_t thread_id, int64_t process_id, MappedArray<ThreadRecord>& threads) {
  uint64_t head = 0;
  uint64_t length = 0;
  const int64_t result = SystemCall(SYS_get_robust_list, thread_id, &head, &length);
  if (result == -ESRCH) return 0;
  if (result < 0) return static_cast<int>(-result);
  const ThreadRecord record{
      .id = thread_id, .control_block = head, .is_main = thread_id == process_id};
  return threads.Append(record) ? 0 : ENOMEM;
}

/// Adds the threads of one buffer of directory entries; sets `seen_self` if `self` is among them.
int AddEntries(const char* entries, int64_t bytes, int64_t self, bool& seen_self,
               MappedArray<ThreadRecord>& threads) {
  const int64_t process_id = SystemCall(SYS_getpid);
  for (int64_t at = 0; at < bytes;) {
    const auto* entry = reinterpret_cast<const dirent64*>(entries + at);
    at += entry->d_reclen;
    const int64_t thread_id = ThreadId(entry->d_name);
    if (thread_id == 0) continue;
    seen_self |= thread_id == self;
    const int error = AddThread(thread_id, process_id, threads);
    if (error != 0) return error;
  }
  return 0;
}

int ReadTasks(int64_t fd, MappedArray<ThreadRecord>& threads) {
  alignas(8) static char entries[16384];
  const int64_t self = SystemCall(SYS_gettid);
  bool seen_self = false;
  for (;;) {
    const int64_t bytes = SystemCall(SYS_getdents64, fd, entries, sizeof(entries));
    if (bytes < 0) return static_cast<int>(-bytes);
    if (bytes == 0) break;
    const int error = AddEntries(entries, bytes, self, seen_self, threads);
    if (error != 0) return error;
  }
  // A /proc of another PID namespace has other numbers.
  return seen_self ? 0 : ESRCH;
}

int AddTlsBytes(dl_phdr_info* module, size_t, void* sum) {
  for (int i = 0; i < module->dlpi_phnum; ++i) {
    const auto& header = module->dlpi_phdr[i];
    if (header.p_type == PT_TLS) *static_cast<uint64_t*>(sum) += header.p_memsz + header.p_align;
  }
  return 0;
}

const Vma* FindMapping(std::span<const Vma> mappings, uint64_t address) {
  for (const Vma& vma : mappings) {
    if (vma.range().Contains(address)) return &vma;
  }
  return nullptr;
}

AddressRange StackAndControlBlock(const Vma& vma, const ThreadRecord& thread,
                                  const ThreadFacts& facts) {
  const bool is_above = facts.tls_place == TlsPlace::kAbove;
  const uint64_t below = is_above ? kControlBlockBytes : facts.static_tls_bytes;
  const uint64_t above = kControlBlockBytes + (is_above ? facts.static_tls_bytes : 0);
  const uint64_t start = thread.is_main ? PageDown(thread.control_block - below) : vma.start;
  const uint64_t end = PageUp(thread.control_block + above);
  return {Max(start, vma.start), Min(end, vma.end)};
}

/// The surroundings of the caller's frame, on any stack. If the thread runs on its own stack, they
/// are part of it.
AddressRange CallerStack(const Vma& vma, uint64_t stack_pointer) {
  const uint64_t start = PageDown(stack_pointer - kCoroutineBelowBytes);
  const uint64_t end = PageUp(stack_pointer + kCoroutineAboveBytes);
  return {Max(start, vma.start), Min(end, vma.end)};
}

}  // namespace

int ListThreads(MappedArray<ThreadRecord>& threads) {
  threads.Clear();
  const int64_t fd = OpenFile("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return static_cast<int>(-fd);
  const int error = ReadTasks(fd, threads);
  SystemCall(SYS_close, fd);
  return error;
}

uint64_t StaticTlsBytes() {
  uint64_t sum = kTlsReserveBytes;
  dl_iterate_phdr(AddTlsBytes, &sum);
  return sum;
}

bool FindUntouchable(const ThreadFacts& facts, MappedArray<AddressRange>& ranges) {
  for (const ThreadRecord& thread : facts.threads) {
    const Vma* vma = FindMapping(facts.mappings, thread.control_block);
    if (vma == nullptr) continue;
    if (!ranges.Append(StackAndControlBlock(*vma, thread, facts))) return false;
  }
  const Vma* vma = FindMapping(facts.mappings, facts.stack_pointer);
  return vma == nullptr || ranges.Append(CallerStack(*vma, facts.stack_pointer));
}

}  // namespace uroce::memory
