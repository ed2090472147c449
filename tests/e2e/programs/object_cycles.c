/* SPDX-License-Identifier: Apache-2.0
 * Makes objects of every kind, uses and unmakes them, over and over: nothing may be left behind.
 *
 * usage: cycles [-x GID_INDEX] [-y GID_INDEX] CYCLES */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/bench/programs/verbs_pair.h"
#include "tests/e2e/programs/object_cycles_kinds.h"

enum {
  kDepth = 16,
  kBytes = 256 << 10,
  kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_MW_BIND
};

/* One end of a connection and the objects beside it. */
struct side {
  struct bench_end end;
  struct ibv_comp_channel* channel;
  struct ibv_mr* mapped;
  struct ibv_mr* shared;
  struct ibv_mr* copied;
  struct ibv_ah* ah;
  struct ibv_mw* windows[2];
  struct ibv_qp* qp;
  struct cycles_objects objects;
};

static uint8_t* new_memory(int flags) {
  uint8_t* memory = mmap(NULL, kBytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
  bench_require(memory != MAP_FAILED, "mmap");
  memset(memory, 1, kBytes);
  return memory;
}

static struct ibv_mr* reg(const struct side* side, void* memory, size_t length) {
  struct ibv_mr* mr = ibv_reg_mr(side->end.pd, memory, length, kAccess);
  bench_require(mr != NULL, "ibv_reg_mr");
  return mr;
}

/* A part of a stack is copied; all else that is registered here is not. */
static void make(struct side* side, const char* device, uint32_t gid_index, void* stack) {
  bench_open(&side->end, device, gid_index, 1);
  bench_require(!ibv_destroy_cq(side->end.cq), "ibv_destroy_cq");
  side->channel = ibv_create_comp_channel(side->end.context);
  bench_require(side->channel != NULL, "ibv_create_comp_channel");
  side->end.cq = ibv_create_cq(side->end.context, 2 * kDepth, NULL, side->channel, 0);
  bench_require(side->end.cq != NULL, "ibv_create_cq");
  bench_require(!ibv_resize_cq(side->end.cq, 4 * kDepth), "ibv_resize_cq");
  side->mapped = reg(side, new_memory(MAP_PRIVATE), kBytes);
  side->shared = reg(side, new_memory(MAP_SHARED), kBytes);
  side->copied = reg(side, stack, 64);
  struct ibv_ah_attr attributes = {
      .is_global = 1,
      .port_num = 1,
      .grh = {.dgid = side->end.gid, .sgid_index = (uint8_t)gid_index, .hop_limit = 1}};
  side->ah = ibv_create_ah(side->end.pd, &attributes);
  bench_require(side->ah != NULL, "ibv_create_ah");
  side->windows[0] = ibv_alloc_mw(side->end.pd, IBV_MW_TYPE_1);
  side->windows[1] = ibv_alloc_mw(side->end.pd, IBV_MW_TYPE_2);
  bench_require(side->windows[0] && side->windows[1], "ibv_alloc_mw");
  side->qp = bench_make_qp(&side->end, kDepth, 0);
  cycles_make_objects(&side->objects, &side->end);
}

static void unmake(struct side* side) {
  void* private_memory = side->mapped->addr;
  void* shared_memory = side->shared->addr;
  cycles_unmake_objects(&side->objects);
  bench_require(!ibv_destroy_qp(side->qp), "ibv_destroy_qp");
  bench_require(!ibv_destroy_ah(side->ah), "ibv_destroy_ah");
  bench_require(!ibv_dealloc_mw(side->windows[0]), "ibv_dealloc_mw");
  bench_require(!ibv_dealloc_mw(side->windows[1]), "ibv_dealloc_mw");
  bench_require(!ibv_dereg_mr(side->mapped), "ibv_dereg_mr");
  bench_require(!ibv_dereg_mr(side->shared), "ibv_dereg_mr");
  bench_require(!ibv_dereg_mr(side->copied), "ibv_dereg_mr");
  bench_require(!ibv_destroy_cq(side->end.cq), "ibv_destroy_cq");
  bench_require(!ibv_destroy_comp_channel(side->channel), "ibv_destroy_comp_channel");
  bench_require(!ibv_dealloc_pd(side->end.pd), "ibv_dealloc_pd");
  bench_require(!ibv_close_device(side->end.context), "ibv_close_device");
  munmap(private_memory, kBytes);
  munmap(shared_memory, kBytes);
}

static void await_success(const struct side* side) {
  struct ibv_wc wc;
  int count;
  while ((count = ibv_poll_cq(side->end.cq, 1, &wc)) == 0) continue;
  bench_require(count == 1, "ibv_poll_cq");
  bench_require(wc.status == IBV_WC_SUCCESS, ibv_wc_status_str(wc.status));
}

/* Both windows stay bound until they are unmade. */
static void bind_windows(struct side* side) {
  const struct ibv_mw_bind_info info = {side->mapped, (uintptr_t)side->mapped->addr, kBytes / 2,
                                        IBV_ACCESS_REMOTE_WRITE};
  struct ibv_mw_bind bind = {.send_flags = IBV_SEND_SIGNALED, .bind_info = info};
  bench_require(!ibv_bind_mw(side->qp, side->windows[0], &bind), "ibv_bind_mw");
  await_success(side);
  struct ibv_send_wr wr = {
      .opcode = IBV_WR_BIND_MW,
      .send_flags = IBV_SEND_SIGNALED,
      .bind_mw = {side->windows[1], ibv_inc_rkey(side->windows[1]->rkey), info}};
  struct ibv_send_wr* bad = NULL;
  bench_require(!ibv_post_send(side->qp, &wr, &bad), "ibv_post_send of a binding");
  await_success(side);
}

static void write_into(struct side* from, struct ibv_mr* source, struct ibv_mr* target) {
  struct ibv_sge sge = {(uintptr_t)source->addr, 64, source->lkey};
  struct ibv_send_wr wr = {
      .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
  wr.wr.rdma.remote_addr = (uintptr_t)target->addr;
  wr.wr.rdma.rkey = target->rkey;
  struct ibv_send_wr* bad = NULL;
  bench_require(!ibv_post_send(from->qp, &wr, &bad), "ibv_post_send");
  await_success(from);
}

static void cycle(uint32_t gid_a, uint32_t gid_b) {
  struct side a = {0};
  struct side b = {0};
  uint8_t stack_a[64] = {1};
  uint8_t stack_b[64] = {2};
  make(&a, "uroce0", gid_a, stack_a);
  make(&b, "uroce1", gid_b, stack_b);
  bench_connect(&a.end, a.qp, &b.end, b.qp);
  bind_windows(&b);
  write_into(&a, a.mapped, b.mapped);
  write_into(&a, a.copied, b.shared);
  write_into(&a, a.shared, b.copied);
  unmake(&a);
  unmake(&b);
}

int main(int argc, char** argv) {
  uint32_t gids[2] = {1, 1};
  for (int option; (option = getopt(argc, argv, "x:y:")) != -1;) {
    if (option == '?') return 2;
    gids[option - 'x'] = (uint32_t)strtoul(optarg, NULL, 0);
  }
  if (optind + 1 != argc) return 2;
  const unsigned long cycles = strtoul(argv[optind], NULL, 0);
  for (unsigned long i = 0; i < cycles; ++i) cycle(gids[0], gids[1]);
  printf("%lu cycles\n", cycles);
  return 0;
}
