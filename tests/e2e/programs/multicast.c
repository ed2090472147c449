/* SPDX-License-Identifier: Apache-2.0
 * Datagrams to a multicast group: one program sends numbered ones, others have queue pairs in the
 * group, and check that each of them gets each datagram once, in order and byte by byte.
 *
 * usage: multicast [-d DEVICE] [-x GID_INDEX] [-g GROUP] [-q QUEUE_PAIRS] [-n MESSAGES]
 *                  send|receive
 *
 * A receiver says "attached" when it may be sent to. A sender has queue pairs in the group too, but
 * for -q 0; its first one sends, and is not to hear itself. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/bench/programs/verbs_pair.h"

enum { kArea = 40, kBytes = 1000, kSlot = kArea + kBytes, kMaxMessages = 256, kMaxPairs = 16 };
static const uint32_t kQkey = 0x01234567; /* As rdma_cm has it for groups. */
static const uint32_t kEveryMember = 0xffffff;

static struct bench_end end;
static union ibv_gid group;
static struct ibv_qp* qps[kMaxPairs];
static struct ibv_mr* mr;
static uint32_t pairs = 1;
static uint32_t messages = 100;

static uint8_t byte_of(uint32_t message, uint32_t at) { return (uint8_t)(message * 7 + at * 3); }

static uint8_t* slot_of(uint32_t pair, uint32_t message) {
  return (uint8_t*)mr->addr + ((size_t)pair * kMaxMessages + message) * kSlot;
}

static void make_memory(void) {
  const size_t length = (size_t)kMaxPairs * kMaxMessages * kSlot;
  void* memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  bench_require(memory != MAP_FAILED, "mmap");
  mr = ibv_reg_mr(end.pd, memory, length, IBV_ACCESS_LOCAL_WRITE);
  bench_require(mr != NULL, "ibv_reg_mr");
}

static struct ibv_qp* make_qp(void) {
  struct ibv_qp_init_attr attributes = {.send_cq = end.cq,
                                        .recv_cq = end.cq,
                                        .qp_type = IBV_QPT_UD,
                                        .cap = {.max_send_wr = kMaxMessages,
                                                .max_recv_wr = kMaxMessages,
                                                .max_send_sge = 1,
                                                .max_recv_sge = 1}};
  struct ibv_qp* qp = ibv_create_qp(end.pd, &attributes);
  bench_require(qp != NULL, "ibv_create_qp");
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = kQkey};
  bench_require(
      !ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
      "to INIT");
  attr.qp_state = IBV_QPS_RTR;
  bench_require(!ibv_modify_qp(qp, &attr, IBV_QP_STATE), "to RTR");
  attr.qp_state = IBV_QPS_RTS;
  bench_require(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), "to RTS");
  return qp;
}

static void post_receives(uint32_t pair) {
  for (uint32_t message = 0; message < messages; ++message) {
    struct ibv_sge sge = {(uintptr_t)slot_of(pair, message), kSlot, mr->lkey};
    struct ibv_recv_wr wr = {
        .wr_id = (uint64_t)pair << 32 | message, .sg_list = &sge, .num_sge = 1};
    struct ibv_recv_wr* bad = NULL;
    bench_require(!ibv_post_recv(qps[pair], &wr, &bad), "ibv_post_recv");
  }
}

static void check_refusals(void) {
  struct ibv_qp* connected = bench_make_qp(&end, 1, 0);
  bench_require(ibv_attach_mcast(connected, &group, 0) == EINVAL, "EINVAL of a connection");
  bench_require(!ibv_destroy_qp(connected), "ibv_destroy_qp of a connection");
  bench_require(ibv_attach_mcast(qps[0], &end.gid, 0) == EINVAL, "EINVAL of no group");
}

static void attach_all(void) {
  for (uint32_t i = 0; i < pairs; ++i) {
    bench_require(!ibv_attach_mcast(qps[i], &group, 0), "ibv_attach_mcast");
    bench_require(!ibv_attach_mcast(qps[i], &group, 0), "ibv_attach_mcast again");
    bench_require(ibv_destroy_qp(qps[i]) == EBUSY, "EBUSY of a queue pair in a group");
    post_receives(i);
  }
}

static void detach_all(void) {
  for (uint32_t i = 0; i < pairs; ++i) {
    bench_require(!ibv_detach_mcast(qps[i], &group, 0), "ibv_detach_mcast");
    bench_require(ibv_detach_mcast(qps[i], &group, 0) == EINVAL, "EINVAL of one detached");
    bench_require(!ibv_destroy_qp(qps[i]), "ibv_destroy_qp");
  }
}

/* The group is the destination in the IP header in front of the data. */
static void check_area(const uint8_t* area) {
  const int is_ipv4 = IN6_IS_ADDR_V4MAPPED((const struct in6_addr*)group.raw);
  const uint8_t* destination = area + (is_ipv4 ? 36 : 24);
  bench_require(!memcmp(destination, group.raw + (is_ipv4 ? 12 : 0), is_ipv4 ? 4 : 16),
                "the group in the header");
}

static void check(const struct ibv_wc* wc, uint32_t* next) {
  const uint32_t pair = (uint32_t)(wc->wr_id >> 32);
  const uint32_t message = (uint32_t)wc->wr_id;
  bench_require(wc->status == IBV_WC_SUCCESS, ibv_wc_status_str(wc->status));
  bench_require(wc->byte_len == kSlot && wc->wc_flags == IBV_WC_GRH, "a datagram's completion");
  bench_require(message == next[pair]++, "each datagram once and in order");
  const uint8_t* slot = slot_of(pair, message);
  check_area(slot);
  for (uint32_t i = 0; i < kBytes; ++i) {
    bench_require(slot[kArea + i] == byte_of(message, i), "the bytes");
  }
}

/* Queue pairs from `first` on have to get all. */
static void await_all(uint32_t first) {
  uint32_t next[kMaxPairs] = {0};
  for (uint64_t left = (uint64_t)(pairs - first) * messages; left != 0;) {
    struct ibv_wc wc;
    const int count = ibv_poll_cq(end.cq, 1, &wc);
    bench_require(count >= 0, "ibv_poll_cq");
    if (count == 0 || (wc.opcode & IBV_WC_RECV) == 0) continue;
    bench_require(wc.wr_id >> 32 >= first, "the sender does not hear itself");
    check(&wc, next);
    --left;
  }
}

static void send_all(void) {
  struct ibv_ah_attr attributes = {
      .is_global = 1,
      .port_num = 1,
      .grh = {.dgid = group, .sgid_index = (uint8_t)end.gid_index, .hop_limit = 1}};
  struct ibv_ah* ah = ibv_create_ah(end.pd, &attributes);
  bench_require(ah != NULL, "ibv_create_ah");
  uint8_t* bytes = slot_of(kMaxPairs - 1, 0);
  for (uint32_t message = 0; message < messages; ++message) {
    for (uint32_t i = 0; i < kBytes; ++i) bytes[message * kSlot + i] = byte_of(message, i);
    struct ibv_sge sge = {(uintptr_t)(bytes + message * kSlot), kBytes, mr->lkey};
    struct ibv_send_wr wr = {
        .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .wr.ud = {ah, kEveryMember, kQkey}};
    struct ibv_send_wr* bad = NULL;
    bench_require(!ibv_post_send(qps[0], &wr, &bad), "ibv_post_send");
  }
}

int main(int argc, char** argv) {
  const char* device = "uroce0";
  uint32_t gid_index = 1;
  const char* text = "::ffff:239.1.2.3";
  for (int option; (option = getopt(argc, argv, "d:x:g:q:n:")) != -1;) {
    if (option == '?') return 2;
    if (option == 'd') device = optarg;
    if (option == 'g') text = optarg;
    const uint32_t value = (uint32_t)strtoul(optarg, NULL, 0);
    if (option == 'x') gid_index = value;
    if (option == 'q') pairs = value;
    if (option == 'n') messages = value;
  }
  if (optind + 1 != argc || pairs >= kMaxPairs || messages > kMaxMessages) return 2;
  if (inet_pton(AF_INET6, text, group.raw) != 1) return 2;
  const int sends = !strcmp(argv[optind], "send");
  bench_open(&end, device, gid_index, kMaxPairs * kMaxMessages);
  make_memory();
  for (uint32_t i = 0; i < pairs || i == 0; ++i) qps[i] = make_qp();
  check_refusals();
  attach_all();
  printf("attached\n");
  fflush(stdout);
  if (sends) send_all();
  await_all(sends && pairs != 0 ? 1 : 0);
  printf("%u queue pairs got %u datagrams each\n", pairs, messages);
  detach_all();
  return 0;
}
