/* SPDX-License-Identifier: Apache-2.0
 * Random steps of threads that allocate, register, transfer, deregister and free, under whichever
 * allocator is preloaded. Every byte is known: each block has a shadow, which no allocator made,
 * and calloc's are zero. Usage: allocator_steps DEVICE DEVICE THREADS STEPS SEED, under `uroce
 * run`. Prints the bytes that are wrong. Exit status 0 when none is. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "request.h"

#define BLOCKS 24u
#define MOST_BYTES (1u << 20)
#define PAGE 4096u

static const char* names[2];
static uint64_t steps_each, first_seed;
static atomic_ulong wrong_bytes;
static int (*trim)(size_t);

struct block {
  uint8_t* bytes; /* NULL: none */
  uint8_t* shadow;
  size_t length;
  int end;
  struct ibv_mr* region; /* NULL: not registered */
};

struct walker {
  pthread_t thread;
  uint64_t random;
  struct end ends[2];
  struct block blocks[BLOCKS];
};

static uint64_t draw(struct walker* walker) {
  walker->random ^= walker->random << 13;
  walker->random ^= walker->random >> 7;
  walker->random ^= walker->random << 17;
  return walker->random;
}

static void* map(size_t bytes) {
  void* pages =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) fail("mmap");
  return pages;
}

static void check(const struct block* block, const char* when) {
  if (memcmp(block->bytes, block->shadow, block->length) == 0) return;
  size_t wrong = 0;
  for (size_t i = 0; i < block->length; ++i) wrong += block->bytes[i] != block->shadow[i];
  fprintf(stderr, "%zu of %zu bytes wrong %s\n", wrong, block->length, when);
  atomic_fetch_add(&wrong_bytes, wrong);
  memcpy(block->shadow, block->bytes, block->length);
}

static void scribble(struct walker* walker, struct block* block) {
  const size_t from = draw(walker) % block->length;
  const size_t count = draw(walker) % (block->length - from) + 1;
  memset(block->bytes + from, (int)draw(walker), count);
  memcpy(block->shadow + from, block->bytes + from, count);
}

static size_t draw_length(struct walker* walker) {
  const unsigned bits = 4 + (unsigned)(draw(walker) % 17);
  const size_t length = ((size_t)1 << bits) + draw(walker) % ((size_t)1 << bits);
  return length < MOST_BYTES ? length : MOST_BYTES;
}

static void allocate(struct walker* walker, struct block* block) {
  block->length = draw_length(walker);
  block->end = (int)(draw(walker) % 2);
  const int is_zeroed = draw(walker) % 2 == 0;
  block->bytes = is_zeroed ? calloc(1, block->length) : malloc(block->length);
  if (block->bytes == NULL) fail("malloc");
  memset(block->shadow, 0, block->length);
  if (is_zeroed) {
    check(block, "in new memory of calloc's");
  } else {
    memset(block->bytes, 0, block->length);
  }
  scribble(walker, block);
}

/* Memory that the program drops itself, with libc or without, once no region covers it. */
static void drop_pages(struct block* block, int has_libc) {
  uint8_t* start = (uint8_t*)(((uintptr_t)block->bytes + PAGE - 1) & ~(uintptr_t)(PAGE - 1));
  uint8_t* end = (uint8_t*)((uintptr_t)(block->bytes + block->length) & ~(uintptr_t)(PAGE - 1));
  if (end <= start) return;
  const size_t length = (size_t)(end - start);
  const long result = has_libc ? madvise(start, length, MADV_DONTNEED)
                               : syscall(SYS_madvise, start, length, MADV_DONTNEED);
  if (result != 0) fail("madvise");
  memset(block->shadow + (start - block->bytes), 0, length);
  check(block, "after MADV_DONTNEED");
}

static void register_block(struct walker* walker, struct block* block) {
  block->region = register_all_rights(&walker->ends[block->end], block->bytes, block->length);
  check(block, "after registration");
}

static void deregister(struct block* block) {
  if (ibv_dereg_mr(block->region) != 0) fail("ibv_dereg_mr");
  block->region = NULL;
  check(block, "after deregistration");
}

static void release(struct walker* walker, struct block* block) {
  if (block->region != NULL) deregister(block);
  const uint64_t how = draw(walker) % 8;
  if (how < 2) drop_pages(block, how == 0);
  free(block->bytes);
  block->bytes = NULL;
  if (trim != NULL && draw(walker) % 16 == 0) trim(0);
}

static void receive(struct end* end, const struct block* block, uint32_t length) {
  struct ibv_sge sge = {(uintptr_t)block->bytes, length, block->region->lkey};
  struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1};
  struct ibv_recv_wr* bad;
  if (ibv_post_recv(end->qp, &wr, &bad) != 0) fail("ibv_post_recv");
}

/* WRITE or SEND to the other block, or READ from it: as far as the shorter one goes. */
static void transfer(struct walker* walker, struct block* local, struct block* remote) {
  static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_SEND};
  struct end* other = &walker->ends[remote->end];
  const size_t shorter = local->length < remote->length ? local->length : remote->length;
  const struct request request = {.opcode = opcodes[draw(walker) % 3],
                                  .local = local->region,
                                  .remote = remote->region,
                                  .length = (uint32_t)shorter};
  if (request.opcode == IBV_WR_SEND) receive(other, remote, request.length);
  if (perform(&walker->ends[local->end], &request) != IBV_WC_SUCCESS) fail("a transfer");
  if (request.opcode == IBV_WR_SEND && complete(other) != IBV_WC_SUCCESS) fail("a receive");
  const int is_read = request.opcode == IBV_WR_RDMA_READ;
  memcpy(is_read ? local->shadow : remote->shadow, is_read ? remote->shadow : local->shadow,
         shorter);
  check(local, "of the local block after a transfer");
  check(remote, "of the remote block after a transfer");
}

static void step(struct walker* walker) {
  struct block* block = &walker->blocks[draw(walker) % BLOCKS];
  struct block* other = &walker->blocks[draw(walker) % BLOCKS];
  const uint64_t what = draw(walker) % 8;
  if (block->bytes == NULL) {
    allocate(walker, block);
  } else if (what == 0) {
    release(walker, block);
  } else if (what == 1) {
    scribble(walker, block);
  } else if (block->region == NULL) {
    register_block(walker, block);
  } else if (what < 6 && other->region != NULL && other->end != block->end) {
    transfer(walker, block, other);
  } else {
    deregister(block);
  }
}

static void* walk(void* argument) {
  struct walker* walker = argument;
  connect_ends(walker->ends, names);
  uint8_t* shadows = map((size_t)BLOCKS * MOST_BYTES);
  for (unsigned i = 0; i < BLOCKS; ++i) walker->blocks[i].shadow = shadows + (size_t)i * MOST_BYTES;
  for (uint64_t i = 0; i < steps_each; ++i) step(walker);
  for (unsigned i = 0; i < BLOCKS; ++i) {
    if (walker->blocks[i].bytes != NULL) release(walker, &walker->blocks[i]);
  }
  return NULL;
}

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  memcpy(names, argv + 1, sizeof(names));
  const unsigned threads = (unsigned)atoi(argv[3]);
  steps_each = strtoull(argv[4], NULL, 10) / threads;
  first_seed = strtoull(argv[5], NULL, 10);
  *(void**)&trim = dlsym(RTLD_DEFAULT, "malloc_trim");
  struct walker* walkers = map(threads * sizeof(*walkers));
  for (unsigned i = 0; i < threads; ++i) {
    walkers[i].random = (first_seed * 64 + i + 1) * 0x9e3779b97f4a7c15u;
    if (pthread_create(&walkers[i].thread, NULL, walk, &walkers[i]) != 0) fail("pthread_create");
  }
  for (unsigned i = 0; i < threads; ++i) pthread_join(walkers[i].thread, NULL);
  printf("seed %llu: %lu bytes wrong\n", (unsigned long long)first_seed, atomic_load(&wrong_bytes));
  return atomic_load(&wrong_bytes) == 0 ? 0 : 1;
}
