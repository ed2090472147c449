/* SPDX-License-Identifier: Apache-2.0
 * Messages over a network that loses, repeats and reorders packets: each arrives whole, or not at
 * all where nothing repeats it. Over UC in the order of sending, and none twice. */
#include <string.h>
#include <time.h>

#include "cases.h"
#include "datagrams.h"

#define QUIET_NS 300000000ll /* Nothing has come for so long: nothing is on its way. */

/* Three packets where a message may have several. */
static uint32_t message_bytes(const struct vc_side* side) {
  const uint32_t mtu_bytes = vc_mtu_bytes(side->mtu);
  const uint32_t wanted = side->options->type == IBV_QPT_UD ? mtu_bytes : 2 * mtu_bytes + 100;
  return wanted < side->options->max_bytes ? wanted : side->options->max_bytes;
}

static uint8_t byte_of(uint32_t number, uint32_t at) { return (uint8_t)(number * 31 + at * 7); }

static void post_receives(struct vc_side* target) {
  const uint32_t length = vc_area_bytes(target) + message_bytes(target);
  for (uint32_t place = 0; place < VC_RECEIVES; ++place) {
    struct ibv_sge sge = {(uintptr_t)target->inbox.bytes + place * target->slot_bytes, length,
                          target->inbox.mr->lkey};
    struct ibv_recv_wr request = {.wr_id = place, .sg_list = &sge, .num_sge = 1};
    if (vc_side_post_receive(target, &request)) vc_die(target, "a receive was not taken");
  }
}

/* One after the other, so that only the network loses some. */
static void send_all(struct vc_side* requester) {
  const uint32_t length = message_bytes(requester);
  for (uint32_t number = 0; number < VC_RECEIVES; ++number) {
    for (uint32_t at = 0; at < length; ++at) requester->sink.bytes[at] = byte_of(number, at);
    struct ibv_sge sge = {(uintptr_t)requester->sink.bytes, length, requester->sink.mr->lkey};
    struct ibv_send_wr request = {.wr_id = number,
                                  .sg_list = &sge,
                                  .num_sge = 1,
                                  .opcode = IBV_WR_SEND_WITH_IMM,
                                  .send_flags = IBV_SEND_SIGNALED,
                                  .imm_data = number};
    vc_address(requester, &request);
    struct ibv_send_wr* bad = NULL;
    if (ibv_post_send(requester->qp, &request, &bad)) vc_die(requester, "ibv_post_send");
    vc_expect(requester, requester->send_cq, number, IBV_WC_SUCCESS);
  }
}

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000ll + now.tv_nsec;
}

/* The next message's completion, or 0 when no more come. */
static int next_message(struct vc_side* target, struct ibv_wc* wc) {
  const int64_t deadline = now_ns() + QUIET_NS;
  int count = 0;
  while ((count = ibv_poll_cq(target->recv_cq, 1, wc)) == 0 && now_ns() < deadline) continue;
  if (count < 0) vc_die(target, "ibv_poll_cq failed");
  if (count && wc->status) vc_die(target, "a receive failed: %s", ibv_wc_status_str(wc->status));
  return count;
}

static void check_whole(const struct vc_side* target, const struct ibv_wc* wc) {
  const uint32_t area = vc_area_bytes(target);
  const uint32_t length = message_bytes(target);
  const uint8_t* bytes = target->inbox.bytes + wc->wr_id * target->slot_bytes + area;
  if (wc->byte_len != area + length) vc_die(target, "a message of %u bytes", wc->byte_len);
  for (uint32_t at = 0; at < length; ++at) {
    if (bytes[at] != byte_of(wc->imm_data, at)) {
      vc_die(target, "message %u differs at byte %u of %u", wc->imm_data, at, length);
    }
  }
}

static void check_messages(struct vc_side* target) {
  const int is_ordered = target->options->type != IBV_QPT_UD;
  uint32_t next = 0;
  uint32_t got = 0;
  for (struct ibv_wc wc; next_message(target, &wc); ++got) {
    check_whole(target, &wc);
    if (is_ordered && wc.imm_data < next) vc_die(target, "message %u came late", wc.imm_data);
    next = wc.imm_data + 1;
  }
  const int must_be_all = target->options->type == IBV_QPT_RC;
  if (!got || (must_be_all && got != VC_RECEIVES)) {
    vc_die(target, "%u of %u messages", got, (unsigned)VC_RECEIVES);
  }
}

const struct vc_case vc_lossy_cases[] = {
    {"whole-or-lost", post_receives, send_all, check_messages},
    {NULL, NULL, NULL, NULL},
};
