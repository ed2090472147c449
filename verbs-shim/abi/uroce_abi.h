/* SPDX-License-Identifier: Apache-2.0
 * What liburoce.so and uroced share: the layout of the arena (doorbells, queues) and the commands
 * on the control socket. Plain C, freestanding, little endian, x86-64. Every field that the other
 * side writes is hostile: read once, check the copy, use the copy.
 *
 * One process has one session with a daemon: one control socket, one arena, one set of doorbells.
 */
#ifndef UROCE_ABI_H_
#define UROCE_ABI_H_

#include <stdint.h>

#define UROCE_ABI_VERSION 8u
#define UROCE_DEFAULT_SOCKET "/run/uroce/uroced.sock"
/* Behind the socket's path: a directory with the devices' files, as under /sys and /dev. */
#define UROCE_TREE_SUFFIX ".d"

#define UROCE_MAX_DEVICES 64u
#define UROCE_MAX_WORKERS 64u
#define UROCE_MAX_SGE 16u
#define UROCE_MAX_INLINE 220u
#define UROCE_MAX_GIDS 32u
#define UROCE_MAX_MR_SEGMENTS 64u
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

/* ---- records on pipes ------------------------------------------------------------------------
 * A completion channel's pipe carries the user_handle of the CQ (8 bytes); a context's pipe of
 * asynchronous events carries uroce_async_record. */
struct uroce_async_record {
  uint64_t element;    /* user_handle of the CQ, QP or SRQ, or the port number. */
  uint32_t event_type; /* enum ibv_event_type */
  uint32_t reserved;
};

/* ---- commands ---------------------------------------------------------------------------------
 * Control socket: AF_UNIX, SOCK_SEQPACKET. A request is uroce_request followed by the command's
 * own structure, in one datagram; the reply is uroce_reply followed by its own, in one datagram,
 * with the fds that the comment names as SCM_RIGHTS. One request is under way at a time.
 * The first request is UROCE_HELLO, or UROCE_DUMP / UROCE_CAPTURE / UROCE_FLIGHT from a tool.
 */
enum uroce_command {
  UROCE_HELLO = 1,
  UROCE_LIST_DEVICES,
  UROCE_OPEN_CONTEXT,
  UROCE_CLOSE_CONTEXT,
  UROCE_IMPORT_CONTEXT,
  UROCE_QUERY_PORT,
  UROCE_QUERY_GIDS,
  UROCE_ALLOC_PD,
  UROCE_DEALLOC_PD,
  UROCE_IMPORT_PD,
  UROCE_CREATE_SEGMENT,
  UROCE_DESTROY_SEGMENT,
  UROCE_REG_MR,
  UROCE_DEREG_MR,
  UROCE_IMPORT_MR,
  UROCE_ALLOC_MW,
  UROCE_DEALLOC_MW,
  UROCE_CREATE_CHANNEL,
  UROCE_DESTROY_CHANNEL,
  UROCE_CREATE_CQ,
  UROCE_RESIZE_CQ,
  UROCE_DESTROY_CQ,
  UROCE_CREATE_QP,
  UROCE_MODIFY_QP,
  UROCE_QUERY_QP,
  UROCE_DESTROY_QP,
  UROCE_ATTACH_MCAST,
  UROCE_DETACH_MCAST,
  UROCE_CREATE_AH,
  UROCE_DESTROY_AH,
  UROCE_CREATE_SRQ,
  UROCE_MODIFY_SRQ,
  UROCE_QUERY_SRQ,
  UROCE_DESTROY_SRQ,
  UROCE_OPEN_XRCD,
  UROCE_CLOSE_XRCD,
  UROCE_CREATE_TARGET,
  UROCE_OPEN_TARGET,
  UROCE_DUMP = 100,
  UROCE_CAPTURE = 101,
  UROCE_FLIGHT = 102,
};

struct uroce_request {
  uint32_t command; /* enum uroce_command */
  uint32_t size;    /* of the whole datagram */
};

struct uroce_reply {
  int32_t error;  /* 0, or a positive errno; then nothing follows */
  uint32_t size;  /* of the whole datagram */
  char text[120]; /* Why, for UROCE_LOG; "" when error is 0. */
};

/* HELLO. fds: arena, eventfd of each worker (worker_count), socket for uroce_lend below, and,
 * when has_userfaultfd, /dev/userfaultfd. */
struct uroce_hello {
  uint32_t abi_version;
  uint32_t reserved;
};
struct uroce_hello_reply {
  uint32_t abi_version;
  uint32_t worker_count;
  uint32_t device_count;
  uint32_t has_userfaultfd;
};

/* On the second socket, also SOCK_SEQPACKET: what the program lends the daemon of its memory. One
 * request with at most one fd, one reply; one request is under way at a time. */
enum uroce_lend_what {
  UROCE_LEND_MEMORY = 1, /* The program's own /proc/self/mem, open for reading and writing: needed
                            before the first REG_MR with a copied segment. */
  UROCE_LEND_FILE,       /* A file on tmpfs or hugetlbfs that the program has mapped shared. Without
                            an fd the daemon looks for it behind the mapping [vma_start, vma_end) of
                            the process that connected, with the rights of its user. */
  UROCE_LEND_XRC_FILE,   /* A file by which programs share an XRC domain, for one OPEN_XRCD. */
};
struct uroce_lend {
  uint32_t what;     /* enum uroce_lend_what */
  uint32_t writable; /* LEND_FILE: not 0 to write to it too */
  uint64_t vma_start;
  uint64_t vma_end;
  uint64_t offset; /* LEND_FILE: the bytes of the file to map */
  uint64_t length;
};
struct uroce_lend_reply {
  int32_t error;
  uint32_t segment; /* LEND_FILE: for uroce_mr_segment and DESTROY_SEGMENT. LEND_XRC_FILE: for
                       uroce_open_xrcd */
  uint64_t offset;  /* LEND_FILE: what the daemon maps, rounded out to pages of the file system */
  uint64_t length;
};

struct uroce_device_info {
  char name[64];
  uint64_t node_guid; /* big endian, as ibv_get_device_guid returns it */
  uint64_t max_mr_size;
  uint32_t max_qp;
  uint32_t max_qp_wr;
  uint32_t max_sge;
  uint32_t max_inline;
  uint32_t max_cq;
  uint32_t max_cqe;
  uint32_t max_mr;
  uint32_t max_pd;
  uint32_t max_ah;
  uint32_t max_srq;
  uint32_t max_mw;
  uint32_t max_mcast_groups;
  uint32_t max_mcast_members; /* queue pairs in a group */
  uint32_t max_qp_rd_atom;
  uint32_t max_msg_size;
  uint32_t gid_table_length;
  uint32_t local_ca_ack_delay;
  char firmware[32]; /* version of the daemon */
};

/* LIST_DEVICES: reply is uroce_device_info[device_count]. */

/* OPEN_CONTEXT. fds: read end of the pipe of asynchronous events; a sealed memfd that holds
 * uroce_context_name. Whoever has that one may import the context: it is ibv_context.cmd_fd. */
struct uroce_open_context {
  uint32_t device_index;
  uint32_t reserved;
};
/* Reply of every command that makes an object without more to say. */
struct uroce_handle {
  uint32_t handle;
  uint32_t reserved;
};
#define UROCE_CONTEXT_NAME_MAGIC 0x747865742d6f7275ull
struct uroce_context_name {
  uint64_t magic;
  uint64_t secret[2]; /* 128 random bits */
};
/* IMPORT_CONTEXT: request uroce_context_name; a context of the same device whose protection domains
 * and regions may be imported. fds: read end of its own pipe of asynchronous events. */
struct uroce_import_context_reply {
  uint32_t handle;
  uint32_t device_index;
};
/* IMPORT_PD: `owner` is a context that was imported; reply uroce_handle, a protection domain that
 * shares keys with the imported one. IMPORT_MR: `owner` is such a protection domain. Regions that
 * are copied cannot be shared between programs: EOPNOTSUPP. */
struct uroce_import {
  uint32_t owner;
  uint32_t handle; /* in the program that made it */
};
struct uroce_import_mr_reply {
  uint64_t length;
  uint32_t lkey;
  uint32_t rkey;
};
/* CLOSE_CONTEXT, DEALLOC_PD, DESTROY_SEGMENT, DEREG_MR, DEALLOC_MW, DESTROY_CHANNEL, DESTROY_AH,
 * QUERY_PORT (a context), QUERY_GIDS (a context), ALLOC_PD (a context): request is uroce_handle. */

struct uroce_port_info {
  uint32_t state;      /* enum ibv_port_state */
  uint32_t phys_state; /* 5 LinkUp, 3 Disabled */
  uint32_t max_mtu;    /* enum ibv_mtu */
  uint32_t active_mtu;
  uint32_t active_width;
  uint32_t active_speed;
  uint32_t gid_table_length;
  uint32_t bad_pkey_counter;
};

struct uroce_gid_entry {
  uint8_t gid[16];
  uint32_t index;
  uint32_t valid;
  uint32_t type; /* enum ibv_gid_type */
  uint32_t ifindex;
};
/* QUERY_GIDS: reply is uroce_gid_entry[gid_table_length], empty slots with valid 0. */

/* CREATE_SEGMENT: memory to swap a page range for. fds: the sealed memfd, of which bytes
 * [0, length) are the segment's; its size is larger, so that mremap may grow the range. The shim
 * knows its segments in /proc/self/maps by the memfd's name. */
#define UROCE_SEGMENT_NAME "uroce-segment"
struct uroce_create_segment {
  uint64_t addr; /* where the shim will map it, page aligned */
  uint64_t length;
};

/* REG_MR: the region [va, va + length) as a list of segments in rising addresses without gaps. */
enum uroce_mr_mode { UROCE_MR_MAPPED = 1, UROCE_MR_COPIED = 2, UROCE_MR_SHARED = 3 };
/* Why a segment is copied, for people. */
enum uroce_mr_reason {
  UROCE_WHY_NONE = 0,       /* it is not */
  UROCE_WHY_STACK,          /* a stack or thread-local storage */
  UROCE_WHY_HEAP_PAGE,      /* a page covered in part, in the brk heap or in an arena of malloc's */
  UROCE_WHY_PARTIAL_PAGE,   /* a page covered in part, and the kernel may write to the rest */
  UROCE_WHY_FILE_MAPPING,   /* a private mapping of a file, hugetlb's too */
  UROCE_WHY_READ_ONLY,      /* private memory that is not writable */
  UROCE_WHY_FILE_SYSTEM,    /* a shared file, not on tmpfs or hugetlbfs */
  UROCE_WHY_NOT_REACHABLE,  /* a shared file that neither side may open */
  UROCE_WHY_NO_USERFAULTFD, /* the kernel gives the program none */
  UROCE_WHY_REFUSED,        /* the kernel would not protect or replace the pages */
  UROCE_WHY_MANY_MAPPINGS,  /* the program is close to vm.max_map_count */
  UROCE_WHY_DAEMON_LIMIT,   /* the daemon had no segment to give */
  UROCE_WHY_MANY_PARTS,     /* more parts than a region may have */
  UROCE_WHY_UNKNOWN_THREADS, /* where the stacks lie is not known */
  UROCE_WHY_POLICY,          /* UROCE_MR=copied */
  UROCE_WHY_ON_DEMAND,       /* registered with ON_DEMAND: it is what lies there at the moment */
};
struct uroce_mr_segment {
  uint64_t addr;           /* in the application */
  uint64_t length;         /* bytes of the MR in this segment */
  uint32_t mode;           /* enum uroce_mr_mode */
  uint32_t segment;        /* mapped, shared: handle of CREATE_SEGMENT or uroce_lend; else
                              UROCE_NONE */
  uint64_t segment_offset; /* mapped, shared: where addr lies in the segment */
  uint32_t reason;         /* enum uroce_mr_reason */
  uint32_t reserved;
};
struct uroce_reg_mr {
  uint32_t pd;
  uint32_t access; /* enum ibv_access_flags */
  uint64_t addr;
  uint64_t length;
  uint64_t iova; /* what SGEs and peers call addr; 0 with ZERO_BASED */
  uint32_t segment_count;
  uint32_t replaces; /* UROCE_NONE, or the handle of a region that becomes this one: handle and
                        key stay, and no access to the former memory is under way afterwards */
  /* uroce_mr_segment[segment_count] */
};
struct uroce_reg_mr_reply {
  uint32_t handle;
  uint32_t lkey;
  uint32_t rkey;
  uint32_t reserved;
};

/* ALLOC_MW: a memory window, bound by works of queue pairs. */
struct uroce_alloc_mw {
  uint32_t pd;
  uint32_t type; /* enum ibv_mw_type */
};
struct uroce_alloc_mw_reply {
  uint32_t handle;
  uint32_t rkey; /* its first; a program may change the low byte */
};

/* CREATE_CHANNEL (request: a context). fds: read end of the pipe. Reply: uroce_handle. */

struct uroce_create_cq {
  uint32_t context;
  uint32_t cqe;
  uint64_t user_handle; /* struct ibv_cq * */
  uint32_t channel;     /* UROCE_NONE: no channel */
  uint32_t comp_vector;
  uint32_t has_times; /* not 0: completions say when they were made */
  uint32_t reserved;
};
struct uroce_create_cq_reply {
  uint32_t handle;
  uint32_t cqe;         /* granted: at least what was asked for */
  uint64_t page_offset; /* uroce_cq_page */
};
/* RESIZE_CQ: while nobody polls, and no queue pair that uses the CQ comes or goes. What waits in
 * the rings is moved to new ones, where it comes first and consumed is 0. EINVAL, and nothing has
 * changed, when more waits than `cqe`. */
struct uroce_resize_cq {
  uint32_t handle;
  uint32_t cqe;
};
struct uroce_resize_cq_reply {
  uint32_t cqe;        /* granted */
  uint32_t ring_count; /* as many as before; uroce_cq_ring[ring_count] follow */
};
/* DESTROY_CQ: request uroce_handle. Unread records of the CQ are taken off its pipes first. */
struct uroce_destroy_cq_reply {
  uint32_t comp_events_reported;
  uint32_t async_events_reported;
};

struct uroce_qp_cap {
  uint32_t max_send_wr;
  uint32_t max_recv_wr;
  uint32_t max_send_sge;
  uint32_t max_recv_sge;
  uint32_t max_inline_data;
};

struct uroce_create_qp {
  uint32_t pd;
  uint32_t qp_type; /* enum ibv_qp_type: RC (2), UC (3), UD (4) or XRC_SEND (9) */
  uint32_t send_cq;
  uint32_t recv_cq; /* XRC_SEND: not looked at, nor are with_srq and what caps say of receives */
  uint64_t user_handle; /* struct ibv_qp * */
  uint32_t sq_sig_all;
  struct uroce_qp_cap cap; /* with an SRQ the receive queue's are not looked at, and granted as 0 */
  uint32_t with_srq;       /* not 0: `srq` is the handle of one */
  uint32_t srq;
};
struct uroce_create_qp_reply {
  uint32_t handle;
  uint32_t qp_num;
  struct uroce_qp_cap cap; /* as granted */
  uint32_t worker;
  uint32_t doorbell_slot;
  uint32_t sq_depth; /* powers of two */
  uint32_t rq_depth;
  uint32_t sq_slot_bytes;
  uint32_t rq_slot_bytes;
  uint32_t reserved;
  uint64_t page_offset;
  uint64_t sq_offset;
  uint64_t rq_offset;
  struct uroce_cq_ring send_ring; /* of the CQs on `worker`; the shim may know them already */
  struct uroce_cq_ring receive_ring;
};

struct uroce_ah_attr {
  uint8_t dgid[16];
  uint32_t flow_label;
  uint8_t sgid_index;
  uint8_t hop_limit;
  uint8_t traffic_class;
  uint8_t is_global;
  uint8_t sl;
  uint8_t port_num;
  uint8_t reserved[2];
};

/* Fields of struct ibv_qp_attr in fixed widths; attr_mask has the IBV_QP_* bits. */
struct uroce_qp_attr {
  uint32_t attr_mask;
  uint32_t qp_state;
  uint32_t cur_qp_state;
  uint32_t path_mtu; /* enum ibv_mtu */
  uint32_t qkey;
  uint32_t rq_psn;
  uint32_t sq_psn;
  uint32_t dest_qp_num;
  uint32_t qp_access_flags;
  struct uroce_qp_cap cap;
  struct uroce_ah_attr ah_attr;
  uint16_t pkey_index;
  uint8_t en_sqd_async_notify;
  uint8_t sq_draining;
  uint8_t max_rd_atomic;
  uint8_t max_dest_rd_atomic;
  uint8_t min_rnr_timer;
  uint8_t port_num;
  uint8_t timeout;
  uint8_t retry_cnt;
  uint8_t rnr_retry;
  uint8_t path_mig_state;
  uint32_t rate_limit;
};
struct uroce_modify_qp {
  uint32_t handle;
  struct uroce_qp_attr attr;
};
struct uroce_modify_qp_reply {
  uint32_t qp_state;
  uint32_t reserved;
};
/* QUERY_QP: request uroce_handle, reply uroce_qp_attr. Handles of targets will do. */
/* DESTROY_QP: request uroce_handle. After the reply no CQE of the QP appears. */
struct uroce_destroy_qp_reply {
  uint32_t async_events_reported;
  uint32_t reserved;
};

/* ATTACH_MCAST, DETACH_MCAST: a UD queue pair gets what is sent to the group, or no more. */
struct uroce_mcast {
  uint32_t qp;
  uint32_t reserved;
  uint8_t gid[16];
};

/* CREATE_AH: reply is uroce_handle, which names the path in requests of UD queue pairs. The answer
 * waits for the network to tell the next hop. */
struct uroce_create_ah {
  uint32_t pd;
  struct uroce_ah_attr attr;
};

/* Where a shared receive queue lies. */
struct uroce_srq_layout {
  uint32_t max_wr; /* granted */
  uint32_t max_sge;
  uint32_t depth; /* a power of two */
  uint32_t slot_bytes;
  uint64_t page_offset;
  uint64_t slots_offset;
};
struct uroce_create_srq {
  uint32_t pd;
  uint32_t max_wr;
  uint32_t max_sge;
  uint32_t srq_limit;
  uint64_t user_handle; /* struct ibv_srq * */
  uint32_t srq_type;    /* enum ibv_srq_type: BASIC (0) or XRC (1) */
  uint32_t xrcd;        /* XRC: handles */
  uint32_t cq;
  uint32_t reserved;
};
struct uroce_create_srq_reply {
  uint32_t handle;
  uint32_t srqn; /* XRC: by which requests name it; else 0 */
  struct uroce_srq_layout layout;
  struct uroce_cq_ring ring; /* XRC: of the CQ, where it completes; the shim may know it already */
};
/* MODIFY_SRQ: reply is uroce_srq_layout, of use when the mask has IBV_SRQ_MAX_WR: what waits has
 * moved to another ring, where it comes first. Nobody posts meanwhile. */
struct uroce_modify_srq {
  uint32_t handle;
  uint32_t mask; /* enum ibv_srq_attr_mask */
  uint32_t max_wr;
  uint32_t srq_limit;
};
/* QUERY_SRQ, DESTROY_SRQ: request uroce_handle. */
struct uroce_query_srq_reply {
  uint32_t max_wr;
  uint32_t max_sge;
  uint32_t srq_limit; /* 0: not armed */
  uint32_t reserved;
};
struct uroce_destroy_srq_reply {
  uint32_t async_events_reported;
  uint32_t reserved;
};

/* OPEN_XRCD: reply is uroce_handle. Who names a file has the domain that others have of it. */
struct uroce_open_xrcd {
  uint32_t context;
  uint32_t file; /* of LEND_XRC_FILE, and used up; UROCE_NONE: a domain of the program's own */
  uint32_t
      oflags; /* O_CREAT, or EAGAIN where there is no domain yet; O_EXCL: EINVAL where is one */
  uint32_t reserved;
};
/* CLOSE_XRCD: request is uroce_handle. */
/* CREATE_TARGET: an XRC_RECV queue pair, opened by this program. OPEN_TARGET: the domain's with
 * this number, opened by this program too. Each opener has a handle of its own for MODIFY_QP,
 * QUERY_QP and DESTROY_QP; the queue pair is there as long as it is open. */
struct uroce_create_target {
  uint32_t xrcd;
  uint32_t reserved;
  uint64_t user_handle; /* struct ibv_qp * */
};
struct uroce_open_target {
  uint32_t xrcd;
  uint32_t qp_num;
  uint64_t user_handle;
};
struct uroce_target_reply {
  uint32_t handle;
  uint32_t qp_num;
  uint32_t qp_state; /* enum ibv_qp_state */
  uint32_t reserved;
};

/* DUMP, from a tool: fds of the reply: a sealed memfd that holds JSON. */
enum uroce_dump_what {
  UROCE_DUMP_DEVICES = 1,
  UROCE_DUMP_STAT,
  UROCE_DUMP_QP,
  UROCE_DUMP_MR,
  UROCE_DUMP_CM,
  UROCE_DUMP_SRQ,
};
struct uroce_dump {
  uint32_t what;
  uint32_t reserved;
};
struct uroce_dump_reply {
  uint64_t length;
};

/* FLIGHT, from a tool: the newest packets of a queue pair, as a pcapng file in a sealed memfd.
 * Reply and fds as for DUMP. Of other users only for root and the daemon's user. */
struct uroce_flight {
  uint32_t qpn;
  uint32_t reserved;
};

/* CAPTURE, from a tool of root's or of the daemon's user: fds of the reply: a memfd, mapped whole,
 * of ring_count equal parts, one for each worker: a uroce_capture_page, and ring_bytes of records
 * at ring_offset of the part. In each the records are in order of time. The tool ends it by
 * shutting its side of the socket down; when the daemon has closed its own, no record and no loss
 * comes any more, and what is in the ring may still be read. */
#define UROCE_CAPTURE_DROPPED 1u       /* bits of `only` */
#define UROCE_CAPTURE_RETRANSMITTED 2u /* requests sent again, and responses given again */
#define UROCE_CAPTURE_MARKED 4u        /* arrived with congestion experienced */
struct uroce_capture {
  char device[64]; /* "" for all */
  uint32_t snap_length;
  uint32_t only;       /* UROCE_CAPTURE_*: frames of these kinds alone; 0 for all frames */
  uint64_t ring_bytes; /* of all rings, wanted; a power of two */
};
struct uroce_capture_reply {
  uint64_t map_bytes;
  uint64_t ring_offset;
  uint64_t ring_bytes;      /* of each ring, granted, a power of two */
  uint32_t interface_count; /* uroce_capture_interface[interface_count] follow */
  uint32_t ring_count;
};
struct uroce_capture_interface {
  char name[64];
  uint8_t mac[6];
  uint16_t reserved;
  uint32_t mtu;
};
/* Frames that found no room. */
struct uroce_capture_lost {
  uint64_t inbound;
  uint64_t outbound;
};
struct uroce_capture_page {
  struct uroce_line64 produced;                      /* daemon: bytes, free running */
  struct uroce_line64 consumed;                      /* tool: bytes, free running */
  struct uroce_line64 reached;                       /* daemon: records from before are published;
                                                      * ns since 1970, still while it sleeps */
  struct uroce_capture_lost lost[UROCE_MAX_DEVICES]; /* daemon */
};

/* What the device made of a frame, in codes and numbers; pipeline/capture has their texts. */
enum uroce_capture_reason {
  UROCE_REASON_NONE = 0, /* taken, or sent for the first time */
  /* Received and dropped before the transport, as the counters of the device have it. */
  UROCE_REASON_NOT_ROCE,   /* detail: wire::DecodeResult; 0: of another MAC */
  UROCE_REASON_MALFORMED,  /* detail: wire::DecodeResult; 0: a response that cannot be right */
  UROCE_REASON_BAD_OPCODE, /* unknown, or not of the queue pair's service */
  UROCE_REASON_BAD_ICRC,
  UROCE_REASON_BAD_PKEY,
  UROCE_REASON_UNKNOWN_QPN,
  UROCE_REASON_BAD_ADDRESS, /* not from the peer of the queue pair; UD: not to this device */
  UROCE_REASON_BAD_STATE,   /* detail: enum ibv_qp_state */
  UROCE_REASON_CNP_IGNORED,
  UROCE_REASON_PARKED_FULL,   /* no room behind a queue pair that waits for the program's memory */
  UROCE_REASON_ABANDONED,     /* the queue pair was reset or destroyed while the frame waited */
  UROCE_REASON_HANDOVER_FULL, /* no room on the way to the worker of the queue pair */
  /* Received, and not executed by the transport. */
  UROCE_REASON_GHOST,           /* a response that nothing waits for */
  UROCE_REASON_RESPONSE_GAP,    /* of a READ: a response before it was lost */
  UROCE_REASON_DUPLICATE,       /* detail: 1 answered again */
  UROCE_REASON_OUT_OF_SEQUENCE, /* expected_psn; detail: 1 NAK sent, 0 it was sent before */
  UROCE_REASON_NOT_READY,       /* no receive is posted: RNR NAK; number: its timer code */
  UROCE_REASON_REFUSED,         /* number: syndrome of the NAK; detail: enum uroce_refusal */
  /* The same for UC and UD, where nothing is answered. */
  UROCE_REASON_MESSAGE_CUT,     /* a packet before it was lost, and with it the message */
  UROCE_REASON_NO_RECEIVE,      /* no receive is posted */
  UROCE_REASON_TOO_LONG,        /* longer than the receive */
  UROCE_REASON_MESSAGE_REFUSED, /* a length, a right or a key is wrong */
  UROCE_REASON_BAD_QKEY,
  UROCE_REASON_BAD_RECEIVE, /* the receive is malformed: the queue pair is in error */
  /* Sent. */
  UROCE_REASON_RETRANSMITTED,  /* detail: enum uroce_resend_cause; number of limit */
  UROCE_REASON_ANSWERED_AGAIN, /* a response given again, to a duplicate request */
  UROCE_REASON_NAK,            /* a NAK of any kind; number: its syndrome */
};
/* Why a responder refuses a request for good; the order is that of transport::Refusal. */
enum uroce_refusal {
  UROCE_REFUSAL_NONE = 0,
  UROCE_REFUSAL_ORDER,          /* the opcode does not continue the message */
  UROCE_REFUSAL_PAYLOAD_LENGTH, /* not what the path MTU or the message leaves */
  UROCE_REFUSAL_MESSAGE_LENGTH, /* over 2^31 bytes */
  UROCE_REFUSAL_RIGHT,          /* the queue pair does not allow this operation */
  UROCE_REFUSAL_RESOURCES,      /* more READs and atomics than max_dest_rd_atomic */
  UROCE_REFUSAL_RECEIVE_LENGTH, /* the message is longer than its receive */
  UROCE_REFUSAL_RECEIVE_ENTRY,  /* the posted receive is malformed */
  UROCE_REFUSAL_ALIGNMENT,      /* atomic on an address that is no multiple of 8 */
  UROCE_REFUSAL_REMOTE_KEY,     /* the key does not grant this range */
  UROCE_REFUSAL_LOCAL_KEY,      /* the receive's own key does not grant its range */
  UROCE_REFUSAL_INVALIDATE,     /* the key to invalidate may not be */
};
/* Why a requester sends again; the order is that of transport::ResendCause. */
enum uroce_resend_cause {
  UROCE_RESEND_NONE = 0,
  UROCE_RESEND_ACK_TIMEOUT,
  UROCE_RESEND_SEQUENCE_NAK,
  UROCE_RESEND_RNR_NAK,     /* its timer has run out */
  UROCE_RESEND_IMPLIED_NAK, /* the response to a READ or atomic was passed over */
};
#define UROCE_NOTE_MARKED 1u /* flags: congestion experienced */
#define UROCE_NOTE_FAILED 2u /* flags: the queue pair went to error by this packet */
#define UROCE_NO_LIMIT 255u  /* limit: sent again for ever */
struct uroce_capture_note {
  uint8_t reason; /* enum uroce_capture_reason */
  uint8_t detail;
  uint8_t number;
  uint8_t limit;
  uint8_t flags;  /* UROCE_NOTE_* */
  uint8_t status; /* FAILED: enum ibv_wc_status of the work that failed; 0: of none */
  uint16_t reserved;
  uint32_t qpn; /* of this end; 0: of no queue pair */
  uint32_t psn; /* of the packet */
  uint32_t expected_psn;
  uint32_t reserved2;
};

/* A record starts at a multiple of 64 and is contiguous: one with length UROCE_NONE fills the rest
 * of the ring up to its end. captured_length bytes of frame follow; size counts all of it and is a
 * multiple of 64, so that a record shares no cache line with another. */
#define UROCE_CAPTURE_ALIGNMENT 64u
#define UROCE_CAPTURE_INBOUND 1u
#define UROCE_CAPTURE_OUTBOUND 2u
struct uroce_capture_record {
  uint32_t size;            /* of the record, header and pad included */
  uint32_t captured_length; /* UROCE_NONE: filler */
  uint32_t wire_length;
  uint16_t interface_index;
  uint16_t direction;
  uint64_t time_ns; /* since 1970 */
  struct uroce_capture_note note;
  uint64_t reserved[2];
};

#endif /* UROCE_ABI_H_ */
