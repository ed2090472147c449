/* SPDX-License-Identifier: Apache-2.0
 * Messages whose payload the daemon does not map (UROCE_MR=copied): the library copies it when the
 * program posts, and the results are those of any other message.
 *
 * usage: posted_copies CASE GID_INDEX_OF_UROCE0 GID_INDEX_OF_UROCE1 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/bench/programs/verbs_pair.h"

enum { kDepth = 16, kBytes = 1 << 20, kPage = 4096, kAll = 7, kMessage = 5000 };

static struct bench_end from, to;
static uint8_t *source, *target;
static struct ibv_mr *source_mr, *target_mr;

static uint8_t* pages(void) {
  uint8_t* bytes = mmap(NULL, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  bench_require(bytes != MAP_FAILED, "mmap");
  return bytes;
}

static void fill(uint8_t* bytes, size_t count, unsigned seed) {
  for (size_t i = 0; i < count; ++i) bytes[i] = (uint8_t)(i * 7 + i / 251 + seed);
}

static struct ibv_mr* registered(const struct bench_end* end, void* bytes) {
  struct ibv_mr* mr = ibv_reg_mr(end->pd, bytes, kBytes, kAll);
  bench_require(mr != NULL, "ibv_reg_mr");
  return mr;
}

/* Of a queue pair in RESET. */
static void to_init(struct ibv_qp* qp) {
  struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = kAll};
  bench_require(
      !ibv_modify_qp(qp, &init,
                     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
      "to INIT");
}

static void to_reset(struct ibv_qp* qp) {
  struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
  bench_require(!ibv_modify_qp(qp, &reset, IBV_QP_STATE), "to RESET");
}

static struct ibv_qp* make_qp(const struct bench_end* end) {
  struct ibv_qp_init_attr_ex init = {
      .send_cq = end->cq,
      .recv_cq = end->cq,
      .qp_type = IBV_QPT_RC,
      .cap = {kDepth, kDepth, 4, 4, 0},
      .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
      .pd = end->pd,
      .send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE};
  struct ibv_qp* qp = ibv_create_qp_ex(end->context, &init);
  bench_require(qp != NULL, "ibv_create_qp_ex");
  to_init(qp);
  return qp;
}

struct pair {
  struct ibv_qp* a;
  struct ibv_qp* b;
};

static struct pair connected(void) {
  const struct pair made = {make_qp(&from), make_qp(&to)};
  bench_connect(&from, made.a, &to, made.b);
  return made;
}

static struct ibv_sge sge_of(const struct ibv_mr* mr, const uint8_t* at, uint32_t length) {
  const struct ibv_sge sge = {(uintptr_t)at, length, mr->lkey};
  return sge;
}

static void post(struct ibv_qp* qp, enum ibv_wr_opcode opcode, unsigned flags, struct ibv_sge* list,
                 int count, const uint8_t* there) {
  struct ibv_send_wr* bad = NULL;
  struct ibv_send_wr wr = {.sg_list = list,
                           .num_sge = count,
                           .opcode = opcode,
                           .send_flags = flags,
                           .wr.rdma = {(uintptr_t)there, target_mr->rkey}};
  bench_require(!ibv_post_send(qp, &wr, &bad), "ibv_post_send");
}

static enum ibv_wc_status completion(void) {
  struct ibv_wc wc;
  int got;
  while ((got = ibv_poll_cq(from.cq, 1, &wc)) == 0) continue;
  bench_require(got == 1, "ibv_poll_cq");
  return wc.status;
}

static void completes(enum ibv_wc_status expected, const char* what) {
  const enum ibv_wc_status status = completion();
  if (status == expected) return;
  fprintf(stderr, "%s: %s, and not %s\n", what, ibv_wc_status_str(status),
          ibv_wc_status_str(expected));
  exit(1);
}

/* From the second message on there is a place for copies. */
static void begin(struct ibv_qp* qp) {
  for (int i = 0; i < 2; ++i) {
    struct ibv_sge sge = sge_of(source_mr, source, 64);
    post(qp, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, &sge, 1, target);
    completes(IBV_WC_SUCCESS, "the first messages");
  }
}

/* The payload is there only when the READ is complete. */
static void fenced(void) {
  const struct pair pair = connected();
  begin(pair.a);
  for (int round = 0; round < 100; ++round) {
    fill(target, kMessage, (unsigned)round);
    struct ibv_sge sge = sge_of(source_mr, source, kMessage);
    post(pair.a, IBV_WR_RDMA_READ, 0, &sge, 1, target);
    post(pair.a, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED | IBV_SEND_FENCE, &sge, 1,
         target + kBytes / 2);
    completes(IBV_WC_SUCCESS, "a fenced WRITE");
    bench_require(!memcmp(target, target + kBytes / 2, kMessage), "the answer of the READ");
  }
}

/* Memory that is gone is an error, and does not end the program. */
static void gone(void) {
  uint8_t* bytes = pages();
  struct ibv_mr* mr = registered(&from, bytes);
  struct pair pair = connected();
  begin(pair.a);
  struct ibv_sge sge = sge_of(mr, bytes, 2 * kPage);
  post(pair.a, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, &sge, 1, target);
  completes(IBV_WC_SUCCESS, "memory that is there");
  bench_require(!munmap(bytes + kPage, kBytes - kPage), "munmap");
  post(pair.a, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, &sge, 1, target);
  completes(IBV_WC_LOC_PROT_ERR, "memory that is gone");
}

static void wrong_keys(void) {
  struct ibv_pd* other = ibv_alloc_pd(from.context);
  bench_require(other != NULL, "ibv_alloc_pd");
  struct ibv_mr* mr = ibv_reg_mr(other, source, kBytes, kAll);
  bench_require(mr != NULL, "ibv_reg_mr");
  for (int wrong = 0; wrong < 3; ++wrong) {
    struct pair pair = connected();
    begin(pair.a);
    struct ibv_sge sge = sge_of(source_mr, source, 64);
    if (wrong == 0) sge.lkey = mr->lkey;
    if (wrong == 1) sge.addr = (uintptr_t)source + kBytes - 63;
    if (wrong == 2) sge.lkey += 1;
    post(pair.a, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, &sge, 1, target);
    completes(IBV_WC_LOC_PROT_ERR, "a wrong key");
  }
}

/* Parts of several regions, one of which has other addresses in SGEs, and one that changes. */
static void parts(void) {
  uint8_t* bytes = pages();
  fill(bytes, kBytes, 99);
  struct ibv_mr* moved = ibv_reg_mr_iova(from.pd, bytes, kBytes, 0x7000000000, kAll);
  struct ibv_mr* changing = registered(&from, bytes);
  bench_require(moved != NULL, "ibv_reg_mr_iova");
  struct pair pair = connected();
  begin(pair.a);
  for (uint32_t i = 0; i < 200; ++i) {
    const uint32_t lengths[3] = {1 + i * 3, 200 - i, i * 50};
    struct ibv_sge list[3] = {
        sge_of(source_mr, source + i, lengths[0]),
        {moved->addr == bytes ? 0x7000000000 + i * 7 : 0, lengths[1], moved->lkey},
        sge_of(changing, bytes + i, lengths[2])};
    post(pair.a, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, list, 3, target);
    completes(IBV_WC_SUCCESS, "parts");
    const uint8_t* at = target;
    bench_require(!memcmp(at, source + i, lengths[0]), "the first part");
    at += lengths[0];
    bench_require(!memcmp(at, bytes + i * 7, lengths[1]), "the part with another address");
    at += lengths[1];
    bench_require(!memcmp(at, bytes + i, lengths[2]), "the part of a region that changes");
    uint8_t* next = bytes + (i % 2) * kPage;
    bench_require(
        !ibv_rereg_mr(changing, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, next, kBytes / 2, 0),
        "ibv_rereg_mr");
    struct ibv_sge again = sge_of(changing, next, kMessage);
    post(pair.a, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, &again, 1, target);
    completes(IBV_WC_SUCCESS, "a region that has changed");
    bench_require(!memcmp(target, next, kMessage), "the bytes of the changed region");
    bench_require(!ibv_rereg_mr(changing, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, bytes, kBytes, 0),
                  "ibv_rereg_mr");
  }
}

/* Lists that are taken back leave no place behind, and those that come next are right. */
static void taken_back(void) {
  struct pair pair = connected();
  begin(pair.a);
  struct ibv_qp_ex* qp = ibv_qp_to_qp_ex(pair.a);
  for (unsigned round = 0; round < 100; ++round) {
    for (int aborts = 1; aborts >= 0; --aborts) {
      ibv_wr_start(qp);
      for (uint32_t i = 0; i < kDepth; ++i) {
        fill(source + i * kMessage, kMessage, round * 31 + i + (unsigned)aborts);
        qp->wr_id = i;
        qp->wr_flags = i + 1 == kDepth ? IBV_SEND_SIGNALED : 0;
        ibv_wr_rdma_write(qp, target_mr->rkey, (uintptr_t)target + i * kMessage);
        ibv_wr_set_sge(qp, source_mr->lkey, (uintptr_t)source + i * kMessage, kMessage);
      }
      if (aborts) ibv_wr_abort(qp);
    }
    bench_require(!ibv_wr_complete(qp), "ibv_wr_complete");
    completes(IBV_WC_SUCCESS, "a list");
    bench_require(!memcmp(source, target, (size_t)kDepth * kMessage), "the bytes of a list");
  }
}

/* A reset drops what is posted, and a queue pair that ends leaves its domain free. */
static void ends(void) {
  struct pair pair = connected();
  for (int round = 0; round < 20; ++round) {
    begin(pair.a);
    struct ibv_sge sge = sge_of(source_mr, source, kBytes / 16);
    for (int i = 0; i < kDepth; ++i) {
      post(pair.a, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, &sge, 1, target);
    }
    to_reset(pair.a);
    to_reset(pair.b);
    to_init(pair.a);
    to_init(pair.b);
    bench_connect(&from, pair.a, &to, pair.b);
  }
  begin(pair.a);
  bench_require(!ibv_destroy_qp(pair.a) && !ibv_destroy_qp(pair.b), "ibv_destroy_qp");
  bench_require(!ibv_dereg_mr(source_mr), "ibv_dereg_mr");
  bench_require(!ibv_dealloc_pd(from.pd), "ibv_dealloc_pd");
}

static const struct {
  const char* name;
  void (*run)(void);
} kCases[] = {{"fenced", fenced},         {"gone", gone},
              {"wrong-keys", wrong_keys}, {"parts", parts},
              {"taken-back", taken_back}, {"ends", ends}};

int main(int argc, char** argv) {
  for (size_t i = 0; argc == 4 && i < sizeof(kCases) / sizeof(kCases[0]); ++i) {
    if (strcmp(kCases[i].name, argv[1]) != 0) continue;
    bench_open(&from, "uroce0", (uint32_t)atoi(argv[2]), 4 * kDepth);
    bench_open(&to, "uroce1", (uint32_t)atoi(argv[3]), 4 * kDepth);
    source = pages();
    target = pages();
    fill(source, kBytes, 1);
    source_mr = registered(&from, source);
    target_mr = registered(&to, target);
    kCases[i].run();
    printf("%s: right\n", argv[1]);
    return 0;
  }
  fprintf(stderr, "usage: posted_copies CASE GID_INDEX_A GID_INDEX_B\n");
  return 2;
}
