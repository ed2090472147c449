// SPDX-License-Identifier: Apache-2.0
#include "drivers/memif/memif_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

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
      GuardedMapping::Make(Mapping(data, mapped_bytes), MappingGuard::kNobody);
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

}  // namespace uroce::drivers
