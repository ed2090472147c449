/* SPDX-License-Identifier: Apache-2.0
 * One region over many mappings, each of another file, as SPDK has its huge pages: 4 KB WRITEs into
 * all of it, which must arrive where they belong. Usage: many_mappings DEVICE DEVICE MAPPINGS
 * BYTES_EACH WRITES [hold], under `uroce run`. Prints WRITEs per second; with `hold` it then waits
 * for its end. Exit status 0 when all is right. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "request.h"

#define BLOCK 4096u
#define IN_FLIGHT 8u

static struct end ends[2];

/* Mapped next to each other, in falling order of their making, so that no two are one. */
static uint8_t* map_files(size_t count, size_t bytes) {
  uint8_t* area =
      mmap(NULL, count * bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (area == MAP_FAILED) fail("mmap");
  for (size_t i = count; i-- > 0;) {
    const int fd = memfd_create("part", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0) fail("memfd_create");
    void* at = mmap(area + i * bytes, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
    if (at == MAP_FAILED) fail("mmap");
    close(fd);
  }
  return area;
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Block `index` of the source holds its number, and goes to a place that its number tells. */
static uint64_t place_of(uint64_t index, uint64_t blocks) { return index * 7919 % blocks; }

static double write_all(struct ibv_mr* source, struct ibv_mr* target, uint64_t writes) {
  const uint64_t blocks = target->length / BLOCK;
  const double start = now();
  for (uint64_t i = 0; i < writes + IN_FLIGHT; ++i) {
    if (i >= IN_FLIGHT && complete(&ends[1]) != IBV_WC_SUCCESS) fail("a WRITE");
    if (i >= writes) continue;
    *(uint64_t*)((uint8_t*)source->addr + i % (2 * IN_FLIGHT) * BLOCK) = i + 1;
    const struct request request = {.opcode = IBV_WR_RDMA_WRITE,
                                    .local = source,
                                    .local_at = i % (2 * IN_FLIGHT) * BLOCK,
                                    .remote = target,
                                    .remote_at = place_of(i, blocks) * BLOCK,
                                    .length = BLOCK};
    post(&ends[1], &request);
  }
  return (double)writes / (now() - start);
}

int main(int argc, char** argv) {
  if (argc < 6) return 2;
  const size_t count = strtoull(argv[3], NULL, 10), bytes = strtoull(argv[4], NULL, 10);
  const uint64_t writes = strtoull(argv[5], NULL, 10), blocks = count * bytes / BLOCK;
  setvbuf(stdout, NULL, _IOLBF, 0);
  connect_ends(ends, (const char* const*)argv + 1);
  uint8_t* memory = map_files(count, bytes);
  uint8_t* source =
      mmap(NULL, 2 * IN_FLIGHT * BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const double start = now();
  struct ibv_mr* target = register_all_rights(&ends[0], memory, count * bytes);
  printf("registered in %.3f s\n", now() - start);
  struct ibv_mr* from = register_all_rights(&ends[1], source, 2 * IN_FLIGHT * BLOCK);
  printf("%.0f WRITEs a second\n", write_all(from, target, writes));
  int wrong = 0;
  const uint64_t seen = writes < blocks ? writes : blocks;
  for (uint64_t i = writes - seen; i < writes; ++i) {
    wrong += *(uint64_t*)(memory + place_of(i, blocks) * BLOCK) != i + 1;
  }
  if (argc > 6) pause();
  if (ibv_dereg_mr(target) != 0 || ibv_dereg_mr(from) != 0) fail("ibv_dereg_mr");
  printf("%d blocks wrong\n", wrong);
  return wrong == 0 ? 0 : 1;
}
