/* SPDX-License-Identifier: Apache-2.0
 * Extended connections (XRC): the queue pair of a side sends alone; what the peer sends comes by a
 * target queue pair, into a shared receive queue that each request names. */
#ifndef VERBS_CHECK_XRC_H_
#define VERBS_CHECK_XRC_H_

#include "side.h"

/* Opens a domain of the side's own, and makes its queue, which completes on recv_cq, and target. */
void vc_make_target(struct vc_side* side);
void vc_target_to_init(struct vc_side* side);
/* To RTR and RTS with side->peer. */
void vc_connect_target(struct vc_side* side);
/* Names the peer's queue in a request. */
void vc_name_queue(const struct vc_side* side, struct ibv_send_wr* request);
/* The queue pair that the side receives by. */
const struct ibv_qp* vc_receiver(const struct vc_side* side);
/* The target and the queue, then the domain. */
void vc_close_target(struct vc_side* side);

#endif /* VERBS_CHECK_XRC_H_ */
