/* SPDX-License-Identifier: Apache-2.0
 * Objects beside a connection, one of each kind that it does not need itself. */
#ifndef CYCLES_OBJECTS_H_
#define CYCLES_OBJECTS_H_

#include "tests/bench/programs/verbs_pair.h"

struct cycles_objects {
  struct ibv_td* td;
  struct ibv_pd* parent;
  struct ibv_dm* dm;
  struct ibv_mr* of_dm;
  struct ibv_mr* null;
  struct ibv_cq_ex* cq;
  struct ibv_srq* srq;
  struct ibv_xrcd* xrcd;
  struct ibv_srq* xrc_srq;
  struct ibv_qp* target;
  struct ibv_qp* initiator;
  struct ibv_qp* unreliable;
  struct ibv_qp* datagrams; /* In a multicast group. */
};

/* Either ends the program when a call fails. */
void cycles_make_objects(struct cycles_objects* objects, const struct bench_end* end);
void cycles_unmake_objects(struct cycles_objects* objects);

#endif /* CYCLES_OBJECTS_H_ */
