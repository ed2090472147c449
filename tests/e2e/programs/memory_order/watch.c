/* SPDX-License-Identifier: Apache-2.0
 * The writer writes its round's number into every word of a region, round after round. The reader
 * spins on one word: when that is of a round, so are the words before it, or of a later one.
 *
 * "last-word": the region is one WRITE. "flag": it is data in one WRITE, and behind it a message
 * that has the word. */
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "tests/e2e/programs/memory_order/memory_order.h"

enum { kWindow = 3, kDataBytes = 16384, kOwnFlagBytes = 8, kSpinsBeforeYield = 4000 };

/* The number of the last round, for whatever was asked. */
static const uint64_t kEnd = (uint64_t)1 << 60;

static int has_flag(const struct mo_options* options) { return !strcmp(options->mode, "flag"); }

static uint32_t message_bytes(const struct mo_options* options) {
  return has_flag(options) && !strcmp(options->flag, "own") ? kOwnFlagBytes : options->bytes;
}

static uint32_t data_bytes(const struct mo_options* options) {
  return has_flag(options) ? kDataBytes : 0;
}

static uint32_t region_bytes(const struct mo_options* options) {
  return data_bytes(options) + message_bytes(options);
}

size_t mo_watch_arena(const struct mo_options* options, enum mo_end which) {
  return (size_t)region_bytes(options) * (which == MO_WRITER ? kWindow : 1);
}

static void write_round(struct mo_end_state* end, uint64_t round, uint64_t value) {
  const struct mo_options* options = end->options;
  const size_t from = round % kWindow * region_bytes(options);
  uint64_t* words = (uint64_t*)(end->arena + from);
  for (uint32_t i = 0; i < region_bytes(options) / sizeof(*words); ++i) words[i] = value;
  const uint32_t data = data_bytes(options);
  if (data != 0) mo_post(end, IBV_WR_RDMA_WRITE, from, data, 0, 0);
  mo_post(end, IBV_WR_RDMA_WRITE, from + data, message_bytes(options), data, 1);
}

void mo_watch_writer(struct mo_end_state* end) {
  uint64_t round = 1;
  for (; mo_goes_on(end, round); ++round) {
    mo_wait_for_sends(end, kWindow - 1);
    write_round(end, round, round);
  }
  mo_wait_for_sends(end, 0);
  write_round(end, round, kEnd);
  mo_wait_for_sends(end, 0);
  printf("%s: %lu rounds written\n", end->options->mode, round);
}

/* Which word to spin on next. */
static uint32_t next_word(const struct mo_options* options, uint64_t* random) {
  const uint32_t first = data_bytes(options) / sizeof(uint64_t);
  const uint32_t words = message_bytes(options) / sizeof(uint64_t);
  if (has_flag(options)) return first + (strcmp(options->flag, "inner") ? 0 : words / 2);
  if (!options->watches_inner || vc_random(random) % 2 == 0) return first + words - 1;
  return first + (uint32_t)(vc_random(random) % words);
}

/* Words [0, count) that are of an earlier round. The later one looks, the more have been written:
 * half of the time it begins with the first one, and half with the last. */
static uint32_t count_older(const volatile uint64_t* words, uint32_t count, uint64_t round,
                            int is_upwards) {
  uint32_t older = 0;
  for (uint32_t i = 0; i < count; ++i) older += words[is_upwards ? i : count - 1 - i] < round;
  return older;
}

/* Spins until a word is of a later round than `before`, looks at those in front of it, and returns
 * its round. Who writes in the same thread is `writer`. */
static uint64_t watch(struct mo_end_state* end, uint64_t before, struct mo_end_state* writer) {
  const struct mo_options* options = end->options;
  const volatile uint64_t* words = (const volatile uint64_t*)end->arena;
  const uint32_t word = next_word(options, &end->random);
  uint64_t round = 0;
  for (uint32_t spins = 1; (round = words[word]) <= before; ++spins) {
    if (spins % kSpinsBeforeYield == 0) writer ? mo_poll(writer) : (void)sched_yield();
  }
  ++end->seen;
  const uint32_t earlier = has_flag(options) ? kDataBytes / sizeof(*words) : word;
  const uint32_t older = count_older(words, earlier, round, end->seen % 2 != 0);
  if (older != 0 && ++end->wrong == 1) {
    fprintf(stderr, "word %u is of round %lu, and %u words before it are older\n", word, round,
            older);
  }
  return round;
}

static void report(const struct mo_end_state* end) {
  const struct mo_options* options = end->options;
  printf("%s%s%s of %u bytes: %lu seen, %lu wrong\n", options->mode, has_flag(options) ? " " : "",
         has_flag(options) ? options->flag : "", message_bytes(options), end->seen, end->wrong);
}

void mo_watch_reader(struct mo_end_state* end) {
  for (uint64_t round = 0; round != kEnd;) round = watch(end, round, NULL);
  report(end);
}

/* One thread for both: the reader spins while the NIC writes, and sees each round. */
void mo_watch_both(struct mo_end_state* writer, struct mo_end_state* reader) {
  for (uint64_t round = 1; mo_goes_on(writer, round); ++round) {
    mo_wait_for_sends(writer, kWindow - 1);
    write_round(writer, round, round);
    watch(reader, round - 1, writer);
  }
  mo_wait_for_sends(writer, 0);
  report(reader);
}
