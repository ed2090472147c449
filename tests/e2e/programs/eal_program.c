/* SPDX-License-Identifier: Apache-2.0
 * A program with its own DPDK: memory of its heap is written through uroce's devices.
 *
 * usage: eal_program GID_INDEX_A GID_INDEX_B EAL_ARGUMENT... */
#include <rte_eal.h>
#include <rte_malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/programs/verbs_pair.h"

enum { kBytes = 64 << 10, kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE };

static struct ibv_mr* heap_region(const struct bench_end* end, int value) {
  void* bytes = rte_malloc(NULL, kBytes, 64);
  bench_require(bytes != NULL, "rte_malloc");
  memset(bytes, value, kBytes);
  struct ibv_mr* mr = ibv_reg_mr(end->pd, bytes, kBytes, kAccess);
  bench_require(mr != NULL, "ibv_reg_mr");
  return mr;
}

static void write_all(struct ibv_qp* qp, const struct ibv_mr* from, const struct ibv_mr* to) {
  struct ibv_sge sge = {(uintptr_t)from->addr, kBytes, from->lkey};
  struct ibv_send_wr wr = {
      .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
  wr.wr.rdma.remote_addr = (uintptr_t)to->addr;
  wr.wr.rdma.rkey = to->rkey;
  struct ibv_send_wr* bad;
  bench_require(!ibv_post_send(qp, &wr, &bad), "ibv_post_send");
  struct ibv_wc wc;
  int count;
  while ((count = ibv_poll_cq(qp->send_cq, 1, &wc)) == 0) continue;
  bench_require(count == 1 && wc.status == IBV_WC_SUCCESS, "a completion");
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const uint32_t gid_a = (uint32_t)atoi(argv[1]);
  const uint32_t gid_b = (uint32_t)atoi(argv[2]);
  argv[2] = argv[0];
  bench_require(rte_eal_init(argc - 2, argv + 2) >= 0, "rte_eal_init");
  struct bench_end a;
  struct bench_end b;
  bench_open(&a, "uroce0", gid_a, 4);
  bench_open(&b, "uroce1", gid_b, 4);
  struct ibv_qp* from = bench_make_qp(&a, 4, 0);
  bench_connect(&a, from, &b, bench_make_qp(&b, 4, 0));
  const struct ibv_mr* source = heap_region(&a, 1);
  const struct ibv_mr* target = heap_region(&b, 2);
  write_all(from, source, target);
  bench_require(!memcmp(source->addr, target->addr, kBytes), "the same bytes");
  bench_require(!rte_eal_cleanup(), "rte_eal_cleanup");
  printf("eal: right\n");
  return 0;
}
