/* SPDX-License-Identifier: Apache-2.0
 * An XRC domain of three programs: the first one creates the target queue pair, another opens it
 * too, each has a shared receive queue there, and a third sends to both. Then the first one dies.
 * */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/programs/verbs_pair.h"

enum { kMessages = 100, kBytes = 3000, kDepth = 16 };

static uint32_t gids[2] = {1, 1};
static int file = -1; /* By which they know the domain; without a name. */

/* What a member of the domain and the sender tell each other. */
struct word {
  uint32_t qpn;
  uint32_t srqn;
  union ibv_gid gid;
};

static void say(int socket, const struct word* word) {
  bench_require(write(socket, word, sizeof(*word)) == sizeof(*word), "to write to the other");
}

static struct word hear(int socket) {
  struct word word;
  bench_require(read(socket, &word, sizeof(word)) == sizeof(word), "to hear of the other");
  return word;
}

/* ---- a member of the domain ---- */

struct member {
  struct bench_end end;
  struct ibv_xrcd* xrcd;
  struct ibv_srq* srq;
  struct ibv_qp* target;
  struct ibv_mr* mr;
  uint8_t bytes[kDepth * kBytes];
};

static struct ibv_xrcd* open_domain(struct ibv_context* context, int oflags) {
  struct ibv_xrcd_init_attr attributes = {
      .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = file, .oflags = oflags};
  return ibv_open_xrcd(context, &attributes);
}

static void post(struct member* member, uint64_t wr_id) {
  struct ibv_sge sge = {(uintptr_t)member->bytes + wr_id * kBytes, kBytes, member->mr->lkey};
  struct ibv_recv_wr request = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1};
  struct ibv_recv_wr* bad = NULL;
  bench_require(!ibv_post_srq_recv(member->srq, &request, &bad), "ibv_post_srq_recv");
}

static void make_queue(struct member* member) {
  struct ibv_srq_init_attr_ex attributes = {
      .attr = {.max_wr = kDepth, .max_sge = 1},
      .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
                   IBV_SRQ_INIT_ATTR_CQ,
      .srq_type = IBV_SRQT_XRC,
      .pd = member->end.pd,
      .xrcd = member->xrcd,
      .cq = member->end.cq};
  member->srq = ibv_create_srq_ex(member->end.context, &attributes);
  bench_require(member->srq != NULL, "ibv_create_srq_ex");
  member->mr =
      ibv_reg_mr(member->end.pd, member->bytes, sizeof(member->bytes), IBV_ACCESS_LOCAL_WRITE);
  bench_require(member->mr != NULL, "ibv_reg_mr");
  for (uint64_t i = 0; i < kDepth; ++i) post(member, i);
}

static void say_queue(const struct member* member, int socket) {
  struct word word = {.qpn = member->target->qp_num, .gid = member->end.gid};
  bench_require(!ibv_get_srq_num(member->srq, &word.srqn), "ibv_get_srq_num");
  say(socket, &word);
}

static void modify(struct ibv_qp* qp, struct ibv_qp_attr* attributes, int mask) {
  bench_require(!ibv_modify_qp(qp, attributes, IBV_QP_STATE | mask), "ibv_modify_qp");
}

static void to_init(struct ibv_qp* qp) {
  struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1};
  modify(qp, &init, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

/* What both halves need; of what is the other's nothing is heard. */
static void connect_to(struct ibv_qp* qp, uint32_t gid_index, const struct word* peer) {
  struct ibv_qp_attr rtr = {
      .qp_state = IBV_QPS_RTR,
      .path_mtu = IBV_MTU_1024,
      .dest_qp_num = peer->qpn,
      .max_dest_rd_atomic = 1,
      .min_rnr_timer = 1,
      .ah_attr = {.is_global = 1,
                  .port_num = 1,
                  .grh = {.dgid = peer->gid, .sgid_index = (uint8_t)gid_index, .hop_limit = 64}}};
  modify(qp, &rtr,
         IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
             IBV_QP_MIN_RNR_TIMER);
  struct ibv_qp_attr rts = {
      .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
  modify(qp, &rts,
         IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
             IBV_QP_MAX_QP_RD_ATOMIC);
}

static struct ibv_wc take(struct ibv_cq* cq) {
  struct ibv_wc wc;
  int count;
  while ((count = ibv_poll_cq(cq, 1, &wc)) == 0) continue;
  bench_require(count == 1, "ibv_poll_cq");
  return wc;
}

static void receive(struct member* member, uint32_t count) {
  uint32_t qpn = member->target->qp_num;
  for (uint32_t i = 0; i < count; ++i) {
    const struct ibv_wc wc = take(member->end.cq);
    bench_require(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV, "a receive");
    bench_require(wc.byte_len == kBytes && wc.qp_num == qpn, "of the target");
    const uint8_t* bytes = member->bytes + wc.wr_id * kBytes;
    for (uint32_t at = 0; at < kBytes; ++at) {
      bench_require(bytes[at] == (uint8_t)(i + at), "the bytes of the message");
    }
    post(member, wc.wr_id);
  }
}

static void await_event(struct member* member, enum ibv_event_type type) {
  struct ibv_async_event event;
  do {
    bench_require(!ibv_get_async_event(member->end.context, &event), "ibv_get_async_event");
    if (event.event_type <= IBV_EVENT_PATH_MIG_ERR) {
      bench_require(event.element.qp == member->target, "whose event it is");
    }
    ibv_ack_async_event(&event);
  } while (event.event_type != type);
}

static void open_member(struct member* member, int oflags) {
  memset(member, 0, sizeof(*member));
  bench_open(&member->end, "uroce0", gids[0], 4 * kDepth);
  member->xrcd = open_domain(member->end.context, oflags);
  bench_require(member->xrcd != NULL, "ibv_open_xrcd");
}

/* Makes the domain and the target, receives, and waits to be killed. */
static void run_maker(int socket) {
  static struct member member;
  bench_open(&member.end, "uroce0", gids[0], 4 * kDepth);
  bench_require(!open_domain(member.end.context, 0) && errno == EAGAIN, "no domain yet");
  member.xrcd = open_domain(member.end.context, O_CREAT | O_EXCL);
  bench_require(member.xrcd != NULL, "ibv_open_xrcd");
  bench_require(!open_domain(member.end.context, O_CREAT | O_EXCL) && errno == EINVAL, "a second");
  struct ibv_qp_init_attr_ex attributes = {
      .qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = member.xrcd};
  member.target = ibv_create_qp_ex(member.end.context, &attributes);
  bench_require(member.target != NULL, "ibv_create_qp_ex");
  make_queue(&member);
  to_init(member.target);
  say_queue(&member, socket);
  const struct word peer = hear(socket);
  connect_to(member.target, gids[0], &peer);
  say_queue(&member, socket);
  receive(&member, kMessages);
  say_queue(&member, socket);
  for (;;) pause();
}

/* Opens the target, receives before and after its maker's end, and sees it fail. */
static void run_opener(int socket) {
  static struct member member;
  const struct word maker = hear(socket);
  open_member(&member, 0);
  struct ibv_qp_open_attr attributes = {
      .comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
      .qp_num = maker.qpn + 1,
      .xrcd = member.xrcd,
      .qp_type = IBV_QPT_XRC_RECV};
  bench_require(!ibv_open_qp(member.end.context, &attributes) && errno == EINVAL, "no such target");
  attributes.qp_num = maker.qpn;
  member.target = ibv_open_qp(member.end.context, &attributes);
  bench_require(member.target != NULL, "ibv_open_qp");
  struct ibv_qp_attr attr;
  struct ibv_qp_init_attr init;
  bench_require(!ibv_query_qp(member.target, &attr, IBV_QP_STATE, &init), "ibv_query_qp");
  bench_require(attr.qp_state == IBV_QPS_RTS && attr.path_mtu == IBV_MTU_1024, "its attributes");
  make_queue(&member);
  say_queue(&member, socket);
  for (int i = 0; i < 2; ++i) {
    receive(&member, kMessages);
    say_queue(&member, socket);
  }
  await_event(&member, IBV_EVENT_QP_REQ_ERR);
  bench_require(ibv_close_xrcd(member.xrcd) == EBUSY, "busy while something belongs to it");
  bench_require(ibv_destroy_cq(member.end.cq) == EBUSY, "busy while a queue completes on it");
  bench_require(!ibv_destroy_qp(member.target), "ibv_destroy_qp");
  bench_require(!ibv_open_qp(member.end.context, &attributes) && errno == EINVAL, "it is gone");
  bench_require(!ibv_destroy_srq(member.srq), "ibv_destroy_srq");
  bench_require(!ibv_destroy_cq(member.end.cq), "ibv_destroy_cq");
  bench_require(!ibv_close_xrcd(member.xrcd), "ibv_close_xrcd");
  bench_require(!open_domain(member.end.context, 0) && errno == EAGAIN, "the domain is gone");
}

/* ---- the sender ---- */

struct sender {
  struct bench_end end;
  struct ibv_qp* qp;
  struct ibv_mr* mr;
  uint8_t bytes[kBytes];
};

static enum ibv_wc_status send_bytes(struct sender* sender, uint32_t length, uint32_t srqn) {
  struct ibv_sge sge = {(uintptr_t)sender->bytes, length, sender->mr->lkey};
  struct ibv_send_wr request = {.sg_list = &sge,
                                .num_sge = length ? 1 : 0,
                                .opcode = IBV_WR_SEND,
                                .send_flags = IBV_SEND_SIGNALED,
                                .qp_type.xrc.remote_srqn = srqn};
  struct ibv_send_wr* bad = NULL;
  bench_require(!ibv_post_send(sender->qp, &request, &bad), "ibv_post_send");
  return take(sender->end.cq).status;
}

static enum ibv_wc_status send_to(struct sender* sender, uint32_t number, uint32_t srqn) {
  for (uint32_t at = 0; at < kBytes; ++at) sender->bytes[at] = (uint8_t)(number + at);
  return send_bytes(sender, kBytes, srqn);
}

static void open_sender(struct sender* sender) {
  bench_open(&sender->end, "uroce1", gids[1], 4 * kDepth);
  struct ibv_qp_init_attr attributes = {.send_cq = sender->end.cq,
                                        .qp_type = IBV_QPT_XRC_SEND,
                                        .cap = {.max_send_wr = 4, .max_send_sge = 1}};
  sender->qp = ibv_create_qp(sender->end.pd, &attributes);
  bench_require(sender->qp != NULL, "ibv_create_qp");
  sender->mr = ibv_reg_mr(sender->end.pd, sender->bytes, kBytes, IBV_ACCESS_LOCAL_WRITE);
  bench_require(sender->mr != NULL, "ibv_reg_mr");
  to_init(sender->qp);
}

static pid_t start(void (*run)(int), int* socket) {
  int ends[2];
  bench_require(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), "socketpair");
  const pid_t child = fork();
  bench_require(child >= 0, "fork");
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(ends[0]);
    run(ends[1]);
    exit(0);
  }
  close(ends[1]);
  *socket = ends[0];
  return child;
}

static void run_sender(pid_t maker, int to_maker, pid_t opener, int to_opener) {
  static struct sender sender;
  open_sender(&sender);
  const struct word first = hear(to_maker);
  const struct word own = {.qpn = sender.qp->qp_num, .gid = sender.end.gid};
  say(to_maker, &own);
  connect_to(sender.qp, gids[1], &first);
  hear(to_maker);
  say(to_opener, &first);
  const struct word second = hear(to_opener);
  for (uint32_t i = 0; i < kMessages; ++i) {
    bench_require(send_to(&sender, i, first.srqn) == IBV_WC_SUCCESS, "a send to the maker");
    bench_require(send_to(&sender, i, second.srqn) == IBV_WC_SUCCESS, "a send to the opener");
  }
  hear(to_maker);
  hear(to_opener);
  int status = 0;
  bench_require(!kill(maker, SIGKILL) && waitpid(maker, &status, 0) == maker, "to kill the maker");
  for (uint32_t i = 0; i < kMessages; ++i) {
    bench_require(send_to(&sender, i, second.srqn) == IBV_WC_SUCCESS,
                  "a send after the maker's end");
  }
  hear(to_opener);
  enum ibv_wc_status last;
  /* The daemon learns of an end a little later: until then there is a receive. Its memory has ended
   * before, so there is nothing to be placed in it. */
  while ((last = send_bytes(&sender, 0, first.srqn)) == IBV_WC_SUCCESS) continue;
  if (last != IBV_WC_REM_INV_REQ_ERR) fprintf(stderr, "%s: ", ibv_wc_status_str(last));
  bench_require(last == IBV_WC_REM_INV_REQ_ERR, "a send to who is gone");
  bench_require(waitpid(opener, &status, 0) == opener && status == 0, "the opener");
}

int main(int argc, char** argv) {
  for (int option; (option = getopt(argc, argv, "x:y:")) != -1;) {
    if (option == '?') return 2;
    gids[option - 'x'] = (uint32_t)strtoul(optarg, NULL, 0);
  }
  file = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  bench_require(file >= 0, "a file for the domain");
  int to_maker, to_opener;
  const pid_t maker = start(run_maker, &to_maker);
  const pid_t opener = start(run_opener, &to_opener);
  run_sender(maker, to_maker, opener, to_opener);
  printf("the target outlived its maker\n");
  return 0;
}
