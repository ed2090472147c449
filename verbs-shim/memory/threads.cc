// SPDX-License-Identifier: Apache-2.0
#include "verbs-shim/memory/threads.h"

#include <fcntl.h>
#include <link.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstring>
#include <ctime>

#include "verbs-shim/memory/process_files.h"

namespace uroce::memory {

// ---- Threads from /proc/self/task, their control blocks from get_robust_list ----

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

int ReadTasks(int64_t fd, MappedArray<ThreadRecord>& threads) {
  const int64_t self = SystemCall(SYS_gettid);
  const int64_t process_id = SystemCall(SYS_getpid);
  bool seen_self = false;
  const int64_t error = ForEachNumber(fd, [&](int64_t thread_id, const char*) {
    seen_self |= thread_id == self;
    return AddThread(thread_id, process_id, threads);
  });
  if (error != 0) return static_cast<int>(error < 0 ? -error : error);
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
  const int64_t fd = OpenProcessFile(ProcessFile::kTasks);
  return fd < 0 ? static_cast<int>(-fd) : ReadTasks(fd, threads);
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

// ---- Signal masks and stack pointers of threads, from /proc/self/task ----

namespace {

constexpr uint64_t kSegvBit = uint64_t{1} << (SIGSEGV - 1);
constexpr int64_t kEpollPwait2 = 441;
constexpr int kLooks = 200;
constexpr int64_t kPauseNs = 500'000;

struct SystemCallState {
  int64_t number;
  uint64_t arguments[6];
  uint64_t stack_pointer;
};

uint64_t HexDigits(std::string_view text) {
  uint64_t value = 0;
  for (const char c : text) {
    if (c >= '0' && c <= '9') {
      value = value << 4 | static_cast<uint64_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      value = value << 4 | static_cast<uint64_t>(c - 'a' + 10);
    } else {
      break;
    }
  }
  return value;
}

std::string_view From(std::string_view text, size_t at) {
  return {text.data() + at, text.size() - at};
}

/// What follows `label` in `text`, which a line feed precedes; empty when it is not there.
std::string_view After(std::string_view text, std::string_view label) {
  const void* found = memmem(text.data(), text.size(), label.data(), label.size());
  if (found == nullptr) return {};
  return From(text,
              static_cast<size_t>(static_cast<const char*>(found) - text.data()) + label.size());
}

/// Takes "0x1f" and the blank before it.
bool TakeHex(std::string_view& text, uint64_t& value) {
  if (text.size() < 4 || text[0] != ' ' || text[1] != '0' || text[2] != 'x') return false;
  text = From(text, 3);
  value = HexDigits(text);
  size_t digits = 0;
  while (digits < text.size() && text[digits] != ' ' && text[digits] != '\n') ++digits;
  text = From(text, digits);
  return digits != 0;
}

/// "-1 0xSP 0xPC" or "NUMBER 0xARGUMENT... 0xSP 0xPC".
bool ParseCall(std::string_view text, SystemCallState& call) {
  const bool is_none = text.size() > 2 && text[0] == '-' && text[1] == '1';
  call = {.number = -1, .arguments = {}, .stack_pointer = 0};
  size_t at = is_none ? 2 : 0;
  if (!is_none) {
    call.number = 0;
    for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
      call.number = call.number * 10 + (text[at] - '0');
    }
  }
  if (at == 0) return false;
  text = From(text, at);
  for (uint64_t& argument : call.arguments) {
    if (!is_none && !TakeHex(text, argument)) return false;
  }
  return TakeHex(text, call.stack_pointer);
}

/// Whether a system call has put its own mask in the place of the thread's, which /proc does not
/// tell meanwhile. If in doubt, it has.
bool HidesMask(const SystemCallState& call, bool (*read_word)(uint64_t, uint64_t&)) {
  uint64_t word = 0;
  switch (call.number) {
    case SYS_ppoll:
      return call.arguments[3] != 0;
    case SYS_epoll_pwait:
    case kEpollPwait2:
      return call.arguments[4] != 0;
    case SYS_pselect6:
    case SYS_io_pgetevents:
      return call.arguments[5] != 0 && (!read_word(call.arguments[5], word) || word != 0);
    case SYS_rt_sigsuspend:
      return true;
    case SYS_rt_sigtimedwait:
      return !read_word(call.arguments[0], word) || (word & kSegvBit) != 0;
    default:
      return false;
  }
}

/// The word of a futex that is not private, if the thread waits on one.
uint64_t FutexOf(const SystemCallState& call) {
  if (call.number != SYS_futex || (call.arguments[1] & FUTEX_PRIVATE_FLAG) != 0) return 0;
  const uint64_t command = call.arguments[1] & FUTEX_CMD_MASK;
  return command == FUTEX_WAIT || command == FUTEX_WAIT_BITSET ? call.arguments[0] : 0;
}

/// Reads through the kernel: the address may be wrong.
bool ReadWord(uint64_t address, uint64_t& word) {
  const int64_t fd = OpenProcessFile(ProcessFile::kMemory);
  return fd >= 0 && SystemCall(SYS_pread64, fd, &word, sizeof(word), address) == sizeof(word);
}

/// "/proc/self/task/ID/" and a name.
class TaskPath {
 public:
  TaskPath(int64_t id, const char* name) {
    char digits[20];
    size_t count = 0;
    for (; id > 0; id /= 10) digits[count++] = static_cast<char>('0' + id % 10);
    Append("/proc/self/task/");
    while (count > 0) text_[length_++] = digits[--count];
    Append("/");
    Append(name);
    text_[length_] = '\0';
  }
  const char* get() const { return text_; }

 private:
  void Append(const char* more) {
    while (*more != '\0') text_[length_++] = *more++;
  }

  size_t length_ = 0;
  char text_[64];  // room for the longest of both names and any number
};

// Static, because the caller's stack may be small. Used under the lock of the registrations.
char text[4096];

/// Reads a file whole; returns its bytes or a negative errno.
int64_t ReadText(const TaskPath& path) {
  const int64_t fd = OpenFile(path.get(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return fd;
  const int64_t bytes = SystemCall(SYS_read, fd, text, sizeof(text));
  SystemCall(SYS_close, fd);
  return bytes;
}

bool IsGone(int64_t result) { return result == -ENOENT || result == -ESRCH; }

std::string_view TextOf(int64_t bytes) { return {text, static_cast<size_t>(bytes)}; }

/// False: the kernel does not tell.
bool LookAt(int64_t id, ThreadState& state) {
  int64_t bytes = ReadText({id, "status"});
  state.is_dead = IsGone(bytes);
  if (state.is_dead) return true;
  if (bytes < 0 || !ParseStatus(TextOf(bytes), state)) return false;
  if (state.is_dead) return true;
  bytes = ReadText({id, "syscall"});
  state.is_dead = IsGone(bytes);
  return state.is_dead || (bytes >= 0 && ParseSystemCall(TextOf(bytes), ReadWord, state));
}

/// Looks until the thread does not block the signal, for a while: a thread that starts or ends, or
/// makes another one, blocks all signals for some microseconds. One that was seen to block it for
/// longer is not waited for again. False: it blocks it, or the kernel does not tell.
bool AwaitUnblocked(int64_t id, ThreadState& state) {
  static int64_t last_blocker = 0;
  for (int look = 0; look < kLooks; ++look) {
    state = {};
    if (!LookAt(id, state)) return false;
    if (state.is_dead || !state.blocks_segv) return true;
    if (id == last_blocker) return false;
    const timespec pause{.tv_sec = 0, .tv_nsec = kPauseNs};
    SystemCall(SYS_nanosleep, &pause, 0);
  }
  last_blocker = id;
  return false;
}

}  // namespace

bool ParseStatus(std::string_view status, ThreadState& state) {
  const std::string_view life = After(status, "\nState:\t");
  const std::string_view blocked = After(status, "\nSigBlk:\t");
  if (life.empty() || blocked.empty()) return false;
  state.is_dead = life[0] == 'Z' || life[0] == 'X';
  state.blocks_segv = (HexDigits(blocked) & kSegvBit) != 0;
  return true;
}

bool ParseSystemCall(std::string_view line, bool (*read_word)(uint64_t, uint64_t&),
                     ThreadState& state) {
  if (!line.empty() && line[0] == 'r') return true;  // "running"
  SystemCallState call;
  if (!ParseCall(line, call)) return false;
  state.stack_pointer = call.stack_pointer;
  state.blocks_segv |= HidesMask(call, read_word);
  state.futex = FutexOf(call);
  return true;
}

bool FindFutexes(std::span<const ThreadRecord> threads, AddressRange pages,
                 MappedArray<uint64_t>& words) {
  const int64_t self = SystemCall(SYS_gettid);
  for (const ThreadRecord& thread : threads) {
    if (thread.id == self) continue;
    ThreadState state;
    const int64_t bytes = ReadText({thread.id, "syscall"});
    if (bytes < 0 || !ParseSystemCall(TextOf(bytes), ReadWord, state)) continue;
    if (pages.Contains(state.futex) && !words.Append(state.futex)) return false;
  }
  return true;
}

bool CanAllWait(std::span<const ThreadRecord> threads, MappedArray<uint64_t>& stack_pointers) {
  const int64_t self = SystemCall(SYS_gettid);
  for (const ThreadRecord& thread : threads) {
    if (thread.id == self) continue;
    ThreadState state;
    if (!AwaitUnblocked(thread.id, state)) return false;
    if (state.stack_pointer != 0 && !stack_pointers.Append(state.stack_pointer)) return false;
  }
  return true;
}

}  // namespace uroce::memory
