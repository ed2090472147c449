// SPDX-License-Identifier: Apache-2.0
// Reads and parses /proc/self/maps, without heap or stdio.
#include "verbs-shim/memory/maps.h"

#include <fcntl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstring>

#include "pipeline/shm/abi/uroce_commands.h"

namespace uroce::memory {
namespace {

constexpr std::string_view kSegmentPath = "/memfd:" UROCE_SEGMENT_NAME " (deleted)";

int DigitValue(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  return 16;
}

/// Takes the fields of one line from its front.
class LineParser {
 public:
  explicit LineParser(std::string_view line) : rest_(line) {}

  /// Takes a number and the separator after it. '\0' stands for no separator.
  bool TakeNumber(int base, char separator, uint64_t& value) {
    size_t digits = 0;
    value = 0;
    while (digits < rest_.size() && DigitValue(rest_[digits]) < base) {
      value =
          value * static_cast<uint64_t>(base) + static_cast<uint64_t>(DigitValue(rest_[digits]));
      ++digits;
    }
    if (digits == 0) return false;
    rest_ = Tail(digits);
    return separator == '\0' || TakeCharacter(separator);
  }

  bool TakeCharacter(char expected) {
    if (rest_.empty() || rest_[0] != expected) return false;
    rest_ = Tail(1);
    return true;
  }

  /// Takes "rwxp ".
  bool TakePermissions(Vma& vma) {
    if (rest_.size() < 5 || rest_[4] != ' ') return false;
    vma.readable = rest_[0] == 'r';
    vma.writable = rest_[1] == 'w';
    vma.executable = rest_[2] == 'x';
    vma.shared = rest_[3] == 's';
    rest_ = Tail(5);
    return true;
  }

  /// Takes the text that is left, without the blanks before it: the name.
  std::string_view TakeName() {
    while (TakeCharacter(' ')) {
    }
    return rest_;
  }

 private:
  // Not substr, which may throw and so would need libstdc++.
  std::string_view Tail(size_t from) const { return {rest_.data() + from, rest_.size() - from}; }

  std::string_view rest_;
};

bool StartsWith(std::string_view text, std::string_view prefix) {
  return text.size() >= prefix.size() && memcmp(text.data(), prefix.data(), prefix.size()) == 0;
}

bool Equal(std::string_view left, std::string_view right) {
  return left.size() == right.size() && StartsWith(left, right);
}

// The kernel gives at most one page per read; a path has at most PATH_MAX bytes. Static, because
// the caller's stack may be small, and because the heap is being examined.
char g_buffer[16384];

/// Reads the file in pieces and hands out whole lines.
class MapsReader {
 public:
  MapsReader() { fd_ = OpenFile("/proc/self/maps", O_RDONLY | O_CLOEXEC); }
  ~MapsReader() {
    if (fd_ >= 0) SystemCall(SYS_close, fd_);
  }
  MapsReader(const MapsReader&) = delete;
  MapsReader& operator=(const MapsReader&) = delete;

  /// Returns 1 and the next line, 0 at the end, or a negative errno.
  int TakeLine(std::string_view& line) {
    if (fd_ < 0) return static_cast<int>(fd_);
    for (;;) {
      if (TakeBufferedLine(line)) return 1;
      const int filled = Fill();
      if (filled <= 0) return filled;
    }
  }

 private:
  bool TakeBufferedLine(std::string_view& line) {
    const void* found = memchr(g_buffer + taken_, '\n', filled_ - taken_);
    if (found == nullptr) return false;
    const size_t line_end = static_cast<size_t>(static_cast<const char*>(found) - g_buffer);
    line = {g_buffer + taken_, line_end - taken_};
    taken_ = line_end + 1;
    return true;
  }

  int Fill() {
    memmove(g_buffer, g_buffer + taken_, filled_ - taken_);
    filled_ -= taken_;
    taken_ = 0;
    if (filled_ == sizeof(g_buffer)) return -ENAMETOOLONG;
    const int64_t got = SystemCall(SYS_read, fd_, g_buffer + filled_, sizeof(g_buffer) - filled_);
    if (got > 0) filled_ += static_cast<size_t>(got);
    return static_cast<int>(got);
  }

  size_t taken_ = 0;
  size_t filled_ = 0;
  int64_t fd_;
};

}  // namespace

int ProtectionOf(const Vma& vma) {
  return (vma.readable ? PROT_READ : 0) | (vma.writable ? PROT_WRITE : 0) |
         (vma.executable ? PROT_EXEC : 0);
}

VmaKind KindOf(const Vma& vma, std::string_view name) {
  if (vma.shared && Equal(name, kSegmentPath)) return VmaKind::kSegment;
  if (vma.shared) return VmaKind::kShared;
  if (vma.inode != 0) return VmaKind::kFile;
  if (name.empty() || StartsWith(name, "[anon:")) return VmaKind::kAnonymous;
  if (Equal(name, "[heap]")) return VmaKind::kHeap;
  if (StartsWith(name, "[stack")) return VmaKind::kStack;
  if (StartsWith(name, "[v") && !Equal(name, "[vdso]")) return VmaKind::kSpecial;
  return VmaKind::kFile;
}

bool ParseMapsLine(std::string_view line, Vma& vma) {
  LineParser parser(line);
  uint64_t device_major, device_minor;
  if (!parser.TakeNumber(16, '-', vma.start) || !parser.TakeNumber(16, ' ', vma.end)) return false;
  if (!parser.TakePermissions(vma)) return false;
  if (!parser.TakeNumber(16, ' ', vma.file_offset)) return false;
  if (!parser.TakeNumber(16, ':', device_major)) return false;
  if (!parser.TakeNumber(16, ' ', device_minor)) return false;
  vma.device = MakeDevice(device_major, device_minor);
  if (!parser.TakeNumber(10, '\0', vma.inode)) return false;
  vma.kind = KindOf(vma, parser.TakeName());
  return vma.start < vma.end;
}

int CountMaps(uint64_t& count) {
  MapsReader reader;
  std::string_view line;
  for (count = 0;; ++count) {
    const int taken = reader.TakeLine(line);
    if (taken <= 0) return -taken;
  }
}

int ReadMaps(AddressRange window, MappedArray<Vma>& vmas) {
  MapsReader reader;
  std::string_view line;
  for (;;) {
    const int taken = reader.TakeLine(line);
    if (taken <= 0) return -taken;
    Vma vma;
    if (!ParseMapsLine(line, vma)) return EIO;
    if (vma.start >= window.end) return 0;
    if (vma.range().Meets(window) && !vmas.Append(vma)) return ENOMEM;
  }
}

}  // namespace uroce::memory
