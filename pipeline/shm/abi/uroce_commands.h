/* SPDX-License-Identifier: Apache-2.0
 * The commands on the control socket of uroced. Plain C, covered by UROCE_ABI_VERSION.
 */
#ifndef UROCE_COMMANDS_H_
#define UROCE_COMMANDS_H_

#include <stdint.h>

#include "pipeline/shm/abi/uroce_arena.h"

/* ---- commands ---------------------------------------------------------------------------------
 * Control socket: AF_UNIX, SOCK_SEQPACKET. A request is one datagram: a uroce_request, then the
 * structure of the command. The reply is one datagram: a uroce_reply, then the structure of the
 * command's reply, and the fds that the command's comment names (SCM_RIGHTS). A program sends its
 * next request after the reply to the one before.
 * The first request is UROCE_HELLO, or UROCE_DUMP / UROCE_CAPTURE / UROCE_HISTORY / UROCE_CHANGE
 * from a tool.
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
  UROCE_MODIFY_CQ,
  UROCE_ADD_MR_SEGMENTS,
  UROCE_TRIM_SEGMENT,
  UROCE_CREATE_STAGE,
  UROCE_CREATE_COPIES,
  UROCE_PLACE_QP,
  UROCE_DUMP = 100,
  UROCE_CAPTURE = 101,
  UROCE_HISTORY = 102,
  UROCE_CHANGE = 103,
};

struct uroce_request {
  uint32_t command; /* enum uroce_command */
  uint32_t size;    /* of the whole datagram */
};

struct uroce_reply {
  int32_t error;  /* 0, or a positive errno; then nothing follows */
  uint32_t size;  /* of the whole datagram */
  char text[120]; /* The reason of the error, for UROCE_LOG. */
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

/* On the second socket, also SOCK_SEQPACKET: the program lends parts of its memory to the daemon.
 * A request has at most one fd. A program sends its next request after the reply to the one
 * before. */
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
  uint32_t writable; /* LEND_FILE: not 0: the daemon may write to it too */
  uint64_t vma_start;
  uint64_t vma_end;
  uint64_t offset; /* LEND_FILE: the range of the file to map */
  uint64_t length;
};
/* The error of a file whose pages a process could free, which the daemon does not map for a program
 * of this user. EBUSY: helpers make all accesses to memory of this user meanwhile. */
#define UROCE_LEND_FREEABLE ESTALE
struct uroce_lend_reply {
  int32_t error;
  uint32_t segment; /* LEND_FILE: for uroce_mr_segment and DESTROY_SEGMENT. LEND_XRC_FILE: for
                       uroce_open_xrcd */
  uint64_t offset;  /* LEND_FILE: the range that the daemon maps, in whole pages of the file */
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
  uint32_t index; /* of this device for OPEN_CONTEXT; a device that comes later gets another one */
  char firmware[32]; /* version of the daemon */
};

/* LIST_DEVICES: reply is uroce_device_info[], one for each device that is there now. A device may
 * be removed: programs that have it open get IBV_EVENT_DEVICE_FATAL, its queue pairs go to ERR, and
 * commands fail by ENODEV but for those that end objects. */

/* OPEN_CONTEXT. fds: the socket of asynchronous events; a sealed memfd that holds a
 * uroce_context_name. A program that has the memfd may import the context. The memfd is
 * ibv_context.cmd_fd. */
struct uroce_open_context {
  uint32_t device_index;
  uint32_t reserved;
};
/* Reply of each command that makes an object and tells only its handle. */
struct uroce_handle {
  uint32_t handle;
  uint32_t reserved;
};
#define UROCE_CONTEXT_NAME_MAGIC 0x747865742d6f7275ull
struct uroce_context_name {
  uint64_t magic;
  uint64_t secret[2]; /* 128 random bits */
};
/* IMPORT_CONTEXT: request uroce_context_name. Makes a context of the same device, by which the
 * named context's protection domains and regions can be imported. fds: the new context's socket of
 * asynchronous events. */
struct uroce_import_context_reply {
  uint32_t handle;
  uint32_t device_index;
};
/* IMPORT_PD: `owner` is an imported context. Reply: uroce_handle of a protection domain that shares
 * keys with the imported one. IMPORT_MR: `owner` is an imported protection domain. A region with
 * copied segments cannot be imported: EOPNOTSUPP. */
struct uroce_import {
  uint32_t owner;
  uint32_t handle; /* in the program that made the object */
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
  uint64_t speed_bps; /* what the port sends at most: the link's speed, or the NIC's rate limit */
};

struct uroce_gid_entry {
  uint8_t gid[16];
  uint32_t index;
  uint32_t valid;
  uint32_t type; /* enum ibv_gid_type */
  uint32_t ifindex;
};
/* QUERY_GIDS: reply is uroce_gid_entry[gid_table_length], empty slots with valid 0. */

/* CREATE_SEGMENT: memory that replaces a range of the program's pages. fds: a sealed memfd; its
 * bytes [0, length) are the segment's. The memfd is larger, so that mremap may grow the range. If
 * the daemon may make it immutable, no program can free pages of it: the kernel frees them all with
 * the file. The shim finds its segments in /proc/self/maps by the memfd's name. */
#define UROCE_SEGMENT_NAME "uroce-segment"
struct uroce_create_segment {
  uint64_t addr; /* where the shim will map it, page aligned */
  uint64_t length;
};

/* TRIM_SEGMENT: no region uses these pages of a segment any more, and the program is about to map
 * other memory in their place. No region reaches memory by them afterwards. The rest of the segment
 * stays. */
struct uroce_trim_segment {
  uint32_t segment;
  uint32_t reserved;
  uint64_t offset; /* a multiple of the page size, like length */
  uint64_t length;
};

/* CREATE_STAGE: the program's stage (uroce_stage.h), needed before the first REG_MR with a staged
 * segment. A program has one: a second command gives another fd of it. No body, and no reply but
 * the fd: a sealed memfd that holds a uroce_stage, and behind it lanes of the first workers
 * (uroce_copies.h): as many as the file has room for. Needs UROCE_LEND_MEMORY first. */

/* CREATE_COPIES: the program's copy lanes (uroce_copies.h). A program has one file of them: a
 * second command gives another fd of it. No body, and no reply but the fd: a sealed memfd that
 * holds a uroce_copies, and behind it lanes of the first workers: as many as the file has room for.
 * The daemon uses them from the reply on. Needs UROCE_LEND_MEMORY first. */

/* REG_MR: the region [addr, addr + length) as a list of segments, in rising order of address,
 * without gaps. A region may have UROCE_MAX_MR_PARTS segments. When it has more than
 * UROCE_MAX_MR_SEGMENTS, messages ADD_MR_SEGMENTS with UROCE_MAX_MR_SEGMENTS each carry the first
 * ones, and REG_MR carries the rest. segment_count of REG_MR counts all segments. */
enum uroce_mr_mode {
  UROCE_MR_MAPPED = 1,
  UROCE_MR_COPIED = 2,
  UROCE_MR_SHARED = 3,
  UROCE_MR_NULL = 4,   /* no memory: writes are dropped, reads return zeros. Only the program's own
                          queue pairs may use it. */
  UROCE_MR_STAGED = 5, /* memory of a device: the program's thread moves its bytes by the stage */
};
/* Why a segment is copied; shown to users. */
enum uroce_mr_reason {
  UROCE_WHY_NONE = 0,        /* It is not copied. */
  UROCE_WHY_STACK,           /* a stack or thread-local storage */
  UROCE_WHY_HEAP_PAGE,       /* a page covered in part, in the brk heap or in an arena of malloc */
  UROCE_WHY_PARTIAL_PAGE,    /* a page covered in part; the kernel may write to the rest */
  UROCE_WHY_FILE_MAPPING,    /* a private mapping of a file, or of hugetlb pages */
  UROCE_WHY_READ_ONLY,       /* private memory that is not writable */
  UROCE_WHY_FILE_SYSTEM,     /* a shared file, not on tmpfs or hugetlbfs */
  UROCE_WHY_NOT_REACHABLE,   /* a shared file that neither side may open */
  UROCE_WHY_NO_USERFAULTFD,  /* The kernel gives the program no userfaultfd. */
  UROCE_WHY_REFUSED,         /* The kernel refused to protect or to replace the pages. */
  UROCE_WHY_MANY_MAPPINGS,   /* The program is close to vm.max_map_count. */
  UROCE_WHY_DAEMON_LIMIT,    /* The daemon has no segment left for the program. */
  UROCE_WHY_MANY_PARTS,      /* more parts than a region may have */
  UROCE_WHY_UNKNOWN_THREADS, /* The shim does not know where the stacks lie. */
  UROCE_WHY_POLICY,          /* UROCE_MR=copied, or the program runs in valgrind */
  UROCE_WHY_ON_DEMAND,       /* registered with ON_DEMAND: the mappings may change at any time */
  UROCE_WHY_PINNED,          /* The kernel holds pages of the program for devices or io_uring. */
  UROCE_WHY_POLICY_OF_FILE,  /* as POLICY; the memory is a mapping of a file */
  UROCE_WHY_DEVICE,          /* memory of a GPU; staged */
  UROCE_WHY_REST,            /* a shared file, while helpers make all accesses for its user */
  UROCE_WHY_NOT_SEALED,      /* a shared file of another user, whose pages a process could free */
};
/* Whether an access to memory that is copied for this reason may wait for a file, or for a thread
 * of the program that provides pages. Workers of the daemon leave such memory to a helper, and a
 * program that posts a message does not copy it. */
static inline int uroce_access_may_wait(uint32_t reason) {
  return reason == UROCE_WHY_FILE_MAPPING || reason == UROCE_WHY_FILE_SYSTEM ||
         reason == UROCE_WHY_NOT_REACHABLE || reason == UROCE_WHY_REFUSED ||
         reason == UROCE_WHY_ON_DEMAND || reason == UROCE_WHY_POLICY_OF_FILE;
}
struct uroce_mr_segment {
  uint64_t addr;           /* in the application */
  uint64_t length;         /* bytes of the MR in this segment */
  uint32_t mode;           /* enum uroce_mr_mode */
  uint32_t segment;        /* mapped, shared: handle of CREATE_SEGMENT or uroce_lend; else
                              UROCE_NONE */
  uint64_t segment_offset; /* mapped, shared: the place of addr in the segment */
  uint32_t reason;         /* enum uroce_mr_reason */
  uint32_t reserved;
};
struct uroce_reg_mr {
  uint32_t pd;
  uint32_t access; /* enum ibv_access_flags */
  uint64_t addr;
  uint64_t length;
  uint64_t iova; /* the address of `addr` in SGEs and requests; 0 with ZERO_BASED */
  uint32_t segment_count;
  uint32_t replaces; /* UROCE_NONE, or the handle of a region that becomes this one: it keeps its
                        handle and key; after the reply nothing accesses its former memory */
  /* The uroce_mr_segment entries that no ADD_MR_SEGMENTS carried follow. */
};
/* `first`: the number of segments in the messages before; 0 begins a new region. */
struct uroce_add_mr_segments {
  uint32_t first;
  uint32_t segment_count;
  /* uroce_mr_segment[segment_count] */
};
struct uroce_reg_mr_reply {
  uint32_t handle;
  uint32_t lkey;
  uint32_t rkey;
  uint32_t reserved;
};

/* ALLOC_MW: a memory window; works of queue pairs bind it. */
struct uroce_alloc_mw {
  uint32_t pd;
  uint32_t type; /* enum ibv_mw_type */
};
struct uroce_alloc_mw_reply {
  uint32_t handle;
  uint32_t rkey; /* the window's first key; a program may change the low byte */
};

/* CREATE_CHANNEL (request: a context). fds: its socket. Reply: uroce_handle. */

struct uroce_create_cq {
  uint32_t context;
  uint32_t cqe;
  uint64_t user_handle; /* struct ibv_cq * */
  uint32_t channel;     /* UROCE_NONE: no channel */
  uint32_t comp_vector;
  uint32_t has_times; /* not 0: CQEs have time_ns */
  uint32_t reserved;
};
struct uroce_create_cq_reply {
  uint32_t handle;
  uint32_t cqe;         /* granted: at least what was asked for */
  uint64_t page_offset; /* uroce_cq_page */
};
/* RESIZE_CQ. Meanwhile the shim does not poll the CQ, and creates and destroys no queue pair that
 * uses it. The CQEs that wait move to the start of new rings, whose `consumed` is 0. EINVAL when
 * more than `cqe` wait; nothing has changed then. */
struct uroce_resize_cq {
  uint32_t handle;
  uint32_t cqe;
};
struct uroce_resize_cq_reply {
  uint32_t cqe;        /* granted */
  uint32_t ring_count; /* unchanged; uroce_cq_ring[ring_count] follow */
};
/* MODIFY_CQ: an armed CQ with a channel makes its record after `count` CQEs, or `period_us` after
 * the first of them. It makes the record at once when `count` or `period_us` is 0. Each worker
 * counts its own CQEs. */
struct uroce_modify_cq {
  uint32_t handle;
  uint16_t count;
  uint16_t period_us;
};
/* DESTROY_CQ: request uroce_handle. The reply counts the records sent, whether read or not. */
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
  uint32_t recv_cq;     /* XRC_SEND: ignored, like with_srq and the receive fields of `cap` */
  uint64_t user_handle; /* struct ibv_qp * */
  uint32_t sq_sig_all;
  struct uroce_qp_cap cap; /* with an SRQ the receive fields are ignored, and granted as 0 */
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
  struct uroce_cq_ring send_ring; /* the CQs' rings of `worker`; the shim may have them already */
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
  uint8_t static_rate; /* enum ibv_rate */
  uint8_t reserved;
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
  uint32_t rate_limit; /* kb/s */
};
/* Range of rate_limit: kb/s on the wire; 0: no limit. */
#define UROCE_MIN_RATE_LIMIT 100u
#define UROCE_MAX_RATE_LIMIT 100000000u
struct uroce_modify_qp {
  uint32_t handle;
  struct uroce_qp_attr attr;
};
struct uroce_modify_qp_reply {
  uint32_t qp_state;
  uint32_t reserved;
};
/* PLACE_QP: request uroce_modify_qp, which is about to change a connected queue pair from INIT to
 * RTR. The queue pair may move to another worker before: see uroce_qp_page and uroce_cq_page. */
struct uroce_place_qp_reply {
  uint32_t worker; /* that has it now */
  uint32_t reserved;
};
/* QUERY_QP: request uroce_handle, of a queue pair or of an XRC target; reply uroce_qp_attr. */
/* DESTROY_QP: request uroce_handle. After the reply no CQE of the queue pair appears. */
struct uroce_destroy_qp_reply {
  uint32_t async_events_reported;
  uint32_t reserved;
};

/* ATTACH_MCAST: a UD queue pair receives what is sent to the group. DETACH_MCAST ends that. */
struct uroce_mcast {
  uint32_t qp;
  uint32_t reserved;
  uint8_t gid[16];
};

/* CREATE_AH: reply is uroce_handle, which names the path in works of UD queue pairs. The daemon
 * replies when the network has resolved the next hop. */
struct uroce_create_ah {
  uint32_t pd;
  struct uroce_ah_attr attr;
};

/* The place of a shared receive queue in the arena. */
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
  uint32_t srqn; /* XRC: the number by which requests name the queue; else 0 */
  struct uroce_srq_layout layout;
  struct uroce_cq_ring ring; /* XRC: of the queue's CQ; the shim may have it already */
};
/* MODIFY_SRQ: reply is uroce_srq_layout, set when the mask has IBV_SRQ_MAX_WR: the entries that
 * wait have moved to the start of another ring. The shim does not post meanwhile. */
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

/* OPEN_XRCD: reply is uroce_handle. Programs that name the same file share a domain. */
struct uroce_open_xrcd {
  uint32_t context;
  uint32_t file;   /* of LEND_XRC_FILE, for one use; UROCE_NONE: a domain of the program alone */
  uint32_t oflags; /* without O_CREAT: EAGAIN if there is no domain; O_EXCL: EINVAL if there is */
  uint32_t reserved;
};
/* CLOSE_XRCD: request is uroce_handle. */
/* CREATE_TARGET makes an XRC_RECV queue pair and opens it. OPEN_TARGET opens the domain's target of
 * number qp_num, which another program may have made. Each program that opened a target has its own
 * handle for MODIFY_QP, QUERY_QP and DESTROY_QP. The queue pair exists until all have destroyed
 * their handles. */
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

/* DUMP, from a tool. fds of the reply: a stream socket that carries JSON up to its end. The daemon
 * sends one dump at a time. It reads objects one after the other, not all at one moment. */
enum uroce_dump_what {
  UROCE_DUMP_DEVICES = 1,
  UROCE_DUMP_STAT,
  UROCE_DUMP_QP,
  UROCE_DUMP_MR,
  UROCE_DUMP_CM,
  UROCE_DUMP_SRQ,
  UROCE_DUMP_PEERS,
  UROCE_DUMP_SWITCH,
  UROCE_DUMP_CC, /* the flows of queue pairs */
  UROCE_DUMP_CC_SETTINGS,
  UROCE_DUMP_CONFIG, /* the settings that hold */
  UROCE_DUMP_CQ,
  UROCE_DUMP_PD,
  UROCE_DUMP_CTX,
};
struct uroce_dump {
  uint32_t what;
  uint32_t reserved;
};

/* FLIGHT, from a tool: the newest packets of a queue pair, as a pcapng file. Fds as for DUMP. Only
 * root and the daemon's user may ask for another user's queue pair. */
struct uroce_history {
  uint32_t qpn;
  uint32_t reserved;
};

/* CHANGE, from a tool that runs as root or as the daemon's user. The daemon makes all changes that
 * `text` names, or none. */
enum uroce_change_what {
  UROCE_CHANGE_FAULT = 1,   /* target: a device; text as of --fault, or "off"; "" and "off": all */
  UROCE_CHANGE_SWITCH,      /* target: a switch, a port as "sw0:3", or the device at a port; text:
                               KEY=VALUE,... of --switch, and link=up or link=down of a port */
  UROCE_CHANGE_CC,          /* target: a device; text: profile=PROFILE,PARAMETER=NUMBER,... */
  UROCE_CHANGE_RELOAD,      /* the daemon reads its file again; target and text: "" */
  UROCE_CHANGE_CONFIG,      /* target: ""; text: KEY=VALUE,... of settings without NICs */
  UROCE_CHANGE_PORT,        /* target: a device; text: KEY=VALUE,... of --port */
  UROCE_CHANGE_ADD_PORT,    /* target: ""; text: as of --port */
  UROCE_CHANGE_REMOVE_PORT, /* target: a device; text: "" */
  UROCE_CHANGE_ADD_WIRE,    /* target: ""; text: as of --wire */
};
struct uroce_change {
  uint32_t what;
  uint32_t reserved;
  char target[64]; /* Both strings end with a 0 byte, or fill their fields. */
  char text[1024];
};

#endif /* UROCE_COMMANDS_H_ */
