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

#include "connection.h"

#define BYTES (8u << 20)
#define MESSAGE_BYTES (256u << 10)
#define BEFORE 20
#define AFTER 4000

static struct end ends[2];
static struct ibv_mr* regions[2];

static void post(int from_file, uint32_t at) {
  struct ibv_sge sge = {
      .addr = (uintptr_t)regions[0]->addr + at, .length = MESSAGE_BYTES, .lkey = regions[0]->lkey};
  struct ibv_send_wr wr = {
      .sg_list = &sge,
      .num_sge = 1,
      .opcode = from_file ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
      .send_flags = IBV_SEND_SIGNALED,
      .wr.rdma = {.remote_addr = (uintptr_t)regions[1]->addr + at, .rkey = regions[1]->rkey}};
  struct ibv_send_wr* bad;
  if (ibv_post_send(ends[0].qp, &wr, &bad) != 0) fail("ibv_post_send");
}

/* Returns the status of the next completion. */
static enum ibv_wc_status complete(void) {
  struct ibv_wc wc;
  int count;
  do {
    count = ibv_poll_cq(ends[0].cq, 1, &wc);
  } while (count == 0);
  return count == 1 ? wc.status : IBV_WC_GENERAL_ERR;
}

static enum ibv_wc_status transfer(uint32_t number) {
  post(number % 2, number * 4096 % (BYTES - MESSAGE_BYTES));
  return complete();
}

static void take_away(int fd, int truncates) {
  const int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  if ((truncates ? ftruncate(fd, 0) : fallocate(fd, mode, 0, BYTES)) != 0) fail("the file");
}

static int run(int fd, int truncates) {
  for (uint32_t i = 0; i < BEFORE; ++i) {
    if (transfer(i) != IBV_WC_SUCCESS) return 1;
  }
  post(1, 0); /* Under way while the memory goes. */
  take_away(fd, truncates);
  int failed = complete() != IBV_WC_SUCCESS;
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
  const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  regions[0] = ibv_reg_mr(ends[0].pd, file, BYTES, access);
  regions[1] = ibv_reg_mr(ends[1].pd, other, BYTES, access);
  if (regions[0] == NULL || regions[1] == NULL) fail("ibv_reg_mr");
  return run(fd, strcmp(argv[3], "truncate") == 0);
}
