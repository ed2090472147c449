/* SPDX-License-Identifier: Apache-2.0
 * Objects of every kind while the program has no memory, or no room for an fd: each refusal is
 * clear, and takes nothing. More are refused than the daemon has of most, so that what a refusal
 * left behind would be missed. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/e2e/programs/rare_calls/rare_calls.h"

enum { kRefusals = 40, kBytes = 16 << 10, kNoLimit = -1 };

/* Allocations that succeed from now on. These stand in front of libc's for every library. */
static long allocations_left = kNoLimit;

extern void* __libc_calloc(size_t count, size_t bytes);
extern void* __libc_memalign(size_t alignment, size_t bytes);

static int is_spent(void) {
  if (allocations_left == kNoLimit) return 0;
  if (allocations_left == 0) return 1;
  --allocations_left;
  return 0;
}

void* calloc(size_t count, size_t bytes) {
  if (!is_spent()) return __libc_calloc(count, bytes);
  errno = ENOMEM;
  return NULL;
}

int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  *memory = is_spent() ? NULL : __libc_memalign(alignment, bytes);
  return *memory ? 0 : ENOMEM;
}

static void* make_context(struct bench_end* end) { return ibv_open_device(end->context->device); }
static int end_context(void* object) { return ibv_close_device(object); }
static void* make_pd(struct bench_end* end) { return ibv_alloc_pd(end->context); }
static int end_pd(void* object) { return ibv_dealloc_pd(object); }
static void* make_channel(struct bench_end* end) { return ibv_create_comp_channel(end->context); }
static int end_channel(void* object) { return ibv_destroy_comp_channel(object); }
static void* make_cq(struct bench_end* end) {
  return ibv_create_cq(end->context, 4, NULL, NULL, 0);
}
static int end_cq(void* object) { return ibv_destroy_cq(object); }
static int end_qp(void* object) { return ibv_destroy_qp(object); }
static int end_srq(void* object) { return ibv_destroy_srq(object); }
static int end_ah(void* object) { return ibv_destroy_ah(object); }
static int end_mr(void* object) { return ibv_dereg_mr(object); }
static void* make_null(struct bench_end* end) { return ibv_alloc_null_mr(end->pd); }
static void* make_mw(struct bench_end* end) { return ibv_alloc_mw(end->pd, IBV_MW_TYPE_2); }
static int end_mw(void* object) { return ibv_dealloc_mw(object); }
static int end_dm(void* object) { return ibv_free_dm(object); }
static int end_td(void* object) { return ibv_dealloc_td(object); }
static int end_xrcd(void* object) { return ibv_close_xrcd(object); }

static void* make_qp(struct bench_end* end) {
  struct ibv_qp_init_attr init = {
      .send_cq = end->cq, .recv_cq = end->cq, .qp_type = IBV_QPT_UD, .cap = {4, 4, 1, 1, 0}};
  return ibv_create_qp(end->pd, &init);
}
static void* make_srq(struct bench_end* end) {
  struct ibv_srq_init_attr init = {.attr = {4, 1, 0}};
  return ibv_create_srq(end->pd, &init);
}
static void* make_ah(struct bench_end* end) {
  struct ibv_ah_attr path = {
      .is_global = 1,
      .port_num = 1,
      .grh = {.dgid = end->gid, .sgid_index = (uint8_t)end->gid_index, .hop_limit = 1}};
  return ibv_create_ah(end->pd, &path);
}
static void* make_mr(struct bench_end* end) {
  static uint8_t bytes[kBytes];
  return ibv_reg_mr(end->pd, bytes, kBytes, IBV_ACCESS_LOCAL_WRITE);
}
static void* make_dm(struct bench_end* end) {
  struct ibv_alloc_dm_attr attributes = {.length = kBytes};
  return ibv_alloc_dm(end->context, &attributes);
}
static void* make_td(struct bench_end* end) {
  struct ibv_td_init_attr none = {0};
  return ibv_alloc_td(end->context, &none);
}
static void* make_xrcd(struct bench_end* end) {
  struct ibv_xrcd_init_attr own = {
      .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT};
  return ibv_open_xrcd(end->context, &own);
}

struct kind {
  const char* name;
  void* (*make)(struct bench_end* end);
  int (*end)(void* object);
};
static const struct kind kKinds[] = {{"context", make_context, end_context},
                                     {"pd", make_pd, end_pd},
                                     {"channel", make_channel, end_channel},
                                     {"cq", make_cq, end_cq},
                                     {"qp", make_qp, end_qp},
                                     {"srq", make_srq, end_srq},
                                     {"ah", make_ah, end_ah},
                                     {"mr", make_mr, end_mr},
                                     {"null mr", make_null, end_mr},
                                     {"mw", make_mw, end_mw},
                                     {"dm", make_dm, end_dm},
                                     {"td", make_td, end_td},
                                     {"xrcd", make_xrcd, end_xrcd}};
static const struct kind kWithFds[] = {{"context", make_context, end_context},
                                       {"channel", make_channel, end_channel}};

/* Fails the first allocation, then the second, ...: until nothing is left to fail. */
static void fail_each_allocation(const struct kind* kind, struct bench_end* end) {
  for (long at = 0;; ++at) {
    allocations_left = at;
    void* object = kind->make(end);
    const int error = errno;
    allocations_left = kNoLimit;
    if (object) {
      bench_require(at > 0, "an allocation to fail");
      ca_returns(kind->end(object), 0, kind->name);
      return;
    }
    errno = error;
    ca_refused(NULL, ENOMEM, kind->name);
  }
}

void ca_no_memory(struct ca_bed* bed) {
  for (size_t i = 0; i < sizeof(kKinds) / sizeof(kKinds[0]); ++i) {
    for (int time = 0; time < kRefusals; ++time) fail_each_allocation(&kKinds[i], &bed->a);
  }
}

/* Leaves room for `count` more fds. */
static void limit_fds(int count) {
  const int next = dup(STDIN_FILENO);
  close(next);
  struct rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = (rlim_t)(next + count);
  bench_require(!setrlimit(RLIMIT_NOFILE, &limit), "setrlimit");
}

void ca_no_fds(struct ca_bed* bed) {
  struct rlimit before;
  getrlimit(RLIMIT_NOFILE, &before);
  for (size_t i = 0; i < sizeof(kWithFds) / sizeof(kWithFds[0]); ++i) {
    for (int time = 0; time < kRefusals; ++time) {
      limit_fds(i == 0 ? time % 2 : 0); /* A context has two. */
      ca_refused(kWithFds[i].make(&bed->a), EMFILE, kWithFds[i].name);
      setrlimit(RLIMIT_NOFILE, &before);
    }
    void* object = kWithFds[i].make(&bed->a);
    bench_require(object != NULL, kWithFds[i].name);
    ca_returns(kWithFds[i].end(object), 0, kWithFds[i].name);
  }
}
