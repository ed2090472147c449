// SPDX-License-Identifier: Apache-2.0
#include "verbs-shim/memory/pins.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstdint>

#include "verbs-shim/memory/process_files.h"
#include "verbs-shim/memory/system_call.h"

namespace uroce::memory {

// ---- Pins that the kernel counts ----

namespace {

constexpr char kLabel[] = "\nVmPin:";
constexpr int64_t kLabelBytes = sizeof(kLabel) - 1;

bool IsLabelAt(const char* text) {
  for (int64_t i = 0; i < kLabelBytes; ++i) {
    if (text[i] != kLabel[i]) return false;
  }
  return true;
}

/// Whether the line that begins at `text` has a digit other than 0.
bool HasCount(const char* text, const char* end) {
  for (; text < end && *text != '\n'; ++text) {
    if (*text >= '1' && *text <= '9') return true;
  }
  return false;
}

}  // namespace

bool HasCountedPins() {
  const int64_t file = OpenProcessFile(ProcessFile::kStatus);
  if (IsError(file)) return false;
  char text[1024];  // The line is among the first 25.
  const int64_t bytes = SystemCall(SYS_read, file, text, sizeof(text));
  for (int64_t at = 0; at + kLabelBytes < bytes; ++at) {
    if (IsLabelAt(text + at)) return HasCount(text + at + kLabelBytes, text + bytes);
  }
  return false;
}

// ---- Files whose drivers may pin pages ----

namespace {

constexpr int kXdpFamily = 44;  // AF_XDP

// Character devices by their major number (Documentation/admin-guide/devices.txt of Linux).
constexpr uint32_t kMemory = 1, kInput = 13, kMisc = 10;

bool IsTerminal(uint32_t major) {
  return (2 <= major && major <= 5) || (128 <= major && major <= 143);
}

// Misc devices, by the last part of their names. None keeps pages of its callers.
constexpr const char* kHarmlessMisc[] = {
    "autofs",       "cpu_dma_latency", "fuse", "hpet",   "hwrng",      "kvm",
    "loop-control", "rfkill",          "tun",  "uinput", "userfaultfd"};

bool IsEqual(const char* left, const char* right) {
  for (; *left == *right; ++left, ++right) {
    if (*left == '\0') return true;
  }
  return false;
}

/// Whether the link `name` in the directory of open files leads to one of those devices.
bool IsHarmlessMisc(int64_t directory, const char* name) {
  static char target[4096];  // Static, because the caller's stack may be small.
  const int64_t length = SystemCall(SYS_readlinkat, directory, name, target, sizeof(target) - 1);
  if (length <= 0) return false;
  target[length] = '\0';
  const char* last = target;
  for (const char* at = target; *at != '\0'; ++at) {
    if (*at == '/') last = at + 1;
  }
  for (const char* harmless : kHarmlessMisc) {
    if (IsEqual(last, harmless)) return true;
  }
  return false;
}

bool IsXdpSocket(int64_t fd) {
  int domain = 0;
  uint32_t bytes = sizeof(domain);
  const int64_t result = SystemCall(SYS_getsockopt, fd, SOL_SOCKET, SO_DOMAIN, &domain, &bytes);
  return result == 0 && domain == kXdpFamily;
}

/// Without a question to the server of a network file system or of FUSE, which may not answer.
int64_t TypeOf(int64_t fd, struct statx& status) {
  return SystemCall(SYS_statx, fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &status);
}

bool MayPin(int64_t directory, const char* name, int64_t fd) {
  struct statx status = {};
  const int64_t result = TypeOf(fd, status);
  if (result != 0) return result != -EBADF;  // EBADF: another thread has closed it.
  if (S_ISSOCK(status.stx_mode)) return IsXdpSocket(fd);
  if (!S_ISCHR(status.stx_mode)) return false;
  const uint32_t major = status.stx_rdev_major;
  if (major == kMemory || major == kInput || IsTerminal(major)) return false;
  return major != kMisc || !IsHarmlessMisc(directory, name);
}

}  // namespace

bool HasPinningFile() {
  const int64_t directory = OpenProcessFile(ProcessFile::kOpenFiles);
  if (directory < 0) return true;
  return ForEachNumber(directory, [directory](int64_t fd, const char* name) {
           return MayPin(directory, name, fd) ? 1 : 0;
         }) != 0;
}

}  // namespace uroce::memory
