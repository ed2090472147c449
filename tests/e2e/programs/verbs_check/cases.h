/* SPDX-License-Identifier: Apache-2.0
 * A case, at each end:
 *   1. the target, end 1, prepares; both meet, and know what the other's info says by then;
 *   2. the requester, end 0, posts and looks at its completions; both meet;
 *   3. the target looks at its own. */
#ifndef VERBS_CHECK_CASES_H_
#define VERBS_CHECK_CASES_H_

#include "side.h"

#define VC_RECEIVE 7 /* wr_id of the target's receive. */

struct vc_case {
  const char* name;
  void (*prepare)(struct vc_side* target); /* May be none, as all three. */
  void (*request)(struct vc_side* requester);
  void (*check)(struct vc_side* target);
};

/* Those of memory windows; the last has no name. */
extern const struct vc_case vc_window_cases[];
/* Of messages, over networks that may lose some; likewise. */
extern const struct vc_case vc_lossy_cases[];

/* One request of the first bytes of `sink`. */
void vc_post(struct vc_side* side, uint64_t wr_id, enum ibv_wr_opcode opcode, uint32_t length,
             uint64_t remote_addr, uint32_t rkey);
void vc_post_receive(struct vc_side* side, uint64_t wr_id, uint32_t length);
/* Waits for the next completion, which must be this one. */
struct ibv_wc vc_expect(struct vc_side* side, struct ibv_cq* cq, uint64_t wr_id,
                        enum ibv_wc_status status);
void vc_expect_nothing(struct vc_side* side);
void vc_expect_state(struct vc_side* side, enum ibv_qp_state state);

#endif /* VERBS_CHECK_CASES_H_ */
