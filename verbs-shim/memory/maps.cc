// SPDX-License-Identifier: Apache-2.0
#include "verbs-shim/memory/maps.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "pipeline/shm/abi/uroce_commands.h"
#include "verbs-shim/memory/process_files.h"
#include "verbs-shim/memory/system_call.h"

namespace uroce::memory {

// ---- /proc/self/maps, read and parsed without heap or stdio ----

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
  MapsReader() : fd_(OpenProcessFile(ProcessFile::kMaps)) {}
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

bool AppendFrom(uint64_t address, Vma vma, MappedArray<Vma>& vmas) {
  if (vma.start < address) {
    if (vma.inode != 0) vma.file_offset += address - vma.start;
    vma.start = address;
  }
  return vma.start >= vma.end || vmas.Append(vma);
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
  for (uint64_t seen = 0;;) {
    const int taken = reader.TakeLine(line);
    if (taken <= 0) return -taken;
    Vma vma;
    if (!ParseMapsLine(line, vma)) return EIO;
    if (vma.start >= window.end) return 0;
    if (vma.range().Meets(window) && !AppendFrom(seen, vma, vmas)) return ENOMEM;
    seen = vma.end;
  }
}

// ---- Single mappings by address, without reading all mappings before them ----

namespace {

// struct procmap_query of Linux 6.11, whose header Debian 12 lacks.
struct ProcmapQuery {
  uint64_t size;
  uint64_t query_flags;
  uint64_t query_addr;
  uint64_t vma_start;
  uint64_t vma_end;
  uint64_t vma_flags;
  uint64_t vma_page_size;
  uint64_t vma_offset;
  uint64_t inode;
  uint32_t dev_major;
  uint32_t dev_minor;
  uint32_t vma_name_size;
  uint32_t build_id_size;
  uint64_t vma_name_addr;
  uint64_t build_id_addr;
};
static_assert(sizeof(ProcmapQuery) == 104);

constexpr uint64_t kQueryCommand = _IOWR('f', 17, ProcmapQuery);
constexpr uint64_t kReadable = 1, kWritable = 2, kExecutable = 4, kShared = 8;
constexpr uint64_t kCoveringOrNext = 16;

/// The mapping at or after `address`. Returns 0 or a negative errno, -ENOENT after the last
/// mapping.
int64_t Query(int64_t fd, uint64_t address, Vma& vma) {
  static char name[4096];
  ProcmapQuery query = {};
  query.size = sizeof(query);
  query.query_flags = kCoveringOrNext;
  query.query_addr = address;
  query.vma_name_size = sizeof(name);
  query.vma_name_addr = reinterpret_cast<uint64_t>(name);
  const int64_t result = SystemCall(SYS_ioctl, fd, kQueryCommand, &query);
  if (result < 0) return result;
  vma = {.start = query.vma_start,
         .end = query.vma_end,
         .file_offset = query.vma_offset,
         .device = MakeDevice(query.dev_major, query.dev_minor),
         .inode = query.inode,
         .readable = (query.vma_flags & kReadable) != 0,
         .writable = (query.vma_flags & kWritable) != 0,
         .executable = (query.vma_flags & kExecutable) != 0,
         .shared = (query.vma_flags & kShared) != 0,
         .kind = VmaKind::kFile};
  const size_t name_bytes = query.vma_name_size == 0 ? 0 : query.vma_name_size - 1;
  vma.kind = KindOf(vma, {name, name_bytes});
  return 0;
}

/// Below and above `region`, only mappings that adjoin it without a gap are queried.
int64_t QueryAll(int64_t fd, AddressRange region, AddressRange window, MappedArray<Vma>& vmas) {
  uint64_t seen = 0;
  for (uint64_t address = window.start; address < window.end;) {
    Vma vma;
    const int64_t result = Query(fd, address, vma);
    if (result == -ENOENT) return 0;
    if (result < 0) return result;
    if (vma.start > address) {
      if (address >= region.end) return 0;
      if (vma.end <= region.start) {
        address = region.start;
        continue;
      }
    }
    if (vma.start >= window.end) return 0;
    if (!AppendFrom(seen, vma, vmas)) return -ENOMEM;
    address = seen = vma.end;
  }
  return 0;
}

}  // namespace

int QueryMaps(AddressRange region, AddressRange window, MappedArray<Vma>& vmas) {
  const int64_t fd = OpenProcessFile(ProcessFile::kMaps);
  if (fd < 0) return static_cast<int>(-fd);
  const int64_t result = QueryAll(fd, region, window, vmas);
  return static_cast<int>(-result);
}

int FindMaps(AddressRange region, AddressRange window, MappedArray<Vma>& vmas) {
  vmas.Clear();
  if (QueryMaps(region, window, vmas) == 0) return 0;
  vmas.Clear();
  return ReadMaps(window, vmas);
}

namespace {

constexpr uint64_t kDefaultLimit = 65530;  // The kernel's default.
constexpr uint64_t kMapsPerRemap = 3;      // It may cut a mapping into three, and keeps one.
constexpr uint64_t kMostRemaps = 1024;
// Refusals until the next count: counting tens of thousands of mappings takes tens of ms.
constexpr uint32_t kRefusals = 256;

uint64_t ReadLimit() {
  const int64_t fd = OpenFile("/proc/sys/vm/max_map_count", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return kDefaultLimit;
  char text[24] = {};
  const int64_t bytes = SystemCall(SYS_read, fd, text, sizeof(text));
  SystemCall(SYS_close, fd);
  uint64_t limit = 0;
  for (int64_t i = 0; i < bytes && text[i] >= '0' && text[i] <= '9'; ++i) {
    limit = limit * 10 + static_cast<uint64_t>(text[i] - '0');
  }
  return limit != 0 ? limit : kDefaultLimit;
}

}  // namespace

uint32_t MapBudget::Share(uint64_t used, uint64_t limit) {
  const uint64_t usable = limit - limit / 8;
  if (used >= usable) return 0;
  const uint64_t remaps = (usable - used) / kMapsPerRemap;
  return static_cast<uint32_t>(remaps < kMostRemaps ? remaps : kMostRemaps);
}

bool MapBudget::Take() {
  if (refusals_ > 0) {
    --refusals_;
    return false;
  }
  if (left_ == 0) {
    uint64_t used = 0;
    if (CountMaps(used) != 0) return false;
    left_ = Share(used, ReadLimit());
  }
  if (left_ == 0) {
    refusals_ = kRefusals;
    return false;
  }
  --left_;
  return true;
}

}  // namespace uroce::memory
