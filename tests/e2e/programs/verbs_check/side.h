/* SPDX-License-Identifier: Apache-2.0
 * One end of the connection: device, memory, queue pair, and how the two ends find each other. */
#ifndef VERBS_CHECK_SIDE_H_
#define VERBS_CHECK_SIDE_H_

#include <infiniband/verbs.h>
#include <stdint.h>

#include "stream.h"

struct vc_options {
  const char* devices[2];
  int gid_indices[2];
  int role; /* 0 or 1: this end alone, the other is another process; -1: both, in two threads. */
  const char* exchange; /* Directory where the ends leave what the other must know. */
  uint64_t seed;
  uint64_t ops;      /* Work requests of each end, at least. */
  const char* until; /* After them it goes on until end 0 sees this file; NULL: it does not. */
  uint32_t max_bytes;
  uint32_t mtu_bytes; /* 0: the port's. */
  uint8_t ack_timeout;
  uint8_t traffic_class;
  uint8_t retry_count;
  uint8_t rnr_retry;
  uint32_t deadline_s;
  int rxe_end;       /* 0 or 1: this end runs on rdma_rxe, which has its own statuses; -1: none. */
  int late_receives; /* Post receives after what they are for was sent: receiver not ready. */
  int unfenced;      /* For peers that cannot repeat a fenced request. */
  int with_channel;  /* Completions can be waited for. */
  enum ibv_qp_type type; /* IBV_QPT_RC, UC, UD or XRC_SEND. */
  int shared_receive;    /* Receives are posted to a shared receive queue. */
};

/* What an end tells the other. */
struct vc_info {
  uint32_t qpn;
  uint32_t psn;
  union ibv_gid gid;
  uint64_t readable_addr;
  uint64_t writable_addr;
  uint64_t atomics_addr;
  uint32_t readable_rkey;
  uint32_t writable_rkey;
  uint32_t atomics_rkey;
  uint32_t max_inline;
  uint32_t target_qpn; /* Of XRC, and the next. */
  uint32_t srqn;
};

/* A registered buffer. */
struct vc_memory {
  uint8_t* bytes;
  uint64_t length;
  struct ibv_mr* mr;
};

/* Receives of two rounds, with "go" and "done". */
#define VC_RECEIVES (2 * (VC_WINDOW + 2))

struct vc_side {
  const struct vc_options* options;
  int index; /* 0 or 1 */
  struct ibv_context* context;
  struct ibv_pd* pd;
  struct ibv_comp_channel* channel; /* Of the send_cq, or none. */
  struct ibv_cq* send_cq;
  struct ibv_cq* recv_cq;
  struct ibv_qp* qp;
  struct ibv_ah* ah;     /* Of the peer, for datagrams. */
  struct ibv_srq* srq;   /* Or none. */
  struct ibv_xrcd* xrcd; /* Of XRC, and the next; see xrc.h. */
  struct ibv_qp* target;
  enum ibv_mtu mtu;
  uint64_t slot_bytes;
  struct vc_memory source;   /* Never changes; read by sends and writes. */
  struct vc_memory readable; /* Never changes; the peer's reads. */
  struct vc_memory writable; /* VC_WINDOW slots for the peer's writes. */
  struct vc_memory atomics;
  struct vc_memory sink;  /* VC_WINDOW slots for results of reads and atomics. */
  struct vc_memory inbox; /* Receives of two rounds. */
  struct vc_info info;
  struct vc_info peer;
};

/* Ends the program with a line that names the side. */
void vc_die(const struct vc_side* side, const char* format, ...)
    __attribute__((noreturn, format(printf, 2, 3)));

uint32_t vc_mtu_bytes(enum ibv_mtu mtu);
/* Opens, registers and makes the queue pair; fills side->info. */
void vc_side_open(struct vc_side* side, const struct vc_options* options, int index);
void vc_side_to_init(struct vc_side* side);
/* The way to side->peer. */
struct ibv_ah_attr vc_address_vector(const struct vc_side* side);
/* To RTR and RTS with side->peer. */
void vc_side_connect(struct vc_side* side);
/* Where receives are posted to. Returns 0 or an errno. */
int vc_side_post_receive(struct vc_side* side, struct ibv_recv_wr* request);
/* Leaves side->info for the peer under `name`, and takes the peer's. */
void vc_side_exchange(struct vc_side* side, const char* name);
void vc_side_close(struct vc_side* side);

#endif /* VERBS_CHECK_SIDE_H_ */
