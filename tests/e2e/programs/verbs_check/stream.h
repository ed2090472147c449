/* SPDX-License-Identifier: Apache-2.0
 * Random work requests, the same on both sides: each side posts its own stream and predicts the
 * other's from the seed alone, so that nothing but the tested traffic crosses the wire. */
#ifndef VERBS_CHECK_STREAM_H_
#define VERBS_CHECK_STREAM_H_

#include <stdint.h>

#define VC_WINDOW 24 /* Work requests of a round, at most. */
#define VC_PIECES 4  /* SGEs of a work request, at most. */
#define VC_ATOMICS 64
#define VC_GAP 16 /* Bytes between the pieces of a scatter, which must stay as they are. */

enum vc_kind {
  VC_SEND,
  VC_SEND_IMM,
  VC_WRITE,
  VC_WRITE_IMM,
  VC_READ,
  VC_CAS,
  VC_FAA,
  VC_KINDS,
};

struct vc_piece {
  uint64_t offset;
  uint32_t length;
};

/* The work requests of one end, by kind. */
struct vc_tally {
  uint64_t of[VC_KINDS];
};

/* One work request. Offsets are into the areas of side.h. */
struct vc_op {
  enum vc_kind kind;
  uint32_t length;
  struct vc_piece pieces[VC_PIECES]; /* Gathered from the source area, or scattered in the sink. */
  uint32_t piece_count;
  uint64_t remote_offset; /* In the peer's writable slot, readable area, or index of an atomic. */
  uint32_t imm;
  uint64_t compare;
  uint64_t swap_or_add;
  uint64_t old_value; /* What the atomic must return. */
  int use_inline;
  int signaled;
  int fence;
  int solicited;
};

struct vc_stream_limits {
  uint32_t max_bytes;
  uint32_t max_inline;
  uint32_t mtu_bytes;
  int unfenced; /* No request waits for earlier READs and atomics. */
  int kinds;    /* Of enum vc_kind, the first so many. */
};

struct vc_stream {
  uint64_t state;
  struct vc_stream_limits limits;
  uint64_t atomics[VC_ATOMICS]; /* The target's words after all requests so far. */
};

/* Areas of a side with known first contents. */
enum vc_area { VC_SOURCE, VC_READABLE, VC_WRITABLE };

uint64_t vc_random(uint64_t* state);
/* Byte `offset` of an area at the start. */
void vc_fill(uint8_t* bytes, uint64_t length, uint64_t seed, int side, enum vc_area area);
uint64_t vc_first_atomic(uint64_t seed, int side, uint32_t index);

/* The requests that `side` sends, beginning with the first. */
void vc_stream_start(struct vc_stream* stream, uint64_t seed, int side,
                     const struct vc_stream_limits* limits);
/* How many the next round has. */
uint32_t vc_stream_round(struct vc_stream* stream);
void vc_stream_next(struct vc_stream* stream, struct vc_op* op);
/* Cuts `length` bytes into pieces with VC_GAP between them; returns their count. */
uint32_t vc_scatter(uint64_t* state, uint32_t length, struct vc_piece* pieces);
/* Whether the request takes a receive of the peer. */
int vc_takes_receive(const struct vc_op* op);
const char* vc_kind_name(enum vc_kind kind);

#endif /* VERBS_CHECK_STREAM_H_ */
