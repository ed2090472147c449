/* SPDX-License-Identifier: Apache-2.0
 * Buffers in every kind of memory that a program may register. */
#ifndef MEMORY_LAYOUTS_H_
#define MEMORY_LAYOUTS_H_

#include <stddef.h>
#include <stdint.h>

/* Of every buffer; a multiple of neither the page nor the word. */
#define LAYOUT_BYTES 40013u

enum layout_kind {
  LAYOUT_BRK, /* in a brk heap that has just grown by much */
  LAYOUT_HEAP,
  LAYOUT_ARENA,      /* another thread's part of the heap */
  LAYOUT_LARGE_HEAP, /* malloc's own mapping */
  LAYOUT_PAGES,
  LAYOUT_ODD_PAGES, /* starts and ends inside pages that others use */
  LAYOUT_HUGE,      /* transparent huge pages */
  LAYOUT_BSS,
  LAYOUT_DATA,
  LAYOUT_RODATA, /* may be read only */
  LAYOUT_STACK,
  LAYOUT_THREAD_STACK,
  LAYOUT_TLS,
  LAYOUT_SHARED,       /* anonymous */
  LAYOUT_MEMFD,        /* its fd is still open */
  LAYOUT_MEMFD_CLOSED, /* and here it is not */
  LAYOUT_POSIX_SHM,
  LAYOUT_SYSV_SHM,
  LAYOUT_FILE_SHARED, /* of a directory that may be on a disk */
  LAYOUT_FILE_PRIVATE,
  LAYOUT_MIXED, /* private, shared and file pages in turn */
  LAYOUT_HUGETLB_PRIVATE,
  LAYOUT_HUGETLB_SHARED, /* the last two: NULL where no huge pages are reserved */
  LAYOUT_KINDS
};

const char* layout_name(enum layout_kind kind);

/* The buffers of all kinds, filled with the same bytes in every run; NULL where the machine has no
 * such memory. They live until the program ends, and nothing of them longer. */
void layouts_make(uint8_t* buffers[LAYOUT_KINDS], uint8_t* main_stack);

#endif /* MEMORY_LAYOUTS_H_ */
