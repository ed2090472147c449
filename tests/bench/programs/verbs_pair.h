/* SPDX-License-Identifier: Apache-2.0
 * Connected queue pairs with both ends in one program, for measuring through the public verbs. */
#ifndef BENCH_VERBS_PAIR_H_
#define BENCH_VERBS_PAIR_H_

#include <infiniband/verbs.h>
#include <stdint.h>

struct bench_end {
  struct ibv_context* context;
  struct ibv_pd* pd;
  struct ibv_cq* cq;
  uint32_t gid_index;
  union ibv_gid gid;
};

/* Ends the program unless `condition` holds. */
void bench_require(int condition, const char* what);
/* Opens a device and makes a completion queue of `cqe` entries. */
void bench_open(struct bench_end* end, const char* device, uint32_t gid_index, int cqe);
struct ibv_qp* bench_make_qp(const struct bench_end* end, uint32_t depth, uint32_t max_inline);
void bench_connect(const struct bench_end* a, struct ibv_qp* qp_a, const struct bench_end* b,
                   struct ibv_qp* qp_b);

#endif /* BENCH_VERBS_PAIR_H_ */
