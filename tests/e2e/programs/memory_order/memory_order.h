/* SPDX-License-Identifier: Apache-2.0
 * What a program sees in memory that its peer writes: only what execution in order could show. */
#ifndef MEMORY_ORDER_MEMORY_ORDER_H_
#define MEMORY_ORDER_MEMORY_ORDER_H_

#include <stddef.h>
#include <stdint.h>

#include "tests/e2e/programs/verbs_check/side.h"

enum mo_end { MO_WRITER = 0, MO_READER = 1 };

struct mo_options {
  struct vc_options side;
  const char* mode;
  uint32_t bytes;     /* Of the target, or of the message that is watched. */
  uint64_t rounds;    /* At most. */
  uint32_t seconds;   /* At most; 0: no limit. */
  const char* flag;   /* Mode "flag": which word is it. */
  int watches_inner;  /* Mode "last-word": words inside of the message too. */
  int is_shared_file; /* The target is a shared mapping of a file. */
};

/* One of the two ends. */
struct mo_end_state {
  const struct mo_options* options;
  struct vc_side side;
  uint8_t* arena; /* The reader's: the peer writes here. The writer's: what it sends. */
  size_t arena_bytes;
  struct ibv_mr* arena_mr;
  uint32_t outstanding; /* Signalled sends without a completion. */
  uint32_t received;    /* Receives that are complete and were not waited for. */
  int is_told_to_end;   /* The last one had immediate data. */
  uint64_t random;
  uint64_t seen;
  uint64_t wrong;
};

/* Takes the completions that are there; dies of one that is no success. */
void mo_poll(struct mo_end_state* end);
/* Waits until no more than so many sends are under way. */
void mo_wait_for_sends(struct mo_end_state* end, uint32_t at_most);
void mo_wait_for_receive(struct mo_end_state* end);
/* Posts a receive into the own arena. */
void mo_post_receive(struct mo_end_state* end, size_t offset, uint32_t length);
/* Posts a send request from the own arena, to the same key of the peer's where it has one. */
void mo_post(struct mo_end_state* end, enum ibv_wr_opcode opcode, size_t offset, uint32_t length,
             size_t remote_offset, int is_signaled);
/* Whether a further round is to be done. */
int mo_goes_on(const struct mo_end_state* end, uint64_t round);

/* Modes: how many bytes of arena an end needs, and its part. */
size_t mo_watch_arena(const struct mo_options* options, enum mo_end which);
void mo_watch_writer(struct mo_end_state* end);
void mo_watch_reader(struct mo_end_state* end);
void mo_watch_both(struct mo_end_state* writer, struct mo_end_state* reader);
size_t mo_two_writes_arena(const struct mo_options* options, enum mo_end which);
void mo_two_writes_writer(struct mo_end_state* end);
void mo_two_writes_reader(struct mo_end_state* end);

#endif /* MEMORY_ORDER_MEMORY_ORDER_H_ */
