/* SPDX-License-Identifier: Apache-2.0
 * A job of MPI whose ranks exchange data with each other in all ways that are common, and look at
 * every word of it: MPI_Allreduce, MPI_Alltoall, a ring of MPI_Sendrecv, MPI_Bcast and MPI_Put,
 * from a word to a megabyte.
 *
 *   mpi_check [ROUNDS]
 *
 * Prints "N collectives, every word right" by rank 0. Exit status 1 at the first wrong word. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST_WORDS (1 << 17)

static int rank, ranks;
static uint64_t collectives;

/* What `from` sends to `to` as word `place` in a round; every argument changes it. */
static uint64_t word(uint64_t round, int from, int to, int place) {
  const uint64_t key = round << 40 ^ (uint64_t)from << 34 ^ (uint64_t)to << 28 ^ (uint64_t)place;
  return (key ^ key >> 31) * 0x9e3779b97f4a7c15;
}

static void check(uint64_t found, uint64_t wanted, const char* what, int place) {
  if (found == wanted) return;
  fprintf(stderr, "mpi_check: rank %d, %s, word %d: %016llx, not %016llx\n", rank, what, place,
          (unsigned long long)found, (unsigned long long)wanted);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void allreduce(uint64_t round, uint64_t* out, uint64_t* in, int words) {
  for (int i = 0; i < words; ++i) out[i] = word(round, rank, 0, i);
  MPI_Allreduce(out, in, words, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  for (int i = 0; i < words; ++i) {
    uint64_t sum = 0;
    for (int from = 0; from < ranks; ++from) sum += word(round, from, 0, i);
    check(in[i], sum, "MPI_Allreduce", i);
  }
}

static void alltoall(uint64_t round, uint64_t* out, uint64_t* in, int words) {
  const int each = words / ranks;
  for (int i = 0; i < each * ranks; ++i) out[i] = word(round, rank, i / each, i % each);
  MPI_Alltoall(out, each, MPI_UINT64_T, in, each, MPI_UINT64_T, MPI_COMM_WORLD);
  for (int i = 0; i < each * ranks; ++i) {
    check(in[i], word(round, i / each, rank, i % each), "MPI_Alltoall", i);
  }
}

static void ring(uint64_t round, uint64_t* out, uint64_t* in, int words) {
  const int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
  for (int i = 0; i < words; ++i) out[i] = word(round, rank, next, i);
  MPI_Sendrecv(out, words, MPI_UINT64_T, next, 1, in, words, MPI_UINT64_T, last, 1, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  for (int i = 0; i < words; ++i) check(in[i], word(round, last, rank, i), "MPI_Sendrecv", i);
}

static void broadcast(uint64_t round, uint64_t* data, int words) {
  const int root = (int)(round % (uint64_t)ranks);
  for (int i = 0; i < words; ++i) data[i] = rank == root ? word(round, root, root, i) : 0;
  MPI_Bcast(data, words, MPI_UINT64_T, root, MPI_COMM_WORLD);
  for (int i = 0; i < words; ++i) check(data[i], word(round, root, root, i), "MPI_Bcast", i);
}

/* Each rank writes into the window of the next one. */
static void put(uint64_t round, MPI_Win window, uint64_t* out, const uint64_t* in, int words) {
  const int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
  for (int i = 0; i < words; ++i) out[i] = word(round, rank, next, i);
  MPI_Win_fence(0, window);
  MPI_Put(out, words, MPI_UINT64_T, next, 0, words, MPI_UINT64_T, window);
  MPI_Win_fence(0, window);
  for (int i = 0; i < words; ++i) check(in[i], word(round, last, rank, i), "MPI_Put", i);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int rounds = argc > 1 ? atoi(argv[1]) : 3;
  uint64_t* out = malloc(MOST_WORDS * sizeof(*out));
  uint64_t* in = NULL;
  MPI_Win window;
  MPI_Win_allocate(MOST_WORDS * sizeof(*in), sizeof(*in), MPI_INFO_NULL, MPI_COMM_WORLD, &in,
                   &window);
  if (out == NULL || in == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
  uint64_t round = 0;
  for (int i = 0; i < rounds; ++i) {
    for (int words = ranks; words <= MOST_WORDS; words *= 8, ++round) {
      allreduce(round, out, in, words);
      alltoall(round, out, in, words);
      ring(round, out, in, words);
      broadcast(round, in, words);
      put(round, window, out, in, words);
      collectives += 5;
    }
  }
  MPI_Win_free(&window);
  free(out);
  if (rank == 0) printf("%llu collectives, every word right\n", (unsigned long long)collectives);
  MPI_Finalize();
  return 0;
}
