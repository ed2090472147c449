/* SPDX-License-Identifier: Apache-2.0
 * Calls of verbs that few programs make, and what they answer. */
#ifndef CALLS_H_
#define CALLS_H_

#include "tests/bench/programs/verbs_pair.h"

/* The two devices, opened. */
struct ca_bed {
  struct bench_end a;
  struct bench_end b;
};

/* A case returns when all was as it should be, and ends the program otherwise. */
void ca_null_region(struct ca_bed* bed);
void ca_moderation(struct ca_bed* bed);
void ca_unsupported(struct ca_bed* bed);
void ca_bad_arguments(struct ca_bed* bed);
void ca_wrong_order(struct ca_bed* bed);
void ca_no_memory(struct ca_bed* bed);
void ca_no_fds(struct ca_bed* bed);
void ca_rate_limits(struct ca_bed* bed);

/* Ends the program unless a call failed with `error`: by null and errno, or by what it returned. */
void ca_refused(const void* made, int error, const char* what);
void ca_returns(int returned, int error, const char* what);

#endif /* CALLS_H_ */
