/* SPDX-License-Identifier: Apache-2.0
 * The stage: memory that a program and the daemon share, through which they move bytes of the
 * program's device memory. Plain C, covered by UROCE_ABI_VERSION.
 */
#ifndef UROCE_STAGE_H_
#define UROCE_STAGE_H_

#include <stdint.h>

/* Only the program can reach the memory of its GPU. So a thread of the program moves the bytes, by
 * the driver of the device. A request that the thread never answers stops this program's copies
 * alone.
 *
 * Workers post copies of device memory to their lanes, which lie behind the stage and work as those
 * of copied memory do (uroce_copies.h). The daemon's copy helper makes the requests that no lane
 * takes, one at a time, in the stage.
 *
 * The helper fills in the request, stores the next number in `requested`, and wakes the thread as
 * workers do: if `program_sleeps` is set, it changes `wakes` and wakes those who wait for that
 * word (futex(2), shared). The thread moves the pieces in their order: no byte of a piece may
 * become visible on the device before all bytes of the pieces in front of it. It stores `error`,
 * then the number of the request in `served`, and wakes the daemon if `daemon_sleeps` is set. Each
 * side sets its own flag before it waits and looks at the other's number once more.
 *
 * Neither side trusts the other: each checks what it reads, and reads it once. */
enum uroce_stage_kind {
  UROCE_STAGE_READ = 1, /* from the device into the stage */
  UROCE_STAGE_WRITE = 2,
};
/* Contiguous bytes of device memory, and their place in `data`. */
struct uroce_stage_piece {
  uint64_t addr; /* as the program registered it */
  uint32_t offset;
  uint32_t length;
};
#define UROCE_STAGE_PIECES 192u
#define UROCE_STAGE_DATA_BYTES (512u << 10)

struct uroce_stage {
  /* Written by the daemon. */
  uint32_t requested;
  uint32_t daemon_sleeps;
  uint32_t kind; /* enum uroce_stage_kind */
  uint32_t piece_count;
  struct uroce_stage_piece pieces[UROCE_STAGE_PIECES];
  uint32_t wakes; /* also changed by workers */
  uint8_t reserved_1[44];
  /* Written by the program; begins a cache line. */
  uint32_t served;
  uint32_t program_sleeps;
  int32_t error; /* of request `served`: 0 or an errno; of a failed write any part may be done */
  uint8_t reserved_2[948];
  /* Written by both; begins a page. */
  uint8_t data[UROCE_STAGE_DATA_BYTES];
};

/* A kernel module by which adapters reach memory of a GPU, and where the RDMA modules of vendors
 * list such modules: programs that have loaded the GPU's driver look for a file `version` there,
 * and register such memory if they find one. Older programs know the second place alone. Both are
 * among the files of the devices (uroce_arena.h). */
#define UROCE_TREE_PEERMEM "/sys/module/nvidia_peermem"
#define UROCE_TREE_PEERS "/sys/kernel/mm/memory_peers"

#endif /* UROCE_STAGE_H_ */
