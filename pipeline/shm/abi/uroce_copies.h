/* SPDX-License-Identifier: Apache-2.0
 * Copy lanes: memory that a program and the daemon share, through which the program itself moves
 * bytes of its memory that the daemon does not map. Plain C, covered by UROCE_ABI_VERSION.
 */
#ifndef UROCE_COPIES_H_
#define UROCE_COPIES_H_

#include <stdint.h>

#include "pipeline/shm/abi/uroce_stage.h"

/* A copy of a process within its own memory costs a third of what it costs another process, and
 * makes no thread of the daemon wait for a lock of the address space. So a worker posts large
 * copies to its lane, and a thread of the program executes them.
 *
 * A slot is free until a worker posts a copy. The worker fills in the request, stores
 * UROCE_COPY_POSTED with the number of the copy in `state`, and, if `program_sleeps` is set,
 * changes `wakes` and wakes the thread (futex(2), shared). The thread reads the request, claims
 * the copy by a compare and swap of `state`, which fails if another copy was posted meanwhile,
 * moves the pieces in their order, with the order of bytes that uroce_stage.h asks for, and
 * stores `error`, then UROCE_COPY_DONE. If the worker sleeps (uroce_doorbells::sleeping), the
 * thread wakes it.
 *
 * A worker takes a copy back, by a compare and swap of `state`, which no thread has claimed for
 * too long: the thread may be stopped. A write that is claimed is the program's alone, since no
 * other thread knows when its last byte is moved. So a thread that is stopped during a write
 * should leave UROCE_COPY_DONE behind: where the kernel moves the pieces, it can store the state
 * behind them in the same system call.
 *
 * Neither side trusts the other: each checks what it reads, and reads it once. */
enum uroce_copy_phase {
  UROCE_COPY_FREE = 0,
  UROCE_COPY_POSTED = 1,
  UROCE_COPY_CLAIMED = 2,
  UROCE_COPY_DONE = 3,
};
/* The number of the copy is above its phase. */
#define UROCE_COPY_PHASE_MASK 3u
/* Alone in its cache line. */
struct uroce_copy_place {
  uint32_t state;
  int32_t error; /* of a copy that is done: 0 or an errno; any part of it may be done */
  uint8_t reserved[56];
};

#define UROCE_COPY_SLOTS 4u
#define UROCE_COPY_PIECES 191u
#define UROCE_COPY_DATA_BYTES (260u << 10)
/* Of a copy: the rest is the program's. */
#define UROCE_COPY_MOST_BYTES (UROCE_COPY_DATA_BYTES - 64u)

/* Written by the daemon. The bytes of the pieces follow each other in the slot's data. */
struct uroce_copy_request {
  uint32_t kind; /* enum uroce_stage_kind: READ is from the program's memory */
  uint32_t piece_count;
  uint32_t reserved[2];
  struct uroce_stage_piece pieces[UROCE_COPY_PIECES];
};

struct uroce_copy_lane {
  struct uroce_copy_place places[UROCE_COPY_SLOTS];
  struct uroce_copy_request requests[UROCE_COPY_SLOTS];
  uint8_t reserved[3840];
  uint8_t data[UROCE_COPY_SLOTS][UROCE_COPY_DATA_BYTES]; /* begins a page */
};

/* Begins the memory; the lanes follow, one for each of the first UROCE_COPY_LANES workers. */
#define UROCE_COPY_LANES 8u
struct uroce_copies {
  uint32_t program_sleeps; /* written by the program */
  uint8_t reserved_1[60];
  uint32_t wakes; /* changed by workers */
  uint8_t reserved_2[4028];
};

#endif /* UROCE_COPIES_H_ */
