// SPDX-License-Identifier: Apache-2.0
#include "verbs-shim/support.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

namespace uroce::shim {
namespace {

/// Whether the variable of the environment is there, and neither empty nor 0.
bool IsSet(const char* name) {
  const char* value = secure_getenv(name);
  return value != nullptr && value[0] != '\0' && strcmp(value, "0") != 0;
}

}  // namespace

bool HidesOtherDevices() { return IsSet("UROCE_ONLY"); }

uint64_t ClockNs(clockid_t clock) {
  timespec time = {};
  clock_gettime(clock, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1000000000 + static_cast<uint64_t>(time.tv_nsec);
}

ErrnoKeeper::ErrnoKeeper() : saved_(errno) {}
ErrnoKeeper::~ErrnoKeeper() { errno = saved_; }

namespace {

void WriteLine(const char* format, va_list arguments) {
  const ErrnoKeeper keeper;
  const CancelOff cancel_off;
  char line[512];
  size_t length = static_cast<size_t>(snprintf(line, sizeof(line), "uroce[%d]: ", getpid()));
  const int written = vsnprintf(line + length, sizeof(line) - length - 1, format, arguments);
  if (written < 0) return;
  length += static_cast<size_t>(written);
  if (length > sizeof(line) - 2) length = sizeof(line) - 2;
  line[length++] = '\n';
  // One write, so that lines of several threads do not mix. A closed stderr is not an error here.
  const ssize_t ignored = write(STDERR_FILENO, line, length);
  (void)ignored;
}

}  // namespace

void Log(const char* format, ...) {
  if (!IsSet("UROCE_LOG")) return;
  va_list arguments;
  va_start(arguments, format);
  WriteLine(format, arguments);
  va_end(arguments);
}

void Warn(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  WriteLine(format, arguments);
  va_end(arguments);
}

}  // namespace uroce::shim
