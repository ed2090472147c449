// SPDX-License-Identifier: Apache-2.0
#include "nic/base/shared_memory.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>

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

absl::StatusOr<Mapping> MapShared(int fd, uint64_t length, bool writable) {
  const int protection = PROT_READ | (writable ? PROT_WRITE : 0);
  void* data = mmap(nullptr, length, protection, MAP_SHARED | MAP_NORESERVE, fd, 0);
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

absl::Status SystemError(const char* what, int error) { return absl::ErrnoToStatus(error, what); }

}  // namespace uroce
