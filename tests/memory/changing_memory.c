/* SPDX-License-Identifier: Apache-2.0
 * What programs do to memory while it is registered, and what they register besides. Nothing of it
 * ends the program, harms other memory or keeps a later registration from being right.
 * Usage: changing_memory DEVICE DEVICE, under `uroce run`. Exit status 0 when all is right. */
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "request.h"

#define PAGE 4096u
#define BYTES (16u * PAGE)
#define SMALL 64u
#define ROUNDS 800u
#define IN_FLIGHT 4u

static struct end ends[2];
/* A buffer of the other end, which stays as it is. */
static uint8_t* other;
static struct ibv_mr* other_region;
static int wrong;

static void check(int is_right, const char* what) {
  if (is_right) return;
  fprintf(stderr, "wrong: %s\n", what);
  ++wrong;
}

static uint8_t* map_pages(size_t bytes) {
  uint8_t* pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) fail("mmap");
  return pages;
}

/* Writes `SMALL` bytes of `value` into a region of end 0, from the other end. */
static enum ibv_wc_status write_into(struct ibv_mr* region, uint64_t at, int value) {
  memset(other, value, SMALL);
  const struct request request = {.opcode = IBV_WR_RDMA_WRITE,
                                  .local = other_region,
                                  .remote = region,
                                  .remote_at = at,
                                  .length = SMALL};
  return perform(&ends[1], &request);
}

/* Reads one byte of a region of end 0. */
static int read_from(struct ibv_mr* region, uint64_t at) {
  const struct request request = {.opcode = IBV_WR_RDMA_READ,
                                  .local = other_region,
                                  .remote = region,
                                  .remote_at = at,
                                  .length = 1};
  return perform(&ends[1], &request) == IBV_WC_SUCCESS ? other[0] : -1;
}

static void unmapped(void) {
  uint8_t* pages = map_pages(BYTES);
  struct ibv_mr* region = register_all_rights(&ends[0], pages, BYTES);
  check(write_into(region, 0, 1) == IBV_WC_SUCCESS && pages[0] == 1, "before munmap");
  munmap(pages, BYTES);
  uint8_t* again = mmap(pages, BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (again != pages) fail("mmap");
  struct ibv_mr* fresh = register_all_rights(&ends[0], again, BYTES);
  check(read_from(fresh, 0) == 0, "new memory at an old address is new");
  check(write_into(fresh, 9, 2) == IBV_WC_SUCCESS && again[9] == 2, "and reached");
  check(ibv_dereg_mr(region) == 0 && ibv_dereg_mr(fresh) == 0, "deregistration after munmap");
  munmap(again, BYTES);
}

static void grown(void) {
  uint8_t* pages = map_pages(BYTES);
  struct ibv_mr* region = register_all_rights(&ends[0], pages, BYTES);
  memset(pages, 7, BYTES);
  uint8_t* moved = mremap(pages, BYTES, 3 * BYTES, MREMAP_MAYMOVE);
  if (moved == MAP_FAILED) fail("mremap");
  memset(moved + BYTES, 8, 2 * BYTES);
  struct ibv_mr* whole = register_all_rights(&ends[0], moved, 3 * BYTES);
  check(read_from(whole, 5) == 7 && read_from(whole, 3 * BYTES - 1) == 8, "contents after mremap");
  check(write_into(whole, BYTES - SMALL / 2, 3) == IBV_WC_SUCCESS, "across the old end");
  check(moved[BYTES - 1] == 3 && moved[BYTES] == 3, "both sides of the old end");
  check(ibv_dereg_mr(region) == 0 && ibv_dereg_mr(whole) == 0, "deregistration after mremap");
  munmap(moved, 3 * BYTES);
}

static void shrunk(void) {
  uint8_t* pages = map_pages(BYTES);
  struct ibv_mr* region = register_all_rights(&ends[0], pages, BYTES);
  if (mremap(pages, BYTES, PAGE, 0) != pages) fail("mremap");
  check(write_into(region, 0, 4) == IBV_WC_SUCCESS && pages[0] == 4, "what is left of a region");
  check(ibv_dereg_mr(region) == 0, "deregistration of a shrunk range");
  munmap(pages, PAGE);
}

static void advised(int advice, const char* what) {
  uint8_t* pages = map_pages(BYTES);
  struct ibv_mr* region = register_all_rights(&ends[0], pages, BYTES);
  memset(pages, 5, BYTES);
  (void)madvise(pages, BYTES, advice); /* MADV_REMOVE is for shared memory alone. */
  check(write_into(region, PAGE, 6) == IBV_WC_SUCCESS, what);
  check(pages[PAGE] == 6 && read_from(region, PAGE + 1) == 6, what);
  pages[2 * PAGE] = 9;
  check(read_from(region, 2 * PAGE) == 9, what);
  check(ibv_dereg_mr(region) == 0, what);
  munmap(pages, BYTES);
}

/* A page that a shared file does not have reads as zeros, and a write makes it, alone. */
static void sparse(void) {
  struct stat before, after;
  const int fd = memfd_create("sparse", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, BYTES) != 0) fail("memfd_create");
  uint8_t* pages = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (pages == MAP_FAILED) fail("mmap");
  struct ibv_mr* region = register_all_rights(&ends[0], pages, BYTES);
  check(fstat(fd, &before) == 0 && before.st_blocks == 0, "registering makes no pages");
  check(write_into(region, PAGE + 9, 6) == IBV_WC_SUCCESS, "a write into a hole");
  check(pages[PAGE + 8] == 0 && pages[PAGE + 9] == 6, "its bytes");
  check(fstat(fd, &after) == 0 && after.st_blocks * 512 == PAGE, "makes one page");
  check(read_from(region, 2 * PAGE) == 0, "a hole reads as zeros");
  pages[3 * PAGE] = 9;
  check(read_from(region, 3 * PAGE) == 9, "a page that the program makes is seen");
  check(ibv_dereg_mr(region) == 0, "deregistration of a sparse file");
  munmap(pages, BYTES);
  close(fd);
}

static void freed(size_t bytes) {
  uint8_t* block = malloc(bytes);
  memset(block, 1, bytes);
  struct ibv_mr* region = register_all_rights(&ends[0], block, bytes);
  free(block);
  malloc_trim(0);
  uint8_t* blocks[32];
  for (int i = 0; i < 32; ++i) blocks[i] = memset(malloc(bytes / 16), i, bytes / 16);
  uint8_t* zeros = calloc(1, bytes);
  for (size_t i = 0; i < bytes; ++i) {
    if (zeros[i] == 0) continue;
    check(0, "calloc over freed registered memory");
    break;
  }
  for (int i = 0; i < 32; ++i) check(blocks[i][bytes / 16 - 1] == i, "malloc over freed memory");
  check(ibv_dereg_mr(region) == 0, "deregistration after free");
  for (int i = 0; i < 32; ++i) free(blocks[i]);
  free(zeros);
}

/* Adds to one word through both regions at once, each from its own queue pair. */
static void add_through(struct ibv_mr* narrow, struct ibv_mr* wide, uint64_t* word) {
  static uint64_t results[2];
  struct request adds[2]; /* by the end that posts */
  for (int i = 0; i < 2; ++i) {
    struct ibv_mr* target = i == 0 ? narrow : wide;
    adds[i] = (struct request){.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
                               .local = register_all_rights(&ends[i], &results[i], 8),
                               .remote = target,
                               .remote_at = (uintptr_t)word - (uintptr_t)target->addr,
                               .length = 8,
                               .add = 1};
  }
  *word = 0;
  for (unsigned round = 0; round < ROUNDS; ++round) {
    for (unsigned n = 0; n < 2 * IN_FLIGHT; ++n) post(&ends[n % 2], &adds[n % 2]);
    for (unsigned n = 0; n < 2 * IN_FLIGHT; ++n) {
      if (complete(&ends[n % 2]) != IBV_WC_SUCCESS) fail("an atomic");
    }
  }
  check(*word == 2 * IN_FLIGHT * ROUNDS, "atomics through both regions exclude each other");
  for (int i = 0; i < 2; ++i) ibv_dereg_mr(adds[i].local);
}

/* A region of a few bytes in a page of the heap is copied; one around it is mapped. */
static void nested(void) {
  uint8_t* block = malloc(BYTES);
  uint64_t* word = (uint64_t*)(((uintptr_t)block + 5 * PAGE) & ~(uintptr_t)63);
  struct ibv_mr* narrow = register_all_rights(&ends[1], word, 8);
  struct ibv_mr* wide = register_all_rights(&ends[0], block, BYTES);
  add_through(narrow, wide, word);
  check(ibv_dereg_mr(wide) == 0, "deregistration of the outer region");
  /* Remapped once more, under the region that still is. */
  wide = register_all_rights(&ends[0], block, BYTES);
  add_through(narrow, wide, word);
  check(ibv_dereg_mr(wide) == 0 && ibv_dereg_mr(narrow) == 0, "deregistration of both");
  free(block);
}

static void check_errno(void* address, size_t length, int expected, const char* what) {
  errno = 0;
  check(ibv_reg_mr(ends[0].pd, address, length, IBV_ACCESS_LOCAL_WRITE) == NULL, what);
  check(errno == expected, what);
}

static void refused(void) {
  uint8_t* pages = map_pages(4 * PAGE);
  munmap(pages + 2 * PAGE, PAGE);
  struct ibv_mr* none = ibv_reg_mr(ends[0].pd, pages, 0, IBV_ACCESS_LOCAL_WRITE);
  check(none != NULL && ibv_dereg_mr(none) == 0, "no bytes");
  check_errno(pages, SIZE_MAX, EINVAL, "a range that wraps");
  check_errno(NULL, SIZE_MAX - PAGE, EFAULT, "the whole address space");
  check_errno(pages, 4 * PAGE, EFAULT, "a hole");
  check_errno((void*)"constant", 4, EFAULT, "constants, to be written to");
  check_errno(NULL, 8, EFAULT, "null");
  munmap(pages, 4 * PAGE);
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  connect_ends(ends, (const char* const*)argv + 1);
  other = map_pages(PAGE);
  other_region = register_all_rights(&ends[1], other, PAGE);
  refused();
  unmapped();
  grown();
  shrunk();
  advised(MADV_DONTNEED, "MADV_DONTNEED");
  advised(MADV_REMOVE, "MADV_REMOVE");
  sparse();
  freed(100000);
  freed(5000000);
  nested();
  return wrong == 0 ? 0 : 1;
}
