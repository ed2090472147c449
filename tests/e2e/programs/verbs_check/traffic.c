/* SPDX-License-Identifier: Apache-2.0
 *
 * A round, at each end:
 *   1. say "go" and wait for the peer's: both have checked the round before. Where the end is
 *      asked for by a file, end 0 says "last" in place of "go" when it has seen it;
 *   2. post the receives of the next round, then this round's requests, then "done";
 *   3. wait for all completions and for the peer's "done";
 *   4. check the memory that the peer wrote, what was read, and what was received.
 * "go" finds its receive since that was posted before the peer's "done" of the round before. With
 * late receives each waits for its own: they are posted when the peer has sent. */
#include "traffic.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "completions.h"
#include "datagrams.h"
#include "xrc.h"

#define UNTOUCHED 0xee
#define IMM_GO 0x676f0000u
#define IMM_LAST 0x6c610000u
#define IMM_DONE 0x646f0000u
#define WR_GO (VC_WINDOW + 0ull)
#define WR_DONE (VC_WINDOW + 1ull)

/* What one end sends in a round. */
struct round {
  uint32_t count;
  struct vc_op ops[VC_WINDOW];
};

/* A posted receive, in the order of posting. */
struct receive {
  uint8_t* slot;
  struct vc_piece pieces[VC_PIECES];
  uint32_t piece_count;
};

struct traffic {
  struct vc_side side;
  struct vc_stream own_stream;
  struct vc_stream peer_stream;
  struct round own;
  struct round peer;
  struct round peer_next;
  uint64_t receive_state; /* Random cuts of receives: no one else's business. */
  struct receive receives[VC_RECEIVES];
  uint32_t receives_posted; /* Free running, as is the next. */
  uint32_t receives_done;
  uint32_t round_number;
  int is_last;          /* Nothing is sent after this round. */
  uint8_t* peer_source; /* Copies of what the peer's areas hold. */
  uint8_t* peer_readable;
  uint8_t* shadow;              /* What our writable area must hold. */
  uint64_t atomics[VC_ATOMICS]; /* What our atomics must hold when the round has ended. */
  struct vc_completions sends_done;
  struct vc_completions receives_arrived;
};

static uint32_t receive_slots(void) { return VC_RECEIVES; }

static void draw_round(struct vc_stream* stream, struct round* round) {
  round->count = vc_stream_round(stream);
  for (uint32_t i = 0; i < round->count; ++i) vc_stream_next(stream, &round->ops[i]);
}

static void post_receive(struct traffic* traffic) {
  struct vc_side* side = &traffic->side;
  const uint32_t place = traffic->receives_posted++ % receive_slots();
  struct receive* receive = &traffic->receives[place];
  receive->slot = side->inbox.bytes + place * side->slot_bytes;
  memset(receive->slot, UNTOUCHED, side->slot_bytes);
  receive->piece_count = vc_scatter(
      &traffic->receive_state, side->options->max_bytes + vc_area_bytes(side), receive->pieces);
  struct ibv_sge sges[VC_PIECES];
  for (uint32_t i = 0; i < receive->piece_count; ++i) {
    sges[i] = (struct ibv_sge){(uintptr_t)receive->slot + receive->pieces[i].offset,
                               receive->pieces[i].length, side->inbox.mr->lkey};
  }
  struct ibv_recv_wr request = {
      .wr_id = place, .sg_list = sges, .num_sge = (int)receive->piece_count};
  if (vc_side_post_receive(side, &request)) vc_die(side, "a receive was not taken");
}

/* What the peer sends in its next round, and what our atomics hold before it. */
static void draw_next_round_of_peer(struct traffic* traffic) {
  memcpy(traffic->atomics, traffic->peer_stream.atomics, sizeof(traffic->atomics));
  draw_round(&traffic->peer_stream, &traffic->peer_next);
}

static void post_receives_of(struct traffic* traffic, const struct round* peer) {
  uint32_t needed = 1; /* "done" */
  for (uint32_t i = 0; i < peer->count; ++i) needed += vc_takes_receive(&peer->ops[i]) ? 1 : 0;
  while (needed-- > 0) post_receive(traffic);
}

/* Receives of the next round, "go" included; those that are to be late come only within it. */
static void post_receives_in_time(struct traffic* traffic) {
  if (traffic->side.options->late_receives) return;
  post_receive(traffic);
  post_receives_of(traffic, &traffic->peer_next);
}

/* Whether receives are late; then they are so by the time that the peer needs to have sent. */
static int is_late(const struct traffic* traffic) {
  if (!traffic->side.options->late_receives) return 0;
  nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
  return 1;
}

static enum ibv_wr_opcode opcode_of(enum vc_kind kind) {
  switch (kind) {
    case VC_SEND:
      return IBV_WR_SEND;
    case VC_SEND_IMM:
      return IBV_WR_SEND_WITH_IMM;
    case VC_WRITE:
      return IBV_WR_RDMA_WRITE;
    case VC_WRITE_IMM:
      return IBV_WR_RDMA_WRITE_WITH_IMM;
    case VC_READ:
      return IBV_WR_RDMA_READ;
    case VC_CAS:
      return IBV_WR_ATOMIC_CMP_AND_SWP;
    default:
      return IBV_WR_ATOMIC_FETCH_AND_ADD;
  }
}

static int fills_sink(const struct vc_op* op) {
  return op->kind == VC_READ || op->kind == VC_CAS || op->kind == VC_FAA;
}

static void set_remote(const struct vc_side* side, const struct vc_op* op, uint32_t slot,
                       struct ibv_send_wr* request) {
  const struct vc_info* peer = &side->peer;
  if (op->kind == VC_CAS || op->kind == VC_FAA) {
    request->wr.atomic.remote_addr = peer->atomics_addr + 8 * op->remote_offset;
    request->wr.atomic.rkey = peer->atomics_rkey;
    request->wr.atomic.compare_add = op->kind == VC_FAA ? op->swap_or_add : op->compare;
    request->wr.atomic.swap = op->swap_or_add;
  } else if (side->options->type == IBV_QPT_UD) {
    vc_address(side, request);
  } else if (op->kind == VC_READ) {
    request->wr.rdma.remote_addr = peer->readable_addr + op->remote_offset;
    request->wr.rdma.rkey = peer->readable_rkey;
  } else {
    request->wr.rdma.remote_addr =
        peer->writable_addr + slot * side->slot_bytes + op->remote_offset;
    request->wr.rdma.rkey = peer->writable_rkey;
  }
}

static void post_op(struct traffic* traffic, const struct vc_op* op, uint32_t slot) {
  struct vc_side* side = &traffic->side;
  uint8_t* sink = side->sink.bytes + slot * side->slot_bytes;
  const struct vc_memory* memory = fills_sink(op) ? &side->sink : &side->source;
  uint8_t* base = fills_sink(op) ? sink : side->source.bytes;
  if (fills_sink(op)) memset(sink, UNTOUCHED, side->slot_bytes);
  struct ibv_sge sges[VC_PIECES];
  for (uint32_t i = 0; i < op->piece_count; ++i) {
    sges[i] = (struct ibv_sge){(uintptr_t)base + op->pieces[i].offset, op->pieces[i].length,
                               /* Inline data needs no key, so it gets a wrong one. */
                               op->use_inline ? 0xdeadbeef : memory->mr->lkey};
  }
  struct ibv_send_wr request = {.wr_id = slot,
                                .sg_list = sges,
                                .num_sge = (int)op->piece_count,
                                .opcode = opcode_of(op->kind),
                                .imm_data = htonl(op->imm)};
  request.send_flags = (op->signaled ? IBV_SEND_SIGNALED : 0u) |
                       (op->use_inline ? IBV_SEND_INLINE : 0u) | (op->fence ? IBV_SEND_FENCE : 0u) |
                       (op->solicited ? IBV_SEND_SOLICITED : 0u);
  set_remote(side, op, slot, &request);
  vc_name_queue(side, &request);
  struct ibv_send_wr* bad = NULL;
  const int error = ibv_post_send(side->qp, &request, &bad);
  if (error) vc_die(side, "ibv_post_send: %s", strerror(error));
}

static void post_message(struct traffic* traffic, uint64_t wr_id, uint32_t imm) {
  struct ibv_send_wr request = {.wr_id = wr_id,
                                .opcode = IBV_WR_SEND_WITH_IMM,
                                .send_flags = IBV_SEND_SIGNALED,
                                .imm_data = htonl(imm)};
  vc_address(&traffic->side, &request);
  vc_name_queue(&traffic->side, &request);
  struct ibv_send_wr* bad = NULL;
  const int error = ibv_post_send(traffic->side.qp, &request, &bad);
  if (error) vc_die(&traffic->side, "ibv_post_send of a message: %s", strerror(error));
}

static void check_equal(const struct traffic* traffic, const char* what, const uint8_t* have,
                        const uint8_t* want, uint64_t length) {
  if (!memcmp(have, want, length)) return;
  uint64_t at = 0;
  while (have[at] == want[at]) ++at;
  vc_die(&traffic->side, "round %u: %s differs at byte %lu of %lu: %02x, not %02x",
         traffic->round_number, what, at, length, have[at], want[at]);
}

static void check_untouched(const struct traffic* traffic, const char* what, const uint8_t* bytes,
                            uint64_t length) {
  /* All are equal when each is equal to the one behind it; memcmp looks at many at a time. */
  if (length && (bytes[0] != UNTOUCHED || memcmp(bytes, bytes + 1, length - 1) != 0)) {
    vc_die(&traffic->side, "round %u: %s wrote past its end", traffic->round_number, what);
  }
}

/* `message` as it must lie in a slot that was scattered into by `pieces`. */
static void check_scatter(const struct traffic* traffic, const char* what, const uint8_t* slot,
                          const struct vc_piece* pieces, uint32_t piece_count,
                          const uint8_t* message, uint32_t length) {
  uint64_t end = 0;
  for (uint32_t i = 0; i < piece_count; ++i) {
    const uint32_t part = pieces[i].length < length ? pieces[i].length : length;
    check_untouched(traffic, what, slot + end, pieces[i].offset - end);
    check_equal(traffic, what, slot + pieces[i].offset, message, part);
    end = pieces[i].offset + part;
    message += part;
    length -= part;
  }
  check_untouched(traffic, what, slot + end, traffic->side.slot_bytes - end);
}

/* What the peer gathered for a request, behind `area_bytes` of room; the caller frees it. */
static uint8_t* gather(const struct traffic* traffic, const struct vc_op* op, uint32_t area_bytes) {
  uint8_t* message = malloc(area_bytes + op->length + 1ull);
  if (!message) vc_die(&traffic->side, "out of memory");
  uint64_t place = area_bytes;
  for (uint32_t i = 0; i < op->piece_count; ++i) {
    memcpy(message + place, traffic->peer_source + op->pieces[i].offset, op->pieces[i].length);
    place += op->pieces[i].length;
  }
  return message;
}

/* The first bytes that were scattered into a receive. */
static void read_scattered(const struct receive* receive, uint8_t* bytes, uint32_t length) {
  for (uint32_t i = 0; i < receive->piece_count && length; ++i) {
    const struct vc_piece* piece = &receive->pieces[i];
    const uint32_t part = piece->length < length ? piece->length : length;
    memcpy(bytes, receive->slot + piece->offset, part);
    bytes += part;
    length -= part;
  }
}

static void check_receive_completion(const struct traffic* traffic, const struct ibv_wc* wc,
                                     const struct vc_op* op) {
  const int with_imm = op->kind != VC_SEND;
  const enum ibv_wc_opcode opcode =
      op->kind == VC_WRITE_IMM ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
  if (wc->opcode != opcode || wc->byte_len != vc_area_bytes(&traffic->side) + op->length ||
      ((wc->wc_flags & IBV_WC_WITH_IMM) != 0) != with_imm ||
      (with_imm && ntohl(wc->imm_data) != op->imm) ||
      wc->qp_num != vc_receiver(&traffic->side)->qp_num) {
    vc_die(&traffic->side,
           "round %u: receive completion: opcode %d, %u bytes, flags %u, imm %x, qp %x; "
           "expected opcode %d, %u bytes, imm %x",
           traffic->round_number, (int)wc->opcode, wc->byte_len, wc->wc_flags, ntohl(wc->imm_data),
           wc->qp_num, (int)opcode, op->length, op->imm);
  }
}

/* The next receive is the peer's request `op`, or its message with `imm` when `op` is none. */
static void on_receive(struct traffic* traffic, const struct vc_op* op, uint32_t imm) {
  const struct vc_side* side = &traffic->side;
  struct ibv_wc wc = vc_take(&traffic->receives_arrived);
  const uint32_t area_bytes = vc_area_bytes(side);
  const uint32_t place = traffic->receives_done++ % receive_slots();
  if (wc.status) vc_die(side, "a receive failed: %s", ibv_wc_status_str(wc.status));
  if (wc.wr_id != place) vc_die(side, "receive %lu completed, not %u", wc.wr_id, place);
  const struct vc_op message = {.kind = VC_SEND_IMM, .imm = imm};
  if (!op) op = &message;
  check_receive_completion(traffic, &wc, op);
  const struct receive* receive = &traffic->receives[place];
  uint8_t* bytes = gather(traffic, op, area_bytes);
  read_scattered(receive, bytes, area_bytes);
  if (area_bytes) vc_check_datagram(side, &wc, bytes);
  const uint32_t length = op->kind == VC_WRITE_IMM ? 0 : area_bytes + op->length;
  check_scatter(traffic, "a receive", receive->slot, receive->pieces, receive->piece_count, bytes,
                length);
  free(bytes);
}

static int is_receive(const struct traffic* traffic, const struct ibv_wc* wc, int from_recv_cq) {
  if (traffic->side.send_cq != traffic->side.recv_cq) return from_recv_cq;
  /* opcode is not valid in an error; those end the test, with whichever name. */
  return wc->status == IBV_WC_SUCCESS && (wc->opcode & IBV_WC_RECV);
}

/* Sorts what was polled into sends and receives. Returns how many came. */
static int poll_once(struct traffic* traffic) {
  struct vc_side* side = &traffic->side;
  struct ibv_cq* queues[2] = {side->send_cq, side->recv_cq};
  int total = 0;
  for (int i = 0; i < (side->send_cq == side->recv_cq ? 1 : 2); ++i) {
    struct ibv_wc found[8];
    const int count = ibv_poll_cq(queues[i], 8, found);
    if (count < 0) vc_die(side, "ibv_poll_cq failed");
    for (int k = 0; k < count; ++k) {
      vc_put(is_receive(traffic, &found[k], i == 1) ? &traffic->receives_arrived
                                                    : &traffic->sends_done,
             &found[k]);
    }
    total += count;
  }
  return total;
}

/* Waits until so many completions are there. */
static void wait_for(struct traffic* traffic, uint32_t send_count, uint32_t receive_count) {
  const time_t deadline = time(NULL) + traffic->side.options->deadline_s;
  const struct vc_completions* sends = &traffic->sends_done;
  const struct vc_completions* receives = &traffic->receives_arrived;
  for (uint32_t empty = 0; sends->count < send_count || receives->count < receive_count;) {
    if (poll_once(traffic)) {
      empty = 0;
    } else if (++empty % 1024 == 0 && time(NULL) > deadline) {
      vc_die(&traffic->side, "round %u: %u of %u sends and %u of %u receives complete in %u s",
             traffic->round_number, sends->count, send_count, receives->count, receive_count,
             traffic->side.options->deadline_s);
    }
  }
}

/* Completions of one send queue come in the order of posting. */
static void expect_send(struct traffic* traffic, uint64_t wr_id) {
  const struct ibv_wc wc = vc_take(&traffic->sends_done);
  if (wc.status) {
    vc_die(&traffic->side, "round %u: request %lu failed: %s", traffic->round_number, wc.wr_id,
           ibv_wc_status_str(wc.status));
  }
  if (wc.wr_id != wr_id) {
    vc_die(&traffic->side, "round %u: request %lu completed, not %lu", traffic->round_number,
           wc.wr_id, wr_id);
  }
}

static uint32_t go(const struct traffic* traffic, int is_last) {
  return (is_last ? IMM_LAST : IMM_GO) + traffic->round_number;
}

/* What the peer has said. */
static uint32_t next_imm(const struct traffic* traffic) {
  return ntohl(vc_peek(&traffic->receives_arrived)->imm_data);
}

static void begin_round(struct traffic* traffic) {
  const struct vc_side* side = &traffic->side;
  const char* until = side->options->until;
  if (until && side->index == 0) traffic->is_last = access(until, F_OK) == 0;
  post_message(traffic, WR_GO, go(traffic, traffic->is_last));
  if (is_late(traffic)) post_receive(traffic);
  wait_for(traffic, 1, 1);
  expect_send(traffic, WR_GO);
  if (until && side->index == 1) traffic->is_last = next_imm(traffic) == go(traffic, 1);
  on_receive(traffic, NULL, go(traffic, side->index == 1 && traffic->is_last));
}

static void check_sends(struct traffic* traffic) {
  for (uint32_t i = 0; i < traffic->own.count; ++i) {
    if (traffic->own.ops[i].signaled) expect_send(traffic, i);
  }
  expect_send(traffic, WR_DONE);
}

static void check_sinks(const struct traffic* traffic) {
  const struct vc_side* side = &traffic->side;
  for (uint32_t i = 0; i < traffic->own.count; ++i) {
    const struct vc_op* op = &traffic->own.ops[i];
    const uint8_t* sink = side->sink.bytes + i * side->slot_bytes;
    if (op->kind == VC_READ) {
      check_scatter(traffic, "a read", sink, op->pieces, op->piece_count,
                    traffic->peer_readable + op->remote_offset, op->length);
    } else if (fills_sink(op)) {
      check_scatter(traffic, "an atomic", sink, op->pieces, op->piece_count,
                    (const uint8_t*)&op->old_value, 8);
    }
  }
}

static void check_writes(struct traffic* traffic) {
  const struct vc_side* side = &traffic->side;
  for (uint32_t i = 0; i < traffic->peer.count; ++i) {
    const struct vc_op* op = &traffic->peer.ops[i];
    if (op->kind != VC_WRITE && op->kind != VC_WRITE_IMM) continue;
    uint8_t* bytes = gather(traffic, op, 0);
    memcpy(traffic->shadow + i * side->slot_bytes + op->remote_offset, bytes, op->length);
    free(bytes);
    check_equal(traffic, "a write", side->writable.bytes + i * side->slot_bytes,
                traffic->shadow + i * side->slot_bytes, side->slot_bytes);
  }
}

static void check_receives(struct traffic* traffic) {
  for (uint32_t i = 0; i < traffic->peer.count; ++i) {
    const struct vc_op* op = &traffic->peer.ops[i];
    if (vc_takes_receive(op)) on_receive(traffic, op, 0);
  }
  on_receive(traffic, NULL, IMM_DONE + traffic->round_number);
}

static void run_round(struct traffic* traffic) {
  uint32_t send_count = 1;
  uint32_t receive_count = 1;
  begin_round(traffic);
  traffic->peer = traffic->peer_next;
  draw_round(&traffic->own_stream, &traffic->own);
  draw_next_round_of_peer(traffic);
  post_receives_in_time(traffic);
  for (uint32_t i = 0; i < traffic->own.count; ++i) {
    post_op(traffic, &traffic->own.ops[i], i);
    send_count += traffic->own.ops[i].signaled ? 1 : 0;
  }
  post_message(traffic, WR_DONE, IMM_DONE + traffic->round_number);
  if (is_late(traffic)) post_receives_of(traffic, &traffic->peer);
  for (uint32_t i = 0; i < traffic->peer.count; ++i) {
    receive_count += vc_takes_receive(&traffic->peer.ops[i]) ? 1 : 0;
  }
  wait_for(traffic, send_count, receive_count);
  check_sends(traffic);
  check_receives(traffic);
  check_sinks(traffic);
  check_writes(traffic);
  check_equal(traffic, "an atomic's target", traffic->side.atomics.bytes,
              (const uint8_t*)traffic->atomics, sizeof(traffic->atomics));
}

static uint8_t* filled(const struct traffic* traffic, uint64_t length, int side,
                       enum vc_area area) {
  uint8_t* bytes = malloc(length);
  if (!bytes) vc_die(&traffic->side, "out of memory");
  vc_fill(bytes, length, traffic->side.options->seed, side, area);
  return bytes;
}

/* The kinds of requests that a service has come first among all. */
static int kinds_of(enum ibv_qp_type type) {
  if (type == IBV_QPT_UD) return VC_SEND_IMM + 1;
  return type == IBV_QPT_UC ? VC_WRITE_IMM + 1 : VC_KINDS;
}

static void start(struct traffic* traffic, const struct vc_options* options, int index) {
  struct vc_side* side = &traffic->side;
  vc_side_open(side, options, index);
  const int is_datagram = options->type == IBV_QPT_UD;
  const uint32_t mtu_bytes = vc_mtu_bytes(side->mtu);
  const struct vc_stream_limits limits = {
      is_datagram && mtu_bytes < options->max_bytes ? mtu_bytes : options->max_bytes,
      side->info.max_inline, mtu_bytes, options->unfenced, kinds_of(options->type)};
  vc_stream_start(&traffic->own_stream, options->seed, index, &limits);
  vc_stream_start(&traffic->peer_stream, options->seed, 1 - index, &limits);
  traffic->receive_state = options->seed + (uint64_t)index;
  traffic->peer_source = filled(traffic, 2ull * options->max_bytes, 1 - index, VC_SOURCE);
  traffic->peer_readable = filled(traffic, 2ull * options->max_bytes, 1 - index, VC_READABLE);
  traffic->shadow = filled(traffic, side->writable.length, index, VC_WRITABLE);
  vc_side_to_init(side);
  draw_next_round_of_peer(traffic);
  post_receives_in_time(traffic);
  vc_side_exchange(side, "made");
  vc_side_connect(side);
  vc_side_exchange(side, "connected");
}

static void finish(struct traffic* traffic) {
  struct vc_side* side = &traffic->side;
  check_equal(traffic, "all that was written", side->writable.bytes, traffic->shadow,
              side->writable.length);
  vc_side_exchange(side, "finished");
  vc_side_close(side);
  free(traffic->peer_source);
  free(traffic->peer_readable);
  free(traffic->shadow);
}

void vc_run_traffic(const struct vc_options* options, int index, struct vc_tally* sent) {
  struct traffic* traffic = calloc(1, sizeof(*traffic));
  if (!traffic) abort();
  start(traffic, options, index);
  /* Both ends count one stream, so that they stop after the same round. */
  uint64_t counted = 0;
  while (counted < options->ops || (options->until && !traffic->is_last)) {
    run_round(traffic);
    for (uint32_t i = 0; i < traffic->own.count; ++i) ++sent->of[traffic->own.ops[i].kind];
    counted += index == 0 ? traffic->own.count : traffic->peer.count;
    ++traffic->round_number;
  }
  finish(traffic);
  free(traffic);
}
