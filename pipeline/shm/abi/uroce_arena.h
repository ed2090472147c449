/* SPDX-License-Identifier: Apache-2.0
 * What liburoce.so and uroced share: the layout of the arena, which holds doorbells and queues, and
 * the names of the devices' files.
 * Plain C, freestanding, little endian, 64 bits. A field that the other side writes can hold any
 * value at any time: a reader copies it once, checks the copy, and uses the copy.
 *
 * One process has one session with a daemon: one control socket, one arena, one set of doorbells.
 */
#ifndef UROCE_ARENA_H_
#define UROCE_ARENA_H_

#include <stdint.h>

#define UROCE_ABI_VERSION 21u
#define UROCE_DEFAULT_SOCKET "/run/uroce/uroced.sock"
#define UROCE_MAX_DEVICES 64u
#define UROCE_MAX_WORKERS 64u
#define UROCE_MAX_SGE 32u
#define UROCE_MAX_INLINE 512u
#define UROCE_MAX_GIDS 32u
#define UROCE_MAX_MR_PARTS 8192u  /* the most segments of a region */
#define UROCE_MAX_MR_SEGMENTS 64u /* the most segments in one message */
#define UROCE_NONE 0xffffffffu

/* ---- files of the devices -------------------------------------------------------------------
 * Beside its socket the daemon has a directory with files of its devices, as the kernel has them.
 * liburoce.so leads programs that name one of the kernel's directories to the daemon's, below the
 * path of the socket and UROCE_TREE_SUFFIX. */
#define UROCE_TREE_SUFFIX ".d"

/* A link for each device. */
#define UROCE_TREE_CLASS "/sys/class/infiniband"

/* Where the links lead: the devices, each below a parent with the address of a PCI device. No
 * machine has a device at such an address: the domain is one behind those of hardware and of
 * virtual machines. */
#define UROCE_TREE_BUS_NAME "pcifffe:00"
#define UROCE_TREE_BUS "/sys/devices/" UROCE_TREE_BUS_NAME

/* Nodes, which programs find and do not use. */
#define UROCE_TREE_NODES "/dev/infiniband"

/* ---- arena ----------------------------------------------------------------------------------
 * The daemon makes and seals one sparse memfd of UROCE_ARENA_BYTES. The daemon maps all of
 * it; a program under a limit of address space maps a part from the start.
 * Offsets in replies count from its start. A page takes memory once it is touched.
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

/* The doorbells of one session at one worker. The reply to CREATE_QP names the slot of a queue
 * pair; queue pairs may share a slot. How to ring:
 *   1. Set bit (slot % 64) of words[slot / 64] by an atomic OR.
 *   2. Set bit (slot / 64 % 64) of summary[slot / 4096] if it is clear.
 *   3. If `sleeping` is not 0, exchange it for 0. If the exchange returned another value than 0,
 *      write 1 to the worker's eventfd. */
struct uroce_doorbells {
  uint64_t summary[UROCE_DOORBELL_SUMMARIES];
  uint64_t pad[8 - UROCE_DOORBELL_SUMMARIES];
  struct uroce_line32 sleeping; /* The daemon sets it; both sides clear it. */
  struct uroce_line64 words[UROCE_DOORBELL_WORDS];
};

/* A thread that polls where other threads want its core may sleep until a CQE comes. `pollers` is
 * the futex of all such threads of the session; bit (handle % 32) of it stands for a CQ. How to
 * sleep:
 *   1. Set the bits of all CQs that the thread polls, by one atomic OR.
 *   2. Poll all of these CQs once more. Each is empty.
 *   3. FUTEX_WAIT_BITSET for these bits, while the word has the value that step 1 left; with a
 *   timeout, since the kernel does not end this wait when the daemon ends. A worker that has
 * published CQEs and finds the bit of their CQ clears it, and wakes the threads that wait for
 * this bit: when it has nothing else to do, and soon in any case. */
struct uroce_arena_header {
  uint32_t abi_version;
  uint32_t worker_count;
  uint32_t pad[14];
  struct uroce_line32 pollers;
};

#define UROCE_DOORBELLS_OFFSET 4096u /* uroce_doorbells[worker_count] */

/* ---- queue pair -----------------------------------------------------------------------------
 * A uroce_qp_page, the SQ slots and the RQ slots lie at the offsets that the reply to CREATE_QP
 * names. Indices are free running (they wrap at 2^32); slot = index & (depth - 1); depths are
 * powers of two. The shim reuses a slot after it has polled a CQE of the slot's work request, or of
 * a later work request of the same queue. */
struct uroce_qp_page {
  struct uroce_line32 sq_produced; /* shim */
  struct uroce_line32 rq_produced; /* shim */
  struct uroce_line32 state;       /* daemon: enum ibv_qp_state at this moment. When it is ERR, the
                                      shim rings after a post_recv, so that the RQ is flushed. */
  struct uroce_line32 worker;      /* daemon: whose doorbell to ring. It may change at any time: the
                                      shim reads it again behind the ring, and rings once more. */
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
  union {
    uint16_t num_sge;
    uint16_t inline_length; /* with flag INLINE */
  };
  uint32_t imm_or_rkey; /* imm_data as it is; invalidate_rkey; BIND_MW: the window's present key */
  uint64_t remote_addr; /* BIND_MW: an address in the region */
  uint32_t rkey;        /* BIND_MW: the window's next key */
  uint32_t xrc_srqn;    /* XRC: number of the SRQ at the target */
  union {               /* The opcode and the type of the queue pair tell which. */
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
 * A uroce_srq_page, and slots like those of an RQ. The daemon copies an entry when a message needs
 * it. So a slot is free as soon as `consumed` has passed it. */
struct uroce_srq_page {
  struct uroce_line32 produced; /* shim */
  struct uroce_line32 consumed; /* daemon: entries taken, free running */
};

/* ---- completion queue -----------------------------------------------------------------------
 * A CQ has one uroce_cq_page, and one ring for each worker whose queue pairs use the CQ. A ring is
 * a uroce_cq_ring_page and `depth` CQEs. Each ring has the depth of the CQ, so that a program that
 * keeps to the rules of verbs cannot overflow one. Replies name the rings (uroce_cq_ring), and so
 * does the page: a queue pair that moves to another worker brings a ring without a reply. The CQE
 * at index i of a ring is valid when its generation equals i / depth + 1 (both mod 2^32; the memory
 * starts as zero). The daemon writes the generation last. */
#define UROCE_CQ_DISARMED 0u
#define UROCE_CQ_ARMED_SOLICITED 1u
#define UROCE_CQ_ARMED_NEXT 2u
struct uroce_cq_page {
  struct uroce_line32 arm;   /* The shim sets it; the daemon clears it by compare and swap. */
  struct uroce_line32 error; /* daemon: not 0 after a ring of the CQ has overflowed */
  struct uroce_line32 rings; /* daemon: how many offsets below are not 0; written after them */
  struct uroce_line32 depth; /* daemon: of each ring */
  uint64_t ring_offsets[UROCE_MAX_WORKERS]; /* daemon: by worker; 0: none. uroce_cq_ring_page, */
                                            /* and uroce_cqe[depth] behind it. */
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

/* Bits of uroce_cqe.flags. */
#define UROCE_CQE_RECEIVE 1u /* the work request is of the receive queue */
#define UROCE_CQE_SHARED 2u  /* it is of a shared receive queue: wqe_index is an index there */
#define UROCE_CQE_XRC 4u     /* it is of an XRC SRQ: qp_handle is the SRQ's, qp_num a target's */
struct uroce_cqe {
  uint64_t wr_id;
  uint32_t qp_handle; /* UROCE_NONE: the queue pair was destroyed; skip the CQE. */
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
  uint8_t sl; /* UD: the value that mlx5 reports: 0xa of IPv4, 0x9 of IPv6 */
  uint8_t reserved[7];
  uint64_t time_ns; /* CLOCK_MONOTONIC at completion if the CQ has times; else 0 */
  uint32_t reserved2;
  uint32_t generation;
};

/* ---- records of events -----------------------------------------------------------------------
 * The stream sockets of completion channels and of a context's asynchronous events carry these
 * records. The daemon sends each record whole. After the reply that destroys an object it sends no
 * record of that object. */
#define UROCE_EVENT_COMPLETION 0x100u
#define UROCE_EVENT_DEVICE_SPEED_CHANGE 20u /* IBV_EVENT_DEVICE_SPEED_CHANGE of newer headers */
struct uroce_event_record {
  uint64_t element;    /* user_handle of the CQ, QP or SRQ, or the port number. */
  uint32_t event_type; /* enum ibv_event_type; on a channel UROCE_EVENT_COMPLETION */
  uint32_t reserved;
};

#endif /* UROCE_ARENA_H_ */
