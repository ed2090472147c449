// SPDX-License-Identifier: Apache-2.0
// Preloaded into a program that uses uroce: a thread closes the files by which liburoce copies, as
// soon as there are such, and opens others with their numbers.
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { kMostFds = 256 };

static bool Replace(int fd) {
  char path[64];
  char target[PATH_MAX] = "";
  snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
  if (readlink(path, target, sizeof(target) - 1) < 0) return false;
  const bool is_for_copies = strncmp(target, "/memfd:uroce-copies", 19) == 0 ||
                             strncmp(target, "/memfd:uroce-own-copies", 23) == 0;
  if (!is_for_copies) return false;
  const int other = open("/dev/zero", O_RDWR | O_CLOEXEC);
  dup2(other, fd);
  close(other);
  return true;
}

static void* Run(void* unused) {
  for (int replaced = 0; replaced < 2; usleep(100)) {
    for (int fd = 3; fd < kMostFds; ++fd) replaced += Replace(fd) ? 1 : 0;
  }
  return unused;
}

__attribute__((constructor)) static void Start(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, Run, NULL) == 0) pthread_detach(thread);
}
