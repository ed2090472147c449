/* SPDX-License-Identifier: Apache-2.0
 * Two requests to one place, the second posted behind the first, and a SEND into a buffer beside
 * them: when that is complete, memory holds what the second has left. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/e2e/programs/memory_order/memory_order.h"

/* The reader's arena: an inbox, the target, another inbox. The writer's: the two payloads, what the
 * SEND has, and the original of an atomic. */
enum { kInboxBytes = 1024, kPatternPrime = 251 };

/* What a round does; both ends know it. */
struct round {
  int adds; /* The first request is a FETCH_ADD of 1. */
  uint32_t offset[2];
  uint32_t length[2];
  uint32_t send_length;
  uint8_t pattern[3]; /* First bytes of the payloads, and of the SEND. */
};

size_t mo_two_writes_arena(const struct mo_options* options, enum mo_end which) {
  return which == MO_READER ? options->bytes + 2 * (size_t)kInboxBytes
                            : 2 * (size_t)options->bytes + kInboxBytes + sizeof(uint64_t);
}

static struct round plan(const struct mo_options* options, uint64_t number) {
  uint64_t random = options->side.seed * 1000003 + number;
  struct round round = {.adds = vc_random(&random) % 4 == 0};
  for (int i = 0; i < 2; ++i) {
    /* Half of them the whole target. */
    const int is_whole = vc_random(&random) % 2 == 0;
    round.offset[i] = is_whole ? 0 : (uint32_t)(vc_random(&random) % options->bytes);
    round.length[i] = is_whole
                          ? options->bytes
                          : 1 + (uint32_t)(vc_random(&random) % (options->bytes - round.offset[i]));
  }
  for (int i = 0; i < 3; ++i) round.pattern[i] = (uint8_t)vc_random(&random);
  round.send_length = (uint32_t)(vc_random(&random) % (kInboxBytes + 1));
  if (round.adds) {
    round.offset[0] = round.offset[1] = round.offset[1] / 8 * 8;
    round.length[0] = round.length[1] = 8;
  }
  return round;
}

static void fill(uint8_t* bytes, uint32_t length, uint8_t pattern) {
  for (uint32_t i = 0; i < length; ++i) bytes[i] = (uint8_t)(pattern + i % kPatternPrime);
}

static size_t inbox_offset(const struct mo_options* options, uint64_t number) {
  return number % 2 == 0 ? 0 : kInboxBytes + (size_t)options->bytes;
}

static void write_round(struct mo_end_state* end, const struct round* round) {
  const uint32_t bytes = end->options->bytes;
  for (int i = round->adds; i < 2; ++i) {
    fill(end->arena + (size_t)i * bytes, round->length[i], round->pattern[i]);
  }
  fill(end->arena + 2 * (size_t)bytes, round->send_length, round->pattern[2]);
  for (int i = 0; i < 2; ++i) {
    const int is_atomic = i == 0 && round->adds;
    const size_t from = is_atomic ? 2 * (size_t)bytes + kInboxBytes : (size_t)i * bytes;
    mo_post(end, is_atomic ? IBV_WR_ATOMIC_FETCH_AND_ADD : IBV_WR_RDMA_WRITE, from,
            round->length[i], kInboxBytes + round->offset[i], 0);
  }
  mo_post(end, IBV_WR_SEND, 2 * (size_t)bytes, round->send_length, 0, 1);
}

void mo_two_writes_writer(struct mo_end_state* end) {
  uint64_t number = 1;
  mo_post_receive(end, 0, 0);
  for (; mo_goes_on(end, number); ++number) {
    const struct round round = plan(end->options, number);
    write_round(end, &round);
    mo_wait_for_receive(end); /* The reader has looked. */
    mo_post_receive(end, 0, 0);
    mo_wait_for_sends(end, 0);
  }
  mo_post(end, IBV_WR_SEND_WITH_IMM, 0, 0, 0, 1); /* That was all. */
  mo_wait_for_sends(end, 0);
}

/* What memory must hold after a round. */
static void apply(const struct mo_options* options, uint64_t number, uint8_t* expected) {
  const struct round round = plan(options, number);
  for (int i = 0; i < 2; ++i) {
    uint8_t* at = expected + kInboxBytes + round.offset[i];
    if (i == 0 && round.adds) {
      uint64_t word;
      memcpy(&word, at, sizeof(word));
      ++word;
      memcpy(at, &word, sizeof(word));
    } else {
      fill(at, round.length[i], round.pattern[i]);
    }
  }
  fill(expected + inbox_offset(options, number), round.send_length, round.pattern[2]);
}

static void compare(struct mo_end_state* end, uint64_t number, uint8_t* expected) {
  size_t first = 0;
  while (first < end->arena_bytes && end->arena[first] == expected[first]) ++first;
  if (first == end->arena_bytes) return;
  if (++end->wrong == 1) {
    const struct round round = plan(end->options, number);
    fprintf(stderr, "round %lu: byte %zd of the target is wrong; %s [%u, %u), WRITE [%u, %u)\n",
            number, (ssize_t)first - kInboxBytes, round.adds ? "FETCH_ADD" : "WRITE",
            round.offset[0], round.offset[0] + round.length[0], round.offset[1],
            round.offset[1] + round.length[1]);
  }
  memcpy(expected, end->arena, end->arena_bytes);
}

void mo_two_writes_reader(struct mo_end_state* end) {
  const struct mo_options* options = end->options;
  uint8_t* expected = calloc(1, end->arena_bytes);
  if (!expected) vc_die(&end->side, "out of memory");
  uint64_t number = 1;
  mo_post_receive(end, inbox_offset(options, number), kInboxBytes);
  while (mo_wait_for_receive(end), !end->is_told_to_end) {
    apply(options, number, expected);
    compare(end, number, expected);
    ++number;
    mo_post_receive(end, inbox_offset(options, number), kInboxBytes);
    mo_post(end, IBV_WR_SEND, 0, 0, 0, 1);
    mo_wait_for_sends(end, 0);
  }
  free(expected);
  printf("%s to %u bytes: %lu rounds, %lu wrong\n", options->mode, options->bytes, number - 1,
         end->wrong);
}
