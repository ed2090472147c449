/* SPDX-License-Identifier: Apache-2.0
 * Takes memory away in the middle of transfers: a registered memfd is truncated, or its pages are
 * removed, while the daemon reads from it and writes to it.
 * Usage: shrinking_file DEVICE DEVICE truncate|punch, under `uroce run`. After `truncate` the
 * daemon must end the session: exit status 0 when every completion comes, and the last ones with an
 * error. After `punch` all goes on, with zeros. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "request.h"

#define BYTES (8u << 20)
#define MESSAGE_BYTES (256u << 10)
#define BEFORE 20
#define AFTER 4000

static struct end ends[2];
static struct ibv_mr* regions[2];

static void start(int from_file, uint32_t at) {
  const struct request request = {.opcode = from_file ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
                                  .local = regions[0],
                                  .remote = regions[1],
                                  .local_at = at,
                                  .remote_at = at,
                                  .length = MESSAGE_BYTES};
  post(&ends[0], &request);
}

static enum ibv_wc_status transfer(uint32_t number) {
  start(number % 2, number * 4096 % (BYTES - MESSAGE_BYTES));
  return complete(&ends[0]);
}

static void take_away(int fd, int truncates) {
  const int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  if ((truncates ? ftruncate(fd, 0) : fallocate(fd, mode, 0, BYTES)) != 0) fail("the file");
}

static int run(int fd, int truncates) {
  for (uint32_t i = 0; i < BEFORE; ++i) {
    if (transfer(i) != IBV_WC_SUCCESS) return 1;
  }
  start(1, 0); /* Under way while the memory goes. */
  take_away(fd, truncates);
  int failed = complete(&ends[0]) != IBV_WC_SUCCESS;
  for (uint32_t i = 0; i < (truncates ? AFTER : BEFORE) && !failed; ++i) {
    failed = transfer(i) != IBV_WC_SUCCESS;
  }
  return failed != truncates;
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  connect_ends(ends, (const char* const*)argv + 1);
  const int fd = memfd_create("shrinks", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, BYTES) != 0) fail("memfd_create");
  uint8_t* file = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  uint8_t* other = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (file == MAP_FAILED || other == MAP_FAILED) fail("mmap");
  regions[0] = register_all_rights(&ends[0], file, BYTES);
  regions[1] = register_all_rights(&ends[1], other, BYTES);
  return run(fd, strcmp(argv[3], "truncate") == 0);
}
