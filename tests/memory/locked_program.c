/* SPDX-License-Identifier: Apache-2.0
 * Locks all its memory by mlockall(2), as programs do that must not wait for pages. That brings in
 * every page that the program could access: the shim must not have reserved more than it uses.
 * Usage: locked_program DEVICE DEVICE before|behind, under `uroce run`: locks before it opens the
 * device, or behind its registrations. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "request.h"

#define BYTES (32u << 20)
#define PAGE_BYTES 4096
#define SPARE_KB (24 << 10) /* Of the program, its libraries, its queues. */

static struct end ends[2];
static uint8_t* buffers[2];
static struct ibv_mr* regions[2];

static long resident_kb(void) {
  char line[256];
  long found = 0;
  FILE* file = fopen("/proc/self/status", "r");
  if (file == NULL) fail("/proc/self/status");
  while (fgets(line, sizeof line, file) != NULL) {
    if (strncmp(line, "VmRSS:", 6) == 0) found = atol(line + 6);
  }
  fclose(file);
  return found;
}

static void expect_at_most(const char* when, long limit_kb) {
  const long kb = resident_kb();
  printf("%s: %ld kB\n", when, kb);
  if (kb <= limit_kb) return;
  fprintf(stderr, "%s %ld kB are resident, more than %ld\n", when, kb, limit_kb);
  exit(1);
}

static void lock_all(int flags) {
  if (mlockall(flags) != 0) fail("mlockall");
}

static void fill(int which) {
  for (uint32_t at = 0; at < BYTES; at += PAGE_BYTES)
    buffers[which][at] = (uint8_t)(at / 7 + which);
}

static void check(int which, int from) {
  for (uint32_t at = 0; at < BYTES; at += PAGE_BYTES) {
    if (buffers[which][at] != (uint8_t)(at / 7 + from)) fail("other bytes");
  }
}

static void transfer(void) {
  const struct request request = {
      .opcode = IBV_WR_RDMA_WRITE, .local = regions[0], .remote = regions[1], .length = BYTES};
  post(&ends[0], &request);
  if (complete(&ends[0]) != IBV_WC_SUCCESS) fail("a WRITE");
}

/* The copies that it is given go with it. */
static void fork_once(void) {
  const pid_t child = fork();
  if (child == 0) _exit(buffers[0][PAGE_BYTES] == (uint8_t)(PAGE_BYTES / 7) ? 0 : 1);
  int status = 0;
  if (waitpid(child, &status, 0) != child || status != 0) fail("the child");
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const int is_before = strcmp(argv[3], "before") == 0;
  const long buffers_kb = 2 * (BYTES >> 10);
  if (is_before) lock_all(MCL_CURRENT | MCL_FUTURE);
  connect_ends(ends, (const char* const*)argv + 1);
  if (is_before) expect_at_most("connected", SPARE_KB);
  for (int i = 0; i < 2; ++i) {
    buffers[i] = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (buffers[i] == MAP_FAILED) fail("mmap");
    fill(i);
    regions[i] =
        ibv_reg_mr(ends[i].pd, buffers[i], BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    if (regions[i] == NULL) fail("ibv_reg_mr");
  }
  if (!is_before) fork_once();
  if (!is_before) lock_all(MCL_CURRENT);
  expect_at_most("registered", buffers_kb + SPARE_KB);
  transfer();
  check(1, 0);
  expect_at_most("transferred", buffers_kb + SPARE_KB);
  for (int i = 0; i < 2; ++i) {
    if (ibv_dereg_mr(regions[i]) != 0) fail("ibv_dereg_mr");
  }
  check(0, 0);
  check(1, 0);
  expect_at_most("deregistered", buffers_kb + SPARE_KB);
  return 0;
}
