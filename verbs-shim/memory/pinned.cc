// SPDX-License-Identifier: Apache-2.0
// Reads the count of /proc/self/status, which no system call tells.
#include "verbs-shim/memory/pinned.h"

#include <fcntl.h>

#include <cstdint>

#include "verbs-shim/memory/system_call.h"

namespace uroce::memory {
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

bool HasPinnedPages() {
  const int64_t file = OpenFile("/proc/self/status", O_RDONLY | O_CLOEXEC);
  if (IsError(file)) return false;
  char text[1024];  // The line is among the first 25.
  const int64_t bytes = SystemCall(SYS_read, file, text, sizeof(text));
  SystemCall(SYS_close, file);
  for (int64_t at = 0; at + kLabelBytes < bytes; ++at) {
    if (IsLabelAt(text + at)) return HasCount(text + at + kLabelBytes, text + bytes);
  }
  return false;
}

}  // namespace uroce::memory
