/* SPDX-License-Identifier: Apache-2.0
 * Two devices and a reliable connection between them, both ends in this program. */
#ifndef MEMORY_CONNECTION_H_
#define MEMORY_CONNECTION_H_

#include <infiniband/verbs.h>

struct end {
  struct ibv_context* context;
  struct ibv_pd* pd;
  struct ibv_cq* cq;
  struct ibv_qp* qp;
  union ibv_gid gid;
  int gid_index;
};

/* Opens both devices and connects them. Ends the program with a message when that fails. */
void connect_ends(struct end ends[2], const char* const names[2]);

/* Says what failed, with errno, and ends the program. */
void fail(const char* what) __attribute__((noreturn));

#endif /* MEMORY_CONNECTION_H_ */
