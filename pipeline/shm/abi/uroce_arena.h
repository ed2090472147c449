/* SPDX-License-Identifier: Apache-2.0
 * What liburoce.so and uroced share: the layout of the arena, which holds doorbells and queues.
 * Plain C, freestanding, little endian, x86-64. Every field that the other side writes is hostile:
 * read once, check the copy, use the copy.
 *
 * One process has one session with a daemon: one control socket, one arena, one set of doorbells.
 */
#ifndef UROCE_ARENA_H_
#define UROCE_ARENA_H_

#include <stdint.h>

#define UROCE_ABI_VERSION 12u
#define UROCE_DEFAULT_SOCKET "/run/uroce/uroced.sock"
/* Behind the socket's path: a directory with the devices' files, as under /sys and /dev. */
#define UROCE_TREE_SUFFIX ".d"

#define UROCE_MAX_DEVICES 64u
#define UROCE_MAX_WORKERS 64u
#define UROCE_MAX_SGE 16u
#define UROCE_MAX_INLINE 220u
#define UROCE_MAX_GIDS 32u
#define UROCE_MAX_MR_PARTS 8192u  /* segments of a region */
#define UROCE_MAX_MR_SEGMENTS 64u /* of one message */
#define UROCE_NONE 0xffffffffu

/* ---- arena ----------------------------------------------------------------------------------
 * One sparse memfd of UROCE_ARENA_BYTES, made and sealed by the daemon, mapped whole by both sides.
 * Offsets in replies are from its start. Pages cost memory only once touched.
 */
#define UROCE_ARENA_BYTES (4ull << 30)
#define UROCE_LINE 64u

struct uroce_line64 {
  uint64_t value;
  uint64_t pad[7];
};

struct uroce_line32 {
  uint32_t value;
  uint32_t pad[15];
};

#define UROCE_DOORBELL_WORDS 256u
#define UROCE_DOORBELL_SLOTS (UROCE_DOORBELL_WORDS * 64u)
#define UROCE_DOORBELL_SUMMARIES (UROCE_DOORBELL_WORDS / 64u)

/* Doorbells of one (session, worker). A queue pair's slot is given at its creation; queue pairs
 * may share one. To ring: set bit (slot % 64) of words[slot / 64] by an atomic or, set bit
 * (slot / 64 % 64) of summary[slot / 4096] if clear, then, if sleeping is not 0, exchange it for 0;
 * who got another value than 0 writes 1 to the worker's eventfd. */
struct uroce_doorbells {
  uint64_t summary[UROCE_DOORBELL_SUMMARIES];
  uint64_t pad[8 - UROCE_DOORBELL_SUMMARIES];
  struct uroce_line32 sleeping; /* Set by the daemon; cleared by both. */
  struct uroce_line64 words[UROCE_DOORBELL_WORDS];
};

struct uroce_arena_header {
  uint32_t abi_version;
  uint32_t worker_count;
  uint32_t pad[14];
};

#define UROCE_DOORBELLS_OFFSET 4096u /* uroce_doorbells[worker_count] */

/* ---- queue pair -----------------------------------------------------------------------------
 * uroce_qp_page, then the SQ slots, then the RQ slots, at offsets given at creation. Indices are
 * free running (wrap at 2^32); slot = index & (depth - 1); depths are powers of two.
 * A slot is reused only after a CQE of its work request, or of a later one of the same queue, was
 * polled; the shim keeps that account. */
struct uroce_qp_page {
  struct uroce_line32 sq_produced; /* shim */
  struct uroce_line32 rq_produced; /* shim */
  struct uroce_line32 state;       /* daemon: enum ibv_qp_state, live. The shim rings after a
                                      post_recv when this reads ERR, so that the RQ is flushed. */
};

struct uroce_sge {
  uint64_t addr;
  uint32_t length;
  uint32_t lkey;
};

/* Send work request: 48 bytes, then num_sge uroce_sge, or inline_length bytes with flag INLINE. */
#define UROCE_SEND_FENCE 1u
#define UROCE_SEND_SIGNALED 2u
#define UROCE_SEND_SOLICITED 4u
#define UROCE_SEND_INLINE 8u
struct uroce_wqe_atomic {
  uint64_t compare_add;
  uint64_t swap;
};
struct uroce_wqe_datagram {
  uint32_t ah; /* handle of CREATE_AH */
  uint32_t remote_qpn;
  uint32_t remote_qkey;
  uint32_t reserved;
};
struct uroce_wqe_bind {
  uint64_t length;
  uint32_t lkey; /* of the region */
  uint32_t access;
};
struct uroce_send_wqe {
  uint64_t wr_id;
  uint8_t opcode; /* enum ibv_wr_opcode */
  uint8_t flags;  /* UROCE_SEND_*, the values of enum ibv_send_flags */
  uint8_t num_sge;
  uint8_t inline_length;
  uint32_t imm_or_rkey; /* imm_data bytes unchanged, invalidate_rkey, or the window's present key */
  uint64_t remote_addr; /* BIND_MW: in the region */
  uint32_t rkey;        /* BIND_MW: the window's next key */
  uint32_t xrc_srqn;    /* XRC: number of the SRQ at the target */
  union {               /* by the type of the queue pair, and the opcode */
    struct uroce_wqe_atomic atomic;
    struct uroce_wqe_bind bind;
    struct uroce_wqe_datagram datagram;
  };
};

/* Receive work request: 16 bytes, then num_sge uroce_sge. */
struct uroce_recv_wqe {
  uint64_t wr_id;
  uint32_t num_sge;
  uint32_t reserved;
};

/* ---- shared receive queue --------------------------------------------------------------------
 * uroce_srq_page and slots as those of an RQ. The daemon copies each entry out when a message needs
 * it, so a slot is free once `consumed` has passed it. */
struct uroce_srq_page {
  struct uroce_line32 produced; /* shim */
  struct uroce_line32 consumed; /* daemon: entries taken, free running */
};

/* ---- completion queue -----------------------------------------------------------------------
 * One uroce_cq_page, and for each worker with queue pairs that use the CQ a ring of its own:
 * uroce_cq_ring_page and depth CQEs, where depth is that of the CQ, so that no legal program can
 * overflow one. Replies name the rings (uroce_cq_ring). A CQE at index i of a ring is valid when
 * its generation, written last, equals i / depth + 1 (both mod 2^32; memory starts as zero). */
#define UROCE_CQ_DISARMED 0u
#define UROCE_CQ_ARMED_SOLICITED 1u
#define UROCE_CQ_ARMED_NEXT 2u
struct uroce_cq_page {
  struct uroce_line32 arm;   /* shim sets, the daemon clears by compare and swap */
  struct uroce_line32 error; /* daemon: not 0 once a ring of the CQ overflowed */
};
struct uroce_cq_ring_page {
  struct uroce_line32 consumed; /* shim: CQEs polled, free running */
};
struct uroce_cq_ring {
  uint32_t worker;
  uint32_t depth;       /* a power of two */
  uint64_t page_offset; /* uroce_cq_ring_page */
  uint64_t cqe_offset;  /* uroce_cqe[depth] */
};

#define UROCE_CQE_RECEIVE 1u /* flags: of the receive queue */
#define UROCE_CQE_SHARED 2u  /* of a shared receive queue: wqe_index is an index there */
#define UROCE_CQE_XRC 4u     /* of an XRC one: qp_handle is its handle, qp_num a target's */
struct uroce_cqe {
  uint64_t wr_id;
  uint32_t qp_handle; /* UROCE_NONE: its queue pair is gone, skip. */
  uint32_t qp_num;
  uint32_t wqe_index; /* Free-running index of the work request in its queue. */
  uint32_t byte_len;
  uint32_t imm_or_rkey;
  uint32_t src_qp;  /* UD */
  uint8_t status;   /* enum ibv_wc_status */
  uint8_t opcode;   /* enum ibv_wc_opcode */
  uint8_t wc_flags; /* enum ibv_wc_flags */
  uint8_t flags;    /* UROCE_CQE_* */
  uint32_t vendor_err;
  uint8_t sl; /* UD: 0xa of IPv4, 0x9 of IPv6, as mlx5 has it */
  uint8_t reserved[7];
  uint64_t time_ns; /* CLOCK_MONOTONIC when it was made, in a CQ that has times; else 0 */
  uint32_t reserved2;
  uint32_t generation;
};

/* ---- records of events -----------------------------------------------------------------------
 * What the stream sockets of completion channels and of a context's asynchronous events carry. The
 * daemon sends each whole, and none of an object that it has said is gone. */
#define UROCE_EVENT_COMPLETION 0x100u
struct uroce_event_record {
  uint64_t element;    /* user_handle of the CQ, QP or SRQ, or the port number. */
  uint32_t event_type; /* enum ibv_event_type; on a channel UROCE_EVENT_COMPLETION */
  uint32_t reserved;
};

#endif /* UROCE_ARENA_H_ */
