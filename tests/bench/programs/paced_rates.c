/* SPDX-License-Identifier: Apache-2.0
 * How exactly rates are kept: queue pairs with a limit each, together at a rate; what arrives of
 * payload and headers against it. With a rate in Mb/s the queue pairs have no limit: the daemon
 * keeps that rate, of the NIC (--wire rate=) or of the user (--max-rate-per-user). Then queue pairs
 * take turns with long and short messages. usage: paced_rates GID_INDEX_A GID_INDEX_B [MBPS] */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "verbs_pair.h"

enum {
  kMost = 1000,
  kMtu = 4096,
  kDepth = 4,
  /* Of a WRITE's packets: Ethernet, IPv4, UDP, BTH, ICRC, and preamble, FCS and gap. The first of a
   * message has a RETH besides. */
  kHeaders = 14 + 20 + 8 + 12 + 4 + 24,
  kReth = 16,
};

static struct bench_end a, b;
static uint8_t from_bytes[1 << 20], to_bytes[1 << 20];
static struct ibv_mr *from, *to;
static uint64_t wire_bytes;
static uint32_t sizes[kMost]; /* Of each queue pair's messages. */

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void post(struct ibv_qp* qp, uint64_t id, uint32_t bytes) {
  struct ibv_sge sge = {(uintptr_t)from->addr, bytes, from->lkey};
  struct ibv_send_wr wr = {.wr_id = id,
                           .sg_list = &sge,
                           .num_sge = 1,
                           .opcode = IBV_WR_RDMA_WRITE,
                           .send_flags = IBV_SEND_SIGNALED,
                           .wr.rdma = {(uintptr_t)to->addr, to->rkey}};
  struct ibv_send_wr* bad;
  bench_require(!ibv_post_send(qp, &wr, &bad), "ibv_post_send");
}

/* Until `end`. */
static void run(struct ibv_qp** qps, double end) {
  struct ibv_wc wc[16];
  while (now() < end) {
    const int count = ibv_poll_cq(a.cq, 16, wc);
    for (int i = 0; i < count; ++i) {
      bench_require(wc[i].status == IBV_WC_SUCCESS, "a WRITE");
      const uint32_t bytes = sizes[wc[i].wr_id];
      wire_bytes += bytes + (bytes + kMtu - 1) / kMtu * kHeaders + kReth;
      post(qps[wc[i].wr_id], wc[i].wr_id, bytes);
    }
  }
}

/* Of the daemon's limit: messages of one packet and of many. */
static uint32_t mixed_bytes(int index) { return index % 2 == 0 ? 65536 : 1024; }

static void measure(int count, double bps, int is_daemons) {
  static struct ibv_qp *qps[kMost], *peers[kMost];
  const double each = bps / count;
  /* Some hundred messages of each queue pair in the time that is measured, where it sends so much.
   */
  const uint32_t bytes = each > 1e9 ? 65536 : each > 1e8 ? 16384 : 4096;
  const double seconds = each < 1e7 ? 4 : 2;
  for (int i = 0; i < count; ++i) {
    qps[i] = bench_make_qp(&a, kDepth, 0);
    peers[i] = bench_make_qp(&b, kDepth, 0);
    bench_connect(&a, qps[i], &b, peers[i]);
    struct ibv_qp_rate_limit_attr limit = {.rate_limit = (uint32_t)(each / 1e3)};
    if (!is_daemons) {
      bench_require(!ibv_modify_qp_rate_limit(qps[i], &limit), "ibv_modify_qp_rate_limit");
    }
    sizes[i] = is_daemons ? mixed_bytes(i) : bytes;
    for (int j = 0; j < kDepth; ++j) post(qps[i], (uint64_t)i, sizes[i]);
  }
  run(qps, now() + 0.5);
  wire_bytes = 0;
  const double begin = now();
  run(qps, begin + seconds);
  const double reached = (double)wire_bytes * 8 / (now() - begin);
  printf("%6d %12.3f %12.3f %+8.2f\n", count, bps / 1e6, reached / 1e6, (reached / bps - 1) * 100);
  fflush(stdout);
  for (int i = 0; i < count; ++i) {
    bench_require(!ibv_destroy_qp(qps[i]) && !ibv_destroy_qp(peers[i]), "ibv_destroy_qp");
  }
  struct ibv_wc wc[16];
  while (ibv_poll_cq(a.cq, 16, wc) > 0) continue;
}

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4) {
    fprintf(stderr, "usage: paced_rates GID_INDEX_A GID_INDEX_B [MBPS]\n");
    return 2;
  }
  bench_open(&a, "uroce0", (uint32_t)atoi(argv[1]), kMost * kDepth);
  bench_open(&b, "uroce1", (uint32_t)atoi(argv[2]), 16);
  from = ibv_reg_mr(a.pd, from_bytes, sizeof(from_bytes), IBV_ACCESS_LOCAL_WRITE);
  to = ibv_reg_mr(b.pd, to_bytes, sizeof(to_bytes),
                  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  bench_require(from && to, "ibv_reg_mr");
  printf("    qps  Mb/s wanted   Mb/s sent  percent\n");
  static const int kCounts[] = {1, 10, 100, 1000};
  if (argc == 4) {
    for (size_t c = 0; c < 3; ++c) measure(kCounts[c], atof(argv[3]) * 1e6, 1);
    return 0;
  }
  static const double kRates[] = {10e6, 100e6, 1e9, 5e9, 10e9, 20e9};
  for (size_t c = 0; c < sizeof(kCounts) / sizeof(kCounts[0]); ++c) {
    for (size_t r = 0; r < sizeof(kRates) / sizeof(kRates[0]); ++r) {
      if (kRates[r] / kCounts[c] >= 1e6) measure(kCounts[c], kRates[r], 0);
    }
  }
  return 0;
}
