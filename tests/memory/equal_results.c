/* SPDX-License-Identifier: Apache-2.0
 * Transfers between buffers in every kind of memory, while other threads write beside them. Checks
 * every byte against a model. Prints the kinds of memory that there are, and a digest, which must
 * be the same in every mode of UROCE_MR where the kinds are the same. Usage: equal_results [DEVICE
 * DEVICE [hold]], under `uroce run`. Exit status 0 when all is right. With `hold` it registers all,
 * prints "ADDRESS KIND" for each, then "held", and waits to be ended by a signal. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "connection.h"
#include "layouts.h"

#define ROUNDS 6
#define OPERATIONS 300
/* The writers' words lie at a fixed distance from the end of each buffer; transfers stay below. */
#define WRITERS 2
#define WRITER_WORDS 8
#define TRANSFER_BYTES (LAYOUT_BYTES - 8 * WRITERS * WRITER_WORDS - 16)

static uint8_t* buffers[LAYOUT_KINDS];
static int kinds[LAYOUT_KINDS]; /* those that there are, RODATA last */
static int kind_count;
static uint8_t models[LAYOUT_KINDS][LAYOUT_BYTES];
static struct ibv_mr* regions[2][LAYOUT_KINDS];
static struct end ends[2];

static uint64_t random_state = 88172645463325252ull;
static uint64_t next_random(uint64_t bound) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return random_state % bound;
}

/* ---- writers: each adds to its own words in every buffer, all the time ---- */

struct writer {
  pthread_t thread;
  uint64_t counts[LAYOUT_KINDS][WRITER_WORDS];
  int index;
};
static struct writer writers[WRITERS];
static atomic_int stop;

static int is_writable(int kind) { return buffers[kind] != NULL && kind != LAYOUT_RODATA; }

static volatile uint64_t* writer_word(int kind, int writer, int word) {
  const uintptr_t end = ((uintptr_t)buffers[kind] + LAYOUT_BYTES) & ~(uintptr_t)7;
  return (volatile uint64_t*)end - 1 - word * WRITERS - writer;
}

static void* write_beside(void* argument) {
  struct writer* self = argument;
  while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
    for (int kind = 0; kind < LAYOUT_KINDS; ++kind) {
      if (!is_writable(kind)) continue;
      for (int word = 0; word < WRITER_WORDS; ++word) {
        *writer_word(kind, self->index, word) += 1;
        ++self->counts[kind][word];
      }
    }
    sched_yield(); /* The daemon may have to share this core. */
  }
  return NULL;
}

static void start_writers(void) {
  atomic_store(&stop, 0);
  for (int i = 0; i < WRITERS; ++i) {
    writers[i].index = i;
    for (int kind = 0; kind < LAYOUT_KINDS; ++kind) {
      if (!is_writable(kind)) continue;
      for (int word = 0; word < WRITER_WORDS; ++word) {
        writers[i].counts[kind][word] = *writer_word(kind, i, word);
      }
    }
    if (pthread_create(&writers[i].thread, NULL, write_beside, &writers[i]) != 0) fail("thread");
  }
}

static int stop_writers(void) {
  int lost = 0;
  atomic_store(&stop, 1);
  for (int i = 0; i < WRITERS; ++i) pthread_join(writers[i].thread, NULL);
  for (int i = 0; i < WRITERS; ++i) {
    for (int kind = 0; kind < LAYOUT_KINDS; ++kind) {
      if (!is_writable(kind)) continue;
      for (int word = 0; word < WRITER_WORDS; ++word) {
        if (*writer_word(kind, i, word) == writers[i].counts[kind][word]) continue;
        fprintf(stderr, "%s: a write of this program was lost\n", layout_name(kind));
        ++lost;
      }
    }
  }
  return lost;
}

/* ---- regions ---- */

static int access_of(int kind) {
  if (kind == LAYOUT_RODATA) return IBV_ACCESS_REMOTE_READ;
  return IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
         IBV_ACCESS_REMOTE_ATOMIC;
}

static void register_all(void) {
  for (int k = 0; k < kind_count; ++k) {
    const int kind = kinds[k];
    for (int i = 0; i < 2; ++i) {
      regions[i][kind] = ibv_reg_mr(ends[i].pd, buffers[kind], LAYOUT_BYTES, access_of(kind));
      if (regions[i][kind] == NULL) fail(layout_name((enum layout_kind)kind));
    }
  }
}

static void deregister_all(void) {
  for (int k = 0; k < kind_count; ++k) {
    for (int i = 0; i < 2; ++i) {
      if (ibv_dereg_mr(regions[i][kinds[k]]) != 0) fail("ibv_dereg_mr");
    }
  }
}

/* ---- operations ---- */

struct operation {
  enum ibv_wr_opcode opcode;
  int end;   /* which one posts */
  int local; /* kinds */
  int remote;
  uint32_t local_at;
  uint32_t remote_at;
  uint32_t length;
  uint64_t add;
  uint64_t compare;
};

static int is_atomic(const struct operation* op) {
  return op->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || op->opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
}

/* Two different kinds; the one that is written to is writable. */
static void choose_kinds(struct operation* op) {
  const int into = (int)next_random((uint64_t)kind_count - 1);
  const int other = (into + 1 + (int)next_random((uint64_t)kind_count - 1)) % kind_count;
  const int into_local = op->opcode == IBV_WR_RDMA_READ;
  op->local = kinds[into_local ? into : other];
  op->remote = kinds[into_local ? other : into];
  if (is_atomic(op) && op->local == LAYOUT_RODATA) op->local = op->remote;
}

static void choose_atomic(struct operation* op) {
  const uintptr_t aligned = ((uintptr_t)buffers[op->remote] + op->remote_at + 7) & ~(uintptr_t)7;
  op->remote_at = (uint32_t)(aligned - (uintptr_t)buffers[op->remote]);
  op->add = next_random(1u << 30);
  op->compare = 0;
  if (next_random(2) != 0) memcpy(&op->compare, models[op->remote] + op->remote_at, 8);
}

static struct operation choose_operation(void) {
  static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_SEND,
                                               IBV_WR_ATOMIC_FETCH_AND_ADD,
                                               IBV_WR_ATOMIC_CMP_AND_SWP};
  struct operation op = {.opcode = opcodes[next_random(5)], .end = (int)next_random(2)};
  choose_kinds(&op);
  op.length = is_atomic(&op) ? 8 : (uint32_t)next_random(9000);
  op.local_at = (uint32_t)next_random(TRANSFER_BYTES - op.length);
  op.remote_at = (uint32_t)next_random(TRANSFER_BYTES - op.length - 8);
  if (is_atomic(&op)) choose_atomic(&op);
  return op;
}

static void post_receive(const struct operation* op) {
  const int end = 1 - op->end;
  struct ibv_sge sge = {.addr = (uintptr_t)buffers[op->remote] + op->remote_at,
                        .length = op->length,
                        .lkey = regions[end][op->remote]->lkey};
  struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1};
  struct ibv_recv_wr* bad;
  if (ibv_post_recv(ends[end].qp, &wr, &bad) != 0) fail("ibv_post_recv");
}

static void post(const struct operation* op) {
  struct ibv_sge sge = {.addr = (uintptr_t)buffers[op->local] + op->local_at,
                        .length = op->length,
                        .lkey = regions[op->end][op->local]->lkey};
  struct ibv_send_wr wr = {
      .sg_list = &sge, .num_sge = 1, .opcode = op->opcode, .send_flags = IBV_SEND_SIGNALED};
  const uint64_t remote_addr = (uintptr_t)buffers[op->remote] + op->remote_at;
  const uint32_t rkey = regions[1 - op->end][op->remote]->rkey;
  if (is_atomic(op)) {
    wr.wr.atomic.remote_addr = remote_addr;
    wr.wr.atomic.rkey = rkey;
    const int adds = op->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
    wr.wr.atomic.compare_add = adds ? op->add : op->compare;
    wr.wr.atomic.swap = op->add;
  } else if (op->opcode != IBV_WR_SEND) {
    wr.wr.rdma.remote_addr = remote_addr;
    wr.wr.rdma.rkey = rkey;
  }
  struct ibv_send_wr* bad;
  if (ibv_post_send(ends[op->end].qp, &wr, &bad) != 0) fail("ibv_post_send");
}

static void complete(const struct operation* op, int end) {
  struct ibv_wc wc;
  int count;
  do {
    count = ibv_poll_cq(ends[end].cq, 1, &wc);
  } while (count == 0);
  if (count == 1 && wc.status == IBV_WC_SUCCESS) return;
  fprintf(stderr, "%s to %s: %s\n", layout_name((enum layout_kind)op->local),
          layout_name((enum layout_kind)op->remote), ibv_wc_status_str(wc.status));
  exit(1);
}

static void apply_to_models(const struct operation* op) {
  uint8_t* local = models[op->local] + op->local_at;
  uint8_t* remote = models[op->remote] + op->remote_at;
  if (op->opcode == IBV_WR_RDMA_WRITE || op->opcode == IBV_WR_SEND) {
    memcpy(remote, local, op->length);
  }
  if (op->opcode == IBV_WR_RDMA_READ) memcpy(local, remote, op->length);
  if (is_atomic(op)) {
    uint64_t value;
    memcpy(&value, remote, sizeof(value));
    uint64_t updated = value + op->add;
    if (op->opcode == IBV_WR_ATOMIC_CMP_AND_SWP) updated = value == op->compare ? op->add : value;
    memcpy(remote, &updated, sizeof(updated));
    memcpy(local, &value, sizeof(value));
  }
}

static int compare_with_models(void) {
  int wrong = 0;
  for (int k = 0; k < kind_count; ++k) {
    const int kind = kinds[k];
    if (memcmp(buffers[kind], models[kind], TRANSFER_BYTES) == 0) continue;
    fprintf(stderr, "%s: wrong contents\n", layout_name((enum layout_kind)kind));
    ++wrong;
  }
  return wrong;
}

static uint64_t digest(void) {
  uint64_t sum = 14695981039346656037ull;
  for (int k = 0; k < kind_count; ++k) {
    const uint8_t* buffer = buffers[kinds[k]];
    for (size_t i = 0; i < TRANSFER_BYTES; ++i) sum = (sum ^ buffer[i]) * 1099511628211ull;
  }
  return sum;
}

static int run_round(void) {
  start_writers();
  register_all();
  for (int i = 0; i < OPERATIONS; ++i) {
    const struct operation op = choose_operation();
    if (op.opcode == IBV_WR_SEND) post_receive(&op);
    post(&op);
    complete(&op, op.end);
    if (op.opcode == IBV_WR_SEND) complete(&op, 1 - op.end);
    apply_to_models(&op);
  }
  deregister_all();
  return stop_writers() + compare_with_models();
}

static void list_kinds(void) {
  for (int kind = 0; kind < LAYOUT_KINDS; ++kind) {
    if (is_writable(kind)) kinds[kind_count++] = kind;
  }
  kinds[kind_count++] = LAYOUT_RODATA;
  for (int k = 0; k < kind_count; ++k) memcpy(models[kinds[k]], buffers[kinds[k]], LAYOUT_BYTES);
}

static void hold(void) {
  register_all();
  for (int k = 0; k < kind_count; ++k) {
    printf("%p %s\n", (void*)buffers[kinds[k]], layout_name((enum layout_kind)kinds[k]));
  }
  printf("held\n");
  fflush(stdout);
  for (;;) pause();
}

int main(int argc, char** argv) {
  uint8_t stack_area[LAYOUT_BYTES + 100];
  const char* const names[2] = {argc > 1 ? argv[1] : "uroce0", argc > 2 ? argv[2] : "uroce1"};
  connect_ends(ends, names);
  layouts_make(buffers, stack_area + 33);
  list_kinds();
  if (argc > 3) hold();
  printf("kinds:");
  for (int k = 0; k < kind_count; ++k) printf(" %s,", layout_name((enum layout_kind)kinds[k]));
  printf("\n");
  int wrong = 0;
  for (int round = 0; round < ROUNDS; ++round) wrong += run_round();
  printf("digest %016llx\n", (unsigned long long)digest());
  return wrong == 0 ? 0 : 1;
}
