/* SPDX-License-Identifier: Apache-2.0 */
#include "stream.h"

#include <string.h>

/* splitmix64: a counter through a mixer, so that any seed is a good one. */
static uint64_t mix(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ull;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebull;
  return value ^ (value >> 31);
}

uint64_t vc_random(uint64_t* state) {
  *state += 0x9e3779b97f4a7c15ull;
  return mix(*state);
}

static uint32_t below(uint64_t* state, uint64_t bound) {
  return bound == 0 ? 0 : (uint32_t)(vc_random(state) % bound);
}

void vc_fill(uint8_t* bytes, uint64_t length, uint64_t seed, int side, enum vc_area area) {
  const uint64_t base = mix(seed * 16 + (uint64_t)side * 4 + (uint64_t)area);
  for (uint64_t offset = 0; offset < length; offset += 8) {
    const uint64_t word = mix(base + offset);
    memcpy(bytes + offset, &word, length - offset < 8 ? length - offset : 8);
  }
}

uint64_t vc_first_atomic(uint64_t seed, int side, uint32_t index) {
  return mix(seed ^ ((uint64_t)side << 32) ^ (index + 1));
}

void vc_stream_start(struct vc_stream* stream, uint64_t seed, int side,
                     const struct vc_stream_limits* limits) {
  stream->state = mix(seed * 2 + (uint64_t)side);
  stream->limits = *limits;
  for (uint32_t i = 0; i < VC_ATOMICS; ++i) {
    stream->atomics[i] = vc_first_atomic(seed, 1 - side, i);
  }
}

uint32_t vc_stream_round(struct vc_stream* stream) { return 1 + below(&stream->state, VC_WINDOW); }

/* Short, long, and around the borders of packets, where segmentation goes wrong. */
static uint32_t pick_length(struct vc_stream* stream) {
  const uint32_t max = stream->limits.max_bytes;
  const uint32_t mtu = stream->limits.mtu_bytes;
  uint64_t* state = &stream->state;
  uint32_t length = 0;
  switch (below(state, 8)) {
    case 0:
      length = below(state, 2);
      break;
    case 1:
      length = 1 + below(state, 8);
      break;
    case 2:
      length = 1 + below(state, 256);
      break;
    case 3:
      length = mtu - 1 + below(state, 3);
      break;
    case 4:
      length = mtu * (2 + below(state, 6)) - 1 + below(state, 3);
      break;
    case 5:
      length = 1 + below(state, 4096);
      break;
    case 6:
      length = 1 + below(state, 65536);
      break;
    default:
      length = 1 + below(state, max);
  }
  return length > max ? max : length;
}

uint32_t vc_scatter(uint64_t* state, uint32_t length, struct vc_piece* pieces) {
  const uint32_t count = 1 + below(state, VC_PIECES);
  uint64_t place = 0;
  uint32_t left = length;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t part = i + 1 == count ? left : below(state, left + 1ull);
    pieces[i].offset = place;
    pieces[i].length = part;
    place += part + VC_GAP;
    left -= part;
  }
  return count;
}

static void pick_gather(struct vc_stream* stream, struct vc_op* op) {
  op->piece_count = vc_scatter(&stream->state, op->length, op->pieces);
  for (uint32_t i = 0; i < op->piece_count; ++i) {
    /* The source area is twice as long as a message. */
    op->pieces[i].offset = below(&stream->state, stream->limits.max_bytes);
  }
}

static void pick_atomic(struct vc_stream* stream, struct vc_op* op) {
  const uint32_t index = below(&stream->state, VC_ATOMICS);
  uint64_t* word = &stream->atomics[index];
  op->length = 8;
  op->remote_offset = index;
  op->piece_count = 1;
  op->pieces[0] = (struct vc_piece){0, 8};
  op->old_value = *word;
  op->swap_or_add = vc_random(&stream->state);
  /* Half of the comparisons hold. */
  op->compare = *word ^ (below(&stream->state, 2) ? 0 : 1);
  if (op->kind == VC_FAA) {
    *word += op->swap_or_add;
  } else if (op->compare == *word) {
    *word = op->swap_or_add;
  }
}

void vc_stream_next(struct vc_stream* stream, struct vc_op* op) {
  memset(op, 0, sizeof(*op));
  op->kind = (enum vc_kind)below(&stream->state, (uint64_t)stream->limits.kinds);
  op->signaled = below(&stream->state, 2) != 0;
  op->fence = below(&stream->state, 8) == 0 && !stream->limits.unfenced;
  op->solicited = below(&stream->state, 8) == 0;
  op->imm = (uint32_t)vc_random(&stream->state);
  if (op->kind == VC_CAS || op->kind == VC_FAA) {
    pick_atomic(stream, op);
    return;
  }
  op->length = pick_length(stream);
  if (op->kind == VC_READ) {
    op->piece_count = vc_scatter(&stream->state, op->length, op->pieces);
    op->remote_offset = below(&stream->state, stream->limits.max_bytes);
    return;
  }
  pick_gather(stream, op);
  op->use_inline = op->length <= stream->limits.max_inline && below(&stream->state, 2);
  op->remote_offset = below(&stream->state, VC_GAP);
}

int vc_takes_receive(const struct vc_op* op) {
  return op->kind == VC_SEND || op->kind == VC_SEND_IMM || op->kind == VC_WRITE_IMM;
}

const char* vc_kind_name(enum vc_kind kind) {
  static const char* const kNames[VC_KINDS] = {"send", "send-imm",     "write",    "write-imm",
                                               "read", "compare-swap", "fetch-add"};
  return kNames[kind];
}
