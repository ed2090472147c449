/* SPDX-License-Identifier: Apache-2.0
 * One-sided requests between two registered buffers. */
#ifndef MEMORY_REQUEST_H_
#define MEMORY_REQUEST_H_

#include "connection.h"

struct request {
  enum ibv_wr_opcode opcode; /* RDMA_WRITE, RDMA_READ or ATOMIC_FETCH_AND_ADD */
  struct ibv_mr* local;
  struct ibv_mr* remote;
  uint64_t local_at; /* bytes into the region */
  uint64_t remote_at;
  uint32_t length;
  uint64_t add;
};

/* Posts, signaled. Returns what ibv_post_send does. */
int try_post(struct end* end, const struct request* request);
/* Posts, or ends the program. */
void post(struct end* end, const struct request* request);
/* The status of the next completion; waits for it. GENERAL_ERR when polling fails. */
enum ibv_wc_status complete(struct end* end);
/* Both. */
enum ibv_wc_status perform(struct end* end, const struct request* request);

/* Registers with all rights, or ends the program. */
struct ibv_mr* register_all_rights(struct end* end, void* address, size_t length);

#endif /* MEMORY_REQUEST_H_ */
