/* SPDX-License-Identifier: Apache-2.0
 * usage: faulty_programs CASE GID-A GID-B: misuses both ends of a connection between the NICs. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "tests/e2e/programs/faulty_programs/cases.h"
#include "tests/e2e/programs/faulty_programs/stuck_file.h"

void mu_bring_up(struct mu_pair* pair) {
  pair->a.peer = pair->b.info;
  pair->b.peer = pair->a.info;
  struct vc_side* sides[] = {&pair->a, &pair->b};
  for (int i = 0; i < 2; ++i) vc_side_to_init(sides[i]);
  for (int i = 0; i < 2; ++i) vc_side_connect(sides[i]);
}

void mu_post_write(struct mu_pair* pair) {
  struct vc_side* side = &pair->a;
  struct ibv_sge sge = {(uintptr_t)side->source.bytes, 8, side->source.mr->lkey};
  struct ibv_send_wr request = {
      .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
  request.wr.rdma.remote_addr = side->peer.writable_addr;
  request.wr.rdma.rkey = side->peer.writable_rkey;
  struct ibv_send_wr* bad = NULL;
  const int error = ibv_post_send(side->qp, &request, &bad);
  if (error && error != ENOMEM) vc_die(side, "ibv_post_send: %s", strerror(error));
}

struct ibv_wc mu_await_completion(struct mu_pair* pair) {
  const time_t deadline = time(NULL) + pair->options.deadline_s;
  struct ibv_wc wc;
  int count;
  while ((count = ibv_poll_cq(pair->a.send_cq, 1, &wc)) == 0) {
    if (time(NULL) > deadline) vc_die(&pair->a, "no completion");
  }
  if (count < 0) vc_die(&pair->a, "ibv_poll_cq failed");
  return wc;
}

void* mu_stuck_memory(const struct mu_pair* pair, size_t bytes) {
  const int file = sf_open();
  if (file < 0) vc_die(&pair->a, "no FUSE: %s", strerror(errno));
  void* page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
  close(file);
  if (page == MAP_FAILED) vc_die(&pair->a, "no memory: %s", strerror(errno));
  return page;
}

void mu_await_waiters(const struct mu_pair* pair) {
  const time_t deadline = time(NULL) + pair->options.deadline_s;
  while (sf_waiters() == 0) {
    if (time(NULL) > deadline) vc_die(&pair->a, "no thread reads the memory");
    sched_yield();
  }
}

static const struct mu_case* find(const char* name) {
  const struct mu_case* tables[] = {mu_copy_cases, mu_queue_cases, mu_process_cases};
  for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); ++i) {
    for (const struct mu_case* one = tables[i]; one->name; ++one) {
      if (!strcmp(one->name, name)) return one;
    }
  }
  return NULL;
}

int main(int argc, char** argv) {
  const struct mu_case* found = argc == 4 ? find(argv[1]) : NULL;
  if (!found) {
    fprintf(stderr, "usage: faulty_programs CASE GID-A GID-B\n");
    return 2;
  }
  static struct mu_pair pair;
  pair.options = (struct vc_options){.devices = {"uroce0", "uroce1"},
                                     .gid_indices = {atoi(argv[2]), atoi(argv[3])},
                                     .role = -1,
                                     .rxe_end = -1,
                                     .type = IBV_QPT_RC,
                                     .seed = 1,
                                     .max_bytes = 4096,
                                     .ack_timeout = 14,
                                     .retry_count = 7,
                                     .rnr_retry = 7,
                                     .deadline_s = 30,
                                     .with_channel = 1};
  vc_side_open(&pair.a, &pair.options, 0);
  vc_side_open(&pair.b, &pair.options, 1);
  mu_bring_up(&pair);
  found->run(&pair);
  return 0;
}
