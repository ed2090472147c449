/* SPDX-License-Identifier: Apache-2.0
 * Completions that were polled and not yet looked at: the peer may be ahead of what is awaited. */
#ifndef VERBS_CHECK_COMPLETIONS_H_
#define VERBS_CHECK_COMPLETIONS_H_

#include <infiniband/verbs.h>
#include <stdint.h>

#include "stream.h"

/* All receives of two rounds fit, and all sends of one. */
#define VC_COMPLETIONS (4 * (VC_WINDOW + 2))

struct vc_completions {
  struct ibv_wc waiting[VC_COMPLETIONS];
  uint32_t first;
  uint32_t count;
};

static inline void vc_put(struct vc_completions* to, const struct ibv_wc* wc) {
  to->waiting[(to->first + to->count++) % VC_COMPLETIONS] = *wc;
}

static inline const struct ibv_wc* vc_peek(const struct vc_completions* from) {
  return &from->waiting[from->first % VC_COMPLETIONS];
}

static inline struct ibv_wc vc_take(struct vc_completions* from) {
  --from->count;
  return from->waiting[from->first++ % VC_COMPLETIONS];
}

#endif /* VERBS_CHECK_COMPLETIONS_H_ */
