/* SPDX-License-Identifier: Apache-2.0 */
#include "side.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "datagrams.h"
#include "xrc.h"

void vc_die(const struct vc_side* side, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fprintf(stderr, "verbs_check: side %d: ", side->index);
  vfprintf(stderr, format, arguments);
  fprintf(stderr, "\n");
  va_end(arguments);
  fflush(stderr);
  _Exit(1);
}

uint32_t vc_mtu_bytes(enum ibv_mtu mtu) { return 128u << mtu; }

static enum ibv_mtu mtu_of_bytes(uint32_t bytes) {
  enum ibv_mtu mtu = IBV_MTU_256;
  while (mtu < IBV_MTU_4096 && vc_mtu_bytes(mtu) < bytes) ++mtu;
  return mtu;
}

static struct ibv_context* open_device(struct vc_side* side, const char* name) {
  int count = 0;
  struct ibv_device** list = ibv_get_device_list(&count);
  if (!list) vc_die(side, "ibv_get_device_list: %s", strerror(errno));
  struct ibv_context* context = NULL;
  for (int i = 0; i < count && !context; ++i) {
    if (!strcmp(ibv_get_device_name(list[i]), name)) context = ibv_open_device(list[i]);
  }
  ibv_free_device_list(list);
  if (!context) vc_die(side, "no device %s among %d", name, count);
  return context;
}

static void register_memory(struct vc_side* side, struct vc_memory* memory, uint64_t length,
                            int access) {
  memory->length = length;
  memory->bytes = calloc(1, length);
  if (!memory->bytes) vc_die(side, "out of memory");
  memory->mr = ibv_reg_mr(side->pd, memory->bytes, length, access);
  if (!memory->mr) vc_die(side, "ibv_reg_mr of %lu bytes: %s", length, strerror(errno));
}

static void make_memory(struct vc_side* side) {
  const struct vc_options* options = side->options;
  const uint64_t twice = 2ull * options->max_bytes;
  side->slot_bytes = options->max_bytes + vc_area_bytes(side) + (VC_PIECES + 2) * VC_GAP;
  register_memory(side, &side->source, twice, 0);
  register_memory(side, &side->readable, twice, IBV_ACCESS_REMOTE_READ);
  register_memory(side, &side->writable, VC_WINDOW * side->slot_bytes,
                  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  register_memory(side, &side->atomics, VC_ATOMICS * sizeof(uint64_t),
                  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
  register_memory(side, &side->sink, VC_WINDOW * side->slot_bytes, IBV_ACCESS_LOCAL_WRITE);
  register_memory(side, &side->inbox, VC_RECEIVES * side->slot_bytes, IBV_ACCESS_LOCAL_WRITE);
  vc_fill(side->source.bytes, twice, options->seed, side->index, VC_SOURCE);
  vc_fill(side->readable.bytes, twice, options->seed, side->index, VC_READABLE);
  vc_fill(side->writable.bytes, side->writable.length, options->seed, side->index, VC_WRITABLE);
  for (uint32_t i = 0; i < VC_ATOMICS; ++i) {
    ((uint64_t*)side->atomics.bytes)[i] = vc_first_atomic(options->seed, side->index, i);
  }
}

static void make_shared_queue(struct vc_side* side) {
  struct ibv_srq_init_attr attributes = {.attr = {.max_wr = VC_RECEIVES, .max_sge = VC_PIECES}};
  side->srq = ibv_create_srq(side->pd, &attributes);
  if (!side->srq) vc_die(side, "ibv_create_srq: %s", strerror(errno));
}

int vc_side_post_receive(struct vc_side* side, struct ibv_recv_wr* request) {
  struct ibv_recv_wr* bad = NULL;
  return side->srq ? ibv_post_srq_recv(side->srq, request, &bad)
                   : ibv_post_recv(side->qp, request, &bad);
}

static void make_queue_pair(struct vc_side* side) {
  if (side->options->with_channel) {
    side->channel = ibv_create_comp_channel(side->context);
    if (!side->channel) vc_die(side, "ibv_create_comp_channel: %s", strerror(errno));
  }
  side->send_cq = ibv_create_cq(side->context, VC_RECEIVES + VC_WINDOW + 8, NULL, side->channel, 0);
  /* One completion queue for both, or two: the seed decides. */
  side->recv_cq = side->options->seed % 2
                      ? side->send_cq
                      : ibv_create_cq(side->context, VC_RECEIVES + 8, NULL, NULL, 0);
  if (!side->send_cq || !side->recv_cq) vc_die(side, "ibv_create_cq: %s", strerror(errno));
  struct ibv_qp_init_attr attributes = {
      .send_cq = side->send_cq,
      .recv_cq = side->recv_cq,
      .srq = side->srq,
      .qp_type = side->options->type,
      .cap = {.max_send_wr = VC_WINDOW + 4,
              .max_recv_wr = VC_RECEIVES,
              .max_send_sge = VC_PIECES,
              .max_recv_sge = VC_PIECES,
              .max_inline_data = 64},
  };
  side->qp = ibv_create_qp(side->pd, &attributes);
  if (!side->qp) vc_die(side, "ibv_create_qp: %s", strerror(errno));
  side->info.max_inline = 64;
  if (side->options->type == IBV_QPT_XRC_SEND) vc_make_target(side);
}

static void check_port(struct vc_side* side) {
  struct ibv_port_attr port;
  if (ibv_query_port(side->context, 1, &port)) vc_die(side, "ibv_query_port failed");
  if (port.state != IBV_PORT_ACTIVE) vc_die(side, "the port is not active");
  side->mtu = port.active_mtu;
  if (side->options->mtu_bytes) side->mtu = mtu_of_bytes(side->options->mtu_bytes);
}

void vc_side_open(struct vc_side* side, const struct vc_options* options, int index) {
  memset(side, 0, sizeof(*side));
  side->options = options;
  side->index = index;
  side->context = open_device(side, options->devices[index]);
  side->pd = ibv_alloc_pd(side->context);
  if (!side->pd) vc_die(side, "ibv_alloc_pd: %s", strerror(errno));
  check_port(side);
  make_memory(side);
  if (options->shared_receive) make_shared_queue(side);
  make_queue_pair(side);
  struct vc_info* info = &side->info;
  if (ibv_query_gid(side->context, 1, options->gid_indices[index], &info->gid)) {
    vc_die(side, "ibv_query_gid of index %d failed", options->gid_indices[index]);
  }
  uint64_t state = options->seed * 2 + (uint64_t)index;
  info->qpn = side->qp->qp_num;
  /* Close below 2^24, so that the PSN wraps within a test. */
  info->psn = 0xffffff - (uint32_t)(vc_random(&state) % 200);
  info->readable_addr = (uintptr_t)side->readable.bytes;
  info->writable_addr = (uintptr_t)side->writable.bytes;
  info->atomics_addr = (uintptr_t)side->atomics.bytes;
  info->readable_rkey = side->readable.mr->rkey;
  info->writable_rkey = side->writable.mr->rkey;
  info->atomics_rkey = side->atomics.mr->rkey;
}

void vc_side_to_init(struct vc_side* side) {
  const int is_datagram = side->options->type == IBV_QPT_UD;
  struct ibv_qp_attr attributes = {
      .qp_state = IBV_QPS_INIT,
      .port_num = 1,
      .qkey = VC_QKEY,
      .qp_access_flags =
          IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC,
  };
  const int error = ibv_modify_qp(side->qp, &attributes,
                                  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                      (is_datagram ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
  if (error) vc_die(side, "to INIT: %s", strerror(error));
  if (side->target) vc_target_to_init(side);
}

/* What leads to RTR and RTS, by type. */
static int rtr_mask(enum ibv_qp_type type) {
  const int of_connections = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  if (type == IBV_QPT_UD) return IBV_QP_STATE;
  if (type != IBV_QPT_RC) return IBV_QP_STATE | of_connections;
  return IBV_QP_STATE | of_connections | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
}

static int rts_mask(enum ibv_qp_type type) {
  if (type == IBV_QPT_UC || type == IBV_QPT_UD) return IBV_QP_STATE | IBV_QP_SQ_PSN;
  return IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
         IBV_QP_MAX_QP_RD_ATOMIC;
}

struct ibv_ah_attr vc_address_vector(const struct vc_side* side) {
  return (struct ibv_ah_attr){
      .is_global = 1,
      .port_num = 1,
      .grh = {.dgid = side->peer.gid,
              .sgid_index = (uint8_t)side->options->gid_indices[side->index],
              .hop_limit = 64,
              .traffic_class = side->options->traffic_class}};
}

static void to_rtr(struct vc_side* side) {
  const int is_extended = side->options->type == IBV_QPT_XRC_SEND;
  struct ibv_qp_attr attributes = {
      .qp_state = IBV_QPS_RTR,
      .path_mtu = side->mtu,
      .dest_qp_num = is_extended ? side->peer.target_qpn : side->peer.qpn,
      .rq_psn = side->peer.psn,
      .max_dest_rd_atomic = 16,
      .min_rnr_timer = 12,
      .ah_attr = vc_address_vector(side),
  };
  const int error = ibv_modify_qp(side->qp, &attributes, rtr_mask(side->options->type));
  if (error) vc_die(side, "to RTR: %s", strerror(error));
}

void vc_side_connect(struct vc_side* side) {
  to_rtr(side);
  struct ibv_qp_attr attributes = {
      .qp_state = IBV_QPS_RTS,
      .timeout = side->options->ack_timeout,
      .retry_cnt = side->options->retry_count,
      .rnr_retry = side->options->rnr_retry,
      .sq_psn = side->info.psn,
      .max_rd_atomic = 16,
  };
  const int error = ibv_modify_qp(side->qp, &attributes, rts_mask(side->options->type));
  if (error) vc_die(side, "to RTS: %s", strerror(error));
  if (side->options->type == IBV_QPT_UD) vc_make_address(side);
  if (side->target) vc_connect_target(side);
}

/* A file appears whole: it is written under another name and renamed. */
static void publish(struct vc_side* side, const char* name) {
  char path[512];
  char unfinished[512];
  snprintf(path, sizeof(path), "%s/%s.%d", side->options->exchange, name, side->index);
  snprintf(unfinished, sizeof(unfinished), "%s/%s.%d.new", side->options->exchange, name,
           side->index);
  FILE* file = fopen(unfinished, "wb");
  if (!file) vc_die(side, "%s: %s", unfinished, strerror(errno));
  const size_t written = fwrite(&side->info, sizeof(side->info), 1, file);
  if (fclose(file) || written != 1) vc_die(side, "%s: not written", unfinished);
  if (rename(unfinished, path)) vc_die(side, "%s: %s", path, strerror(errno));
}

static void await(struct vc_side* side, const char* name) {
  char path[512];
  snprintf(path, sizeof(path), "%s/%s.%d", side->options->exchange, name, 1 - side->index);
  const time_t deadline = time(NULL) + side->options->deadline_s;
  FILE* file = NULL;
  while (!(file = fopen(path, "rb"))) {
    if (time(NULL) > deadline) vc_die(side, "the peer left no %s", path);
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
  }
  const size_t got = fread(&side->peer, sizeof(side->peer), 1, file);
  fclose(file);
  if (got != 1) vc_die(side, "%s is short", path);
}

void vc_side_exchange(struct vc_side* side, const char* name) {
  publish(side, name);
  await(side, name);
}

static void release_memory(struct vc_side* side, struct vc_memory* memory) {
  const int error = ibv_dereg_mr(memory->mr);
  if (error) vc_die(side, "ibv_dereg_mr: %s", strerror(error));
  free(memory->bytes);
}

void vc_side_close(struct vc_side* side) {
  if (ibv_destroy_qp(side->qp)) vc_die(side, "ibv_destroy_qp failed");
  if (side->target) vc_close_target(side);
  if (side->srq && ibv_destroy_srq(side->srq)) vc_die(side, "ibv_destroy_srq failed");
  if (side->ah && ibv_destroy_ah(side->ah)) vc_die(side, "ibv_destroy_ah failed");
  if (side->recv_cq != side->send_cq && ibv_destroy_cq(side->recv_cq)) {
    vc_die(side, "ibv_destroy_cq of receives failed");
  }
  if (ibv_destroy_cq(side->send_cq)) vc_die(side, "ibv_destroy_cq failed");
  if (side->channel && ibv_destroy_comp_channel(side->channel)) {
    vc_die(side, "ibv_destroy_comp_channel failed");
  }
  struct vc_memory* memories[] = {&side->source,  &side->readable, &side->writable,
                                  &side->atomics, &side->sink,     &side->inbox};
  for (size_t i = 0; i < sizeof(memories) / sizeof(memories[0]); ++i) {
    release_memory(side, memories[i]);
  }
  if (ibv_dealloc_pd(side->pd)) vc_die(side, "ibv_dealloc_pd failed");
  if (ibv_close_device(side->context)) vc_die(side, "ibv_close_device failed");
}
