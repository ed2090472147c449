/* SPDX-License-Identifier: Apache-2.0
 * Programs that use verbs in ways that end badly, for themselves alone. */
#ifndef MISUSE_CASES_H_
#define MISUSE_CASES_H_

#include "tests/e2e/programs/verbs_check/side.h"

/* Two connected ends in this process. */
struct mu_pair {
  struct vc_options options;
  struct vc_side a;
  struct vc_side b;
};

/* Connects the queue pairs of a and b. */
void mu_bring_up(struct mu_pair* pair);
/* A signaled WRITE of 8 bytes from a to b. */
void mu_post_write(struct mu_pair* pair);
/* Polls a's completions until one comes; dies after the deadline. */
struct ibv_wc mu_await_completion(struct mu_pair* pair);

/* Memory whose pages do not come: a thread that touches one waits until sf_let_go. */
void* mu_stuck_memory(const struct mu_pair* pair, size_t bytes);
void mu_await_waiters(const struct mu_pair* pair);

/* A case ends the process in its own way, or returns when what it must see was seen. */
struct mu_case {
  const char* name;
  void (*run)(struct mu_pair* pair);
};
extern const struct mu_case mu_copy_cases[];
extern const struct mu_case mu_queue_cases[];
extern const struct mu_case mu_process_cases[];

#endif /* MISUSE_CASES_H_ */
