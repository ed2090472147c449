/* SPDX-License-Identifier: Apache-2.0
 *
 * A round, at each end: WRITE into the peer's slot, READ of what the peer has, fetch-and-add of its
 * counter, SEND of the round's number. It is over when all four are complete and the peer's SEND of
 * the same round has come and all that it announces was found right. Slots alternate: the peer
 * writes a slot again only after it knows that the other one was looked at. */
#include "tests/e2e/programs/until_killed/until_killed.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define RECEIVES 4
#define ROUND_REQUESTS 4

enum wr { WR_WRITE = 1, WR_READ, WR_ADD, WR_SEND, WR_HEARTBEAT, WR_RECEIVE };

static volatile sig_atomic_t g_told;

static void on_term(int number) {
  (void)number;
  g_told = 1;
}

/* What has come of the present round. */
struct progress {
  uint64_t number;
  uint32_t sends_done;
  uint32_t messages; /* Of the peer, ahead by one at most. */
  uint32_t length;
  uint32_t peer_length;
};

static uint32_t length_of(const struct en_program* program, uint64_t round, int index) {
  uint64_t state = program->options->side.seed + 2 * round + (uint64_t)index;
  return 1 + (uint32_t)(vc_random(&state) % program->options->side.max_bytes);
}

static uint64_t slot_offset(const struct en_program* program, uint64_t round) {
  return (round % 2) * program->options->side.max_bytes;
}

void en_post_send(struct en_program* program, struct ibv_send_wr* request) {
  struct ibv_send_wr* bad = NULL;
  pthread_mutex_lock(&program->post_mutex);
  if (!program->closing) {
    for (struct ibv_send_wr* one = request; one; one = one->next) ++program->outstanding;
    const int error = ibv_post_send(program->side.qp, request, &bad);
    if (error) vc_die(&program->side, "ibv_post_send: %s", strerror(error));
  }
  pthread_mutex_unlock(&program->post_mutex);
}

static void post_receive(struct en_program* program) {
  struct vc_side* side = &program->side;
  struct ibv_sge sge = {(uintptr_t)side->inbox.bytes, 8, side->inbox.mr->lkey};
  struct ibv_recv_wr request = {.wr_id = WR_RECEIVE, .sg_list = &sge, .num_sge = 1};
  struct ibv_recv_wr* bad = NULL;
  pthread_mutex_lock(&program->post_mutex);
  if (!program->closing) {
    ++program->outstanding;
    const int error = ibv_post_recv(side->qp, &request, &bad);
    if (error) vc_die(side, "ibv_post_recv: %s", strerror(error));
  }
  pthread_mutex_unlock(&program->post_mutex);
}

static void post_round(struct en_program* program, struct progress* round) {
  struct vc_side* side = &program->side;
  const uint64_t slot = slot_offset(program, round->number);
  round->length = length_of(program, round->number, side->index);
  round->peer_length = length_of(program, round->number, 1 - side->index);
  vc_fill(side->source.bytes + slot, round->length, side->options->seed + round->number,
          side->index, VC_WRITABLE);
  struct ibv_sge from = {(uintptr_t)side->source.bytes + slot, round->length,
                         side->source.mr->lkey};
  struct ibv_sge into = {(uintptr_t)side->sink.bytes, round->length, side->sink.mr->lkey};
  struct ibv_sge old = {(uintptr_t)side->sink.bytes + side->sink.length - 8, 8,
                        side->sink.mr->lkey};
  struct ibv_send_wr requests[ROUND_REQUESTS] = {
      {.wr_id = WR_WRITE, .sg_list = &from, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE},
      {.wr_id = WR_READ, .sg_list = &into, .num_sge = 1, .opcode = IBV_WR_RDMA_READ},
      {.wr_id = WR_ADD, .sg_list = &old, .num_sge = 1, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD},
      {.wr_id = WR_SEND, .opcode = IBV_WR_SEND_WITH_IMM},
  };
  for (int i = 0; i < ROUND_REQUESTS; ++i) {
    requests[i].send_flags = IBV_SEND_SIGNALED;
    requests[i].next = i + 1 < ROUND_REQUESTS ? &requests[i + 1] : NULL;
  }
  requests[0].wr.rdma.remote_addr = side->peer.writable_addr + slot;
  requests[0].wr.rdma.rkey = side->peer.writable_rkey;
  requests[1].wr.rdma.remote_addr = side->peer.readable_addr + slot;
  requests[1].wr.rdma.rkey = side->peer.readable_rkey;
  requests[2].wr.atomic.remote_addr = side->peer.atomics_addr;
  requests[2].wr.atomic.rkey = side->peer.atomics_rkey;
  requests[2].wr.atomic.compare_add = 1;
  requests[3].imm_data = htonl((uint32_t)round->number);
  en_post_send(program, requests);
}

static void check_equal(const struct en_program* program, const struct progress* round,
                        const char* what, const uint8_t* have, const uint8_t* want) {
  const uint32_t length = what[0] == 'w' ? round->peer_length : round->length;
  for (uint32_t at = 0; at < length; ++at) {
    if (have[at] == want[at]) continue;
    vc_die(&program->side, "round %lu: what was %s differs at byte %u of %u: %02x, not %02x",
           round->number, what, at, length, have[at], want[at]);
  }
}

static void check_round(const struct en_program* program, const struct progress* round) {
  const struct vc_side* side = &program->side;
  const uint64_t slot = slot_offset(program, round->number);
  uint8_t* expected = malloc(round->peer_length);
  if (!expected) vc_die(side, "out of memory");
  vc_fill(expected, round->peer_length, side->options->seed + round->number, 1 - side->index,
          VC_WRITABLE);
  check_equal(program, round, "written", side->writable.bytes + slot, expected);
  free(expected);
  check_equal(program, round, "read", side->sink.bytes, program->peer_readable + slot);
  uint64_t old;
  memcpy(&old, side->sink.bytes + side->sink.length - 8, 8);
  const uint64_t first = vc_first_atomic(side->options->seed, 1 - side->index, 0);
  if (old != first + round->number) {
    vc_die(side, "round %lu: the counter was %lu, not %lu", round->number, old - first,
           round->number);
  }
}

/* Blocks until something may be there. In ibv_get_cq_event for as long as it takes. */
static void wait_for_event(struct en_program* program) {
  struct ibv_cq* cq = program->side.send_cq;
  void* context = NULL;
  if (ibv_get_cq_event(program->channel, &cq, &context)) {
    if (errno != EIO && errno != EINTR) {
      vc_die(&program->side, "ibv_get_cq_event: %s", strerror(errno));
    }
    return;
  }
  ibv_ack_cq_events(cq, 1);
}

/* Waits for the next completion. 0: told to end, or none came in time. */
static int next_completion(struct en_program* program, struct ibv_wc* wc) {
  struct vc_side* side = &program->side;
  const time_t deadline = time(NULL) + side->options->deadline_s;
  for (uint32_t empty = 0;; ++empty) {
    int count = ibv_poll_cq(side->send_cq, 1, wc);
    if (count == 0 && program->channel && !program->closing) {
      if (ibv_req_notify_cq(side->send_cq, 0)) vc_die(side, "ibv_req_notify_cq failed");
      count = ibv_poll_cq(side->send_cq, 1, wc);
      if (count == 0) wait_for_event(program);
    }
    if (count < 0) vc_die(side, "ibv_poll_cq failed");
    if (count > 0) break;
    if (g_told && !program->closing) return 0;
    if (empty % 1024 == 1023 && time(NULL) > deadline) return 0;
  }
  pthread_mutex_lock(&program->post_mutex);
  --program->outstanding;
  if (wc->wr_id == WR_HEARTBEAT) program->beating = 0;
  pthread_mutex_unlock(&program->post_mutex);
  return 1;
}

/* All that is left must be flushed. Returns how it ended, by the first failure's status. */
static enum en_end drain(struct en_program* program, enum ibv_wc_status first) {
  struct vc_side* side = &program->side;
  pthread_mutex_lock(&program->post_mutex);
  program->closing = 1;
  pthread_mutex_unlock(&program->post_mutex);
  struct ibv_wc wc;
  while (program->outstanding != 0) {
    if (!next_completion(program, &wc)) {
      vc_die(side, "%u requests are never flushed", program->outstanding);
    }
    if (first == IBV_WC_WR_FLUSH_ERR && wc.status == IBV_WC_RETRY_EXC_ERR) first = wc.status;
    /* What was done before the failure may be told after it, of the other queue. */
    if (wc.status != IBV_WC_WR_FLUSH_ERR && wc.status != IBV_WC_SUCCESS &&
        wc.status != IBV_WC_RETRY_EXC_ERR) {
      vc_die(side, "%s behind a failure", ibv_wc_status_str(wc.status));
    }
  }
  if (ibv_poll_cq(side->send_cq, 1, &wc)) vc_die(side, "a completion too many");
  if (first == IBV_WC_RETRY_EXC_ERR) return EN_PEER_GONE;
  if (first != IBV_WC_WR_FLUSH_ERR) vc_die(side, "%s", ibv_wc_status_str(first));
  en_expect_dead_device(program);
  return EN_DEVICE_GONE;
}

/* Runs one round. False: it failed with `status`, or was told to end. */
static int run_round(struct en_program* program, struct progress* round,
                     enum ibv_wc_status* status) {
  struct vc_side* side = &program->side;
  round->sends_done = 0;
  post_round(program, round);
  while (round->sends_done < ROUND_REQUESTS || round->messages == 0) {
    struct ibv_wc wc;
    if (!next_completion(program, &wc)) {
      if (!g_told) vc_die(side, "round %lu: nothing completes", round->number);
      return 0;
    }
    *status = wc.status;
    if (wc.status != IBV_WC_SUCCESS) return 0;
    if (wc.wr_id == WR_RECEIVE) {
      const uint64_t number = round->number + round->messages++;
      if (ntohl(wc.imm_data) != (uint32_t)number) vc_die(side, "message %u", ntohl(wc.imm_data));
      post_receive(program);
    } else if (wc.wr_id != WR_HEARTBEAT) {
      if (wc.wr_id != ++round->sends_done) vc_die(side, "request %lu out of order", wc.wr_id);
    }
  }
  --round->messages;
  check_round(program, round);
  return 1;
}

static void map_rounds(struct en_program* program) {
  char path[512];
  snprintf(path, sizeof(path), "%s/rounds.%d", program->options->side.exchange,
           program->side.index);
  const int fd = open(path, O_RDWR | O_CREAT, 0644);
  if (fd < 0 || ftruncate(fd, sizeof(uint64_t))) vc_die(&program->side, "%s", path);
  void* map = mmap(NULL, sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (map == MAP_FAILED) vc_die(&program->side, "%s: %s", path, strerror(errno));
  close(fd);
  program->rounds = map;
}

static void make_idle_queue_pairs(struct en_program* program) {
  struct vc_side* side = &program->side;
  const uint32_t count = program->options->idle_qps;
  if (!count) return;
  program->idle_cq = ibv_create_cq(side->context, (int)(2 * count), NULL, NULL, 0);
  if (!program->idle_cq) vc_die(side, "ibv_create_cq: %s", strerror(errno));
  for (uint32_t i = 0; i < count; ++i) {
    struct vc_side idle = *side;
    struct ibv_qp_init_attr attributes = {.send_cq = program->idle_cq,
                                          .recv_cq = program->idle_cq,
                                          .qp_type = IBV_QPT_RC,
                                          .cap = {1, 2, 1, 1, 0}};
    idle.qp = ibv_create_qp(side->pd, &attributes);
    if (!idle.qp) vc_die(side, "ibv_create_qp %u: %s", i, strerror(errno));
    vc_side_to_init(&idle);
    for (uint64_t wr_id = 0; wr_id < 2; ++wr_id) {
      struct ibv_recv_wr request = {.wr_id = wr_id};
      struct ibv_recv_wr* bad = NULL;
      if (ibv_post_recv(idle.qp, &request, &bad)) vc_die(side, "ibv_post_recv failed");
    }
  }
}

static void start(struct en_program* program, const struct en_options* options) {
  struct vc_side* side = &program->side;
  program->options = options;
  pthread_mutex_init(&program->post_mutex, NULL);
  vc_side_open(side, &options->side, options->side.role);
  map_rounds(program);
  program->channel = side->channel;
  program->peer_readable = malloc(2ull * options->side.max_bytes);
  if (!program->peer_readable) vc_die(side, "out of memory");
  vc_fill(program->peer_readable, 2ull * options->side.max_bytes, options->side.seed,
          1 - side->index, VC_READABLE);
  make_idle_queue_pairs(program);
  vc_side_to_init(side);
  for (int i = 0; i < RECEIVES; ++i) post_receive(program);
  vc_side_exchange(side, "made");
  vc_side_connect(side);
  vc_side_exchange(side, "connected");
  en_start_threads(program);
}

enum en_end en_run(const struct en_options* options) {
  static struct en_program program;
  const struct sigaction action = {.sa_handler = on_term};
  sigaction(SIGTERM, &action, NULL);
  start(&program, options);
  struct progress round = {0};
  enum ibv_wc_status status = IBV_WC_SUCCESS;
  const struct timespec pause = {.tv_nsec = options->pause_ms * 1000000l};
  while (!g_told && run_round(&program, &round, &status)) {
    *program.rounds = ++round.number;
    if (options->pause_ms) nanosleep(&pause, NULL);
  }
  return status == IBV_WC_SUCCESS ? EN_TOLD : drain(&program, status);
}
