/* SPDX-License-Identifier: Apache-2.0
 * Registers memory whose pages io_uring has pinned, and has io_uring pin registered memory: what
 * io_uring reads and writes has to be what the program and its peer see, also behind the end of the
 * registration.
 * Usage: pinned_program DEVICE DEVICE, under `uroce run`. Prints "no io_uring" where there is none.
 */
#include <linux/io_uring.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "request.h"

#define BYTES (1u << 20)
#define ENTRIES 4

static struct end ends[2];
static int ring;
static struct io_uring_params parameters;
static uint8_t *sq, *cq;
static struct io_uring_sqe* entries;
static int file;
static uint8_t* bytes_of_file;

static void* map(size_t bytes, int fd, uint64_t offset) {
  const int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED | MAP_POPULATE;
  void* start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, (off_t)offset);
  if (start == MAP_FAILED) fail("mmap");
  return start;
}

static int open_ring(void) {
  ring = (int)syscall(SYS_io_uring_setup, ENTRIES, &parameters);
  if (ring < 0) return 0;
  sq = map(parameters.sq_off.array + parameters.sq_entries * sizeof(uint32_t), ring,
           IORING_OFF_SQ_RING);
  cq = map(parameters.cq_off.cqes + parameters.cq_entries * sizeof(struct io_uring_cqe), ring,
           IORING_OFF_CQ_RING);
  entries = map(parameters.sq_entries * sizeof(struct io_uring_sqe), ring, IORING_OFF_SQES);
  return 1;
}

static void pin(uint8_t* buffer) {
  const struct iovec all = {buffer, BYTES};
  syscall(SYS_io_uring_register, ring, IORING_UNREGISTER_BUFFERS, NULL, 0);
  if (syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, &all, 1) != 0) {
    fail("IORING_REGISTER_BUFFERS");
  }
}

/* Reads the file into the pinned buffer, or writes the buffer to it. */
static void move(uint8_t opcode, uint8_t* buffer) {
  uint32_t* tail = (uint32_t*)(sq + parameters.sq_off.tail);
  const uint32_t place = *tail & *(uint32_t*)(sq + parameters.sq_off.ring_mask);
  memset(&entries[place], 0, sizeof entries[place]);
  entries[place].opcode = opcode;
  entries[place].fd = file;
  entries[place].addr = (uintptr_t)buffer;
  entries[place].len = BYTES;
  ((uint32_t*)(sq + parameters.sq_off.array))[place] = place;
  __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
  if (syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) != 1) {
    fail("io_uring_enter");
  }
  uint32_t* head = (uint32_t*)(cq + parameters.cq_off.head);
  const uint32_t mask = *(uint32_t*)(cq + parameters.cq_off.ring_mask);
  const struct io_uring_cqe* done = (const struct io_uring_cqe*)(cq + parameters.cq_off.cqes);
  if (done[*head & mask].res != (int)BYTES) fail("the transfer of io_uring");
  __atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
}

static void fill_file(uint8_t value) {
  memset(bytes_of_file, value, BYTES);
  if (pwrite(file, bytes_of_file, BYTES, 0) != (ssize_t)BYTES) fail("pwrite");
}

static void expect(const char* what, const uint8_t* buffer, uint8_t value) {
  for (uint32_t at = 0; at < BYTES; ++at) {
    if (buffer[at] == value) continue;
    fprintf(stderr, "%s: byte %u is %u, not %u\n", what, at, buffer[at], value);
    exit(1);
  }
}

static struct ibv_mr* enroll(struct end* end, uint8_t* buffer) {
  struct ibv_mr* made =
      ibv_reg_mr(end->pd, buffer, BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  if (made == NULL) fail("ibv_reg_mr");
  return made;
}

static void transfer(enum ibv_wr_opcode opcode, struct ibv_mr* local, struct ibv_mr* remote,
                     struct end* from) {
  const struct request request = {
      .opcode = opcode, .local = local, .remote = remote, .length = BYTES};
  post(from, &request);
  if (complete(from) != IBV_WC_SUCCESS) fail("a transfer");
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  if (!open_ring()) {
    puts("no io_uring");
    return 0;
  }
  file = memfd_create("file", MFD_CLOEXEC);
  bytes_of_file = map(BYTES, -1, 0);
  uint8_t* const buffer = map(BYTES, -1, 0);
  uint8_t* const peers = map(BYTES, -1, 0);
  memset(buffer, 1, BYTES);
  memset(peers, 2, BYTES);
  connect_ends(ends, (const char* const*)argv + 1);
  struct ibv_mr* const remote = enroll(&ends[1], peers);

  pin(buffer);
  struct ibv_mr* local = enroll(&ends[0], buffer);
  fill_file(3);
  move(IORING_OP_READ_FIXED, buffer);
  expect("what io_uring has read", buffer, 3);
  transfer(IBV_WR_RDMA_WRITE, local, remote, &ends[0]);
  expect("what the peer got", peers, 3);
  memset(peers, 4, BYTES);
  transfer(IBV_WR_RDMA_WRITE, remote, local, &ends[1]);
  move(IORING_OP_WRITE_FIXED, buffer);
  if (pread(file, bytes_of_file, BYTES, 0) != (ssize_t)BYTES) fail("pread");
  expect("what io_uring has written", bytes_of_file, 4);
  if (ibv_dereg_mr(local) != 0) fail("ibv_dereg_mr");
  fill_file(5);
  move(IORING_OP_READ_FIXED, buffer);
  expect("what io_uring has read behind the registration", buffer, 5);

  /* Now the peer's memory, which was registered before. */
  pin(peers);
  if (ibv_dereg_mr(remote) != 0) fail("ibv_dereg_mr");
  fill_file(6);
  move(IORING_OP_READ_FIXED, peers);
  expect("what io_uring has read into what was registered", peers, 6);
  return 0;
}
