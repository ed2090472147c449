/* SPDX-License-Identifier: Apache-2.0
 * A capture: the ring that uroced fills and a tool empties, and the annotation of each frame. Plain
 * C, covered by UROCE_ABI_VERSION.
 */
#ifndef UROCE_CAPTURE_H_
#define UROCE_CAPTURE_H_

#include <stdint.h>

#include "pipeline/shm/abi/uroce_arena.h"

/* CAPTURE, from a tool that runs as root or as the daemon's user. Fds of the reply: a memfd. It has
 * ring_count equal parts, one for each worker. A part holds a uroce_capture_page, and ring_bytes of
 * records from ring_offset of the part on, in order of time. The tool ends the capture: it shuts
 * down its side of the socket. When the daemon has closed its own side, it adds no more records and
 * counts no more losses; the tool may still read the ring. */
#define UROCE_CAPTURE_DROPPED 1u       /* bits of `only`: dropped frames */
#define UROCE_CAPTURE_RETRANSMITTED 2u /* requests and responses sent again */
#define UROCE_CAPTURE_MARKED 4u        /* arrived with congestion experienced */
struct uroce_capture {
  char device[64]; /* "" for all */
  uint32_t snap_length;
  uint32_t only;       /* UROCE_CAPTURE_*: record frames of these kinds only; 0: all frames */
  uint64_t ring_bytes; /* wanted, of all rings together; a power of two */
};
struct uroce_capture_reply {
  uint64_t map_bytes;
  uint64_t ring_offset;
  uint64_t ring_bytes;      /* granted, of each ring; a power of two */
  uint32_t interface_count; /* uroce_capture_interface[interface_count] follow */
  uint32_t ring_count;
};
struct uroce_capture_interface {
  char name[64];
  uint8_t mac[6];
  uint16_t reserved;
  uint32_t mtu;
};
/* Frames that the ring had no room for. */
struct uroce_capture_lost {
  uint64_t inbound;
  uint64_t outbound;
};
struct uroce_capture_page {
  struct uroce_line64 produced; /* daemon: bytes, free running */
  struct uroce_line64 consumed; /* tool: bytes, free running */
  struct uroce_line64 reached;  /* daemon: ns since 1970; all records of before this
                                 * time are published. Advances in sleep too */
  struct uroce_capture_lost lost[UROCE_MAX_DEVICES]; /* daemon */
};

/* What the device did with a frame; pipeline/capture turns these codes into text. */
enum uroce_capture_reason {
  UROCE_REASON_NONE = 0, /* accepted, or sent for the first time */
  /* Received and dropped before the transport; a counter of the device counts each reason. */
  UROCE_REASON_NOT_ROCE,   /* detail: wire::DecodeResult; 0: to another MAC */
  UROCE_REASON_MALFORMED,  /* detail: wire::DecodeResult; 0: a response that cannot be right */
  UROCE_REASON_BAD_OPCODE, /* unknown, or not of the queue pair's service */
  UROCE_REASON_BAD_ICRC,
  UROCE_REASON_BAD_PKEY,
  UROCE_REASON_UNKNOWN_QPN,
  UROCE_REASON_BAD_ADDRESS, /* not from the peer of the queue pair; UD: not to this device */
  UROCE_REASON_BAD_STATE,   /* detail: enum ibv_qp_state */
  UROCE_REASON_CNP_IGNORED,
  UROCE_REASON_CNP_HANDLED,       /* not dropped: the queue pair lowers its rate, to rate_mbps */
  UROCE_REASON_PARKED_FULL,       /* no room: the queue pair waits for a copy of memory */
  UROCE_REASON_ABANDONED,         /* the queue pair was reset or destroyed while the frame waited */
  UROCE_REASON_CROSS_WORKER_FULL, /* the queue to the queue pair's worker is full */
  /* Received; the transport did not execute it. */
  UROCE_REASON_GHOST,           /* a response that nothing waits for */
  UROCE_REASON_RESPONSE_GAP,    /* a response to a READ; one before it was lost */
  UROCE_REASON_DUPLICATE,       /* detail: 1 answered again */
  UROCE_REASON_OUT_OF_SEQUENCE, /* expected_psn; detail: 1: NAK sent, 0: NAK was sent before */
  UROCE_REASON_NOT_READY,       /* no receive is posted: RNR NAK; number: its timer code */
  UROCE_REASON_REFUSED,         /* number: syndrome of the NAK; detail: enum uroce_refusal */
  /* Received and not executed; UC and UD, which answer nothing. */
  UROCE_REASON_MESSAGE_CUT,     /* a packet before it was lost, so the message is dropped */
  UROCE_REASON_NO_RECEIVE,      /* no receive is posted */
  UROCE_REASON_TOO_LONG,        /* longer than the receive */
  UROCE_REASON_MESSAGE_REFUSED, /* a length, an access right or a key is wrong */
  UROCE_REASON_BAD_QKEY,
  UROCE_REASON_BAD_RECEIVE, /* the receive is malformed: the queue pair is in error */
  /* Sent. */
  UROCE_REASON_RETRANSMITTED,  /* detail: enum uroce_resend_cause; number of limit */
  UROCE_REASON_ANSWERED_AGAIN, /* the response to a duplicate request */
  UROCE_REASON_NAK,            /* a NAK of any kind; number: its syndrome */
  UROCE_REASON_SELECTIVE_ACK,  /* to another uroce: some packets are missing, later ones kept */
  /* Received; will be executed later. */
  UROCE_REASON_KEPT, /* a packet before it is missing; expected_psn */
  /* Sent. */
  UROCE_REASON_CNP_SENT, /* psn: of the marked packet; rate_mbps: of READ requests from now on */
};
/* Why a responder refuses a request with a fatal NAK; in the order of transport::Refusal. */
enum uroce_refusal {
  UROCE_REFUSAL_NONE = 0,
  UROCE_REFUSAL_ORDER,          /* the opcode does not continue the message */
  UROCE_REFUSAL_PAYLOAD_LENGTH, /* not the length that the path MTU and the message require */
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
/* Why a requester sends again; in the order of transport::ResendCause. */
enum uroce_resend_cause {
  UROCE_RESEND_NONE = 0,
  UROCE_RESEND_ACK_TIMEOUT,
  UROCE_RESEND_SEQUENCE_NAK,
  UROCE_RESEND_RNR_NAK,         /* the time that the RNR NAK named has passed */
  UROCE_RESEND_IMPLIED_NAK,     /* a later response came; that of a READ or atomic is missing */
  UROCE_RESEND_SELECTIVE_ACK,   /* the responder misses it and keeps later packets */
  UROCE_RESEND_TAIL_LOSS_PROBE, /* no answer for some round trips */
};
#define UROCE_NOTE_MARKED 1u /* flags: congestion experienced */
#define UROCE_NOTE_FAILED 2u /* flags: the queue pair went to error by this packet */
#define UROCE_NO_LIMIT 255u  /* limit: there is none */
struct uroce_capture_note {
  uint8_t reason; /* enum uroce_capture_reason */
  uint8_t detail;
  uint8_t number;
  uint8_t limit;
  uint8_t flags;  /* UROCE_NOTE_* */
  uint8_t status; /* FAILED: enum ibv_wc_status of the work that failed; 0: no work failed */
  uint16_t reserved;
  uint32_t qpn; /* of this end; 0: no queue pair */
  uint32_t psn; /* of the packet */
  uint32_t expected_psn;
  uint32_t rate_mbps; /* of what the queue pair sends; 0: unknown, or the line's */
};

/* A record starts at a multiple of 64 and is contiguous. captured_length bytes of frame follow it;
 * `size` counts both, and is a multiple of 64, so that records share no cache line. A record with
 * captured_length UROCE_NONE fills the rest of the ring up to its end. */
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

#endif /* UROCE_CAPTURE_H_ */
