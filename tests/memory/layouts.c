/* SPDX-License-Identifier: Apache-2.0
 * Where each buffer comes from. */
#include "layouts.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096u
#define AREA (16u * PAGE)

static uint8_t bss_area[AREA];
static uint8_t data_area[AREA] = {1};
static __thread uint8_t tls_area[AREA];

const char* layout_name(enum layout_kind kind) {
  static const char* const names[LAYOUT_KINDS] = {
      "heap", "arena", "large heap",   "pages", "odd pages", "huge", "bss",
      "data", "stack", "thread stack", "tls",   "shared",    "file", "mixed"};
  return names[kind];
}

static uint8_t* map(size_t bytes, int flags, int fd) {
  uint8_t* area = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
  if (area != MAP_FAILED) return area;
  perror("mmap");
  exit(2);
}

/* A file of AREA bytes that has no name. */
static int make_file(void) {
  const int fd = memfd_create("layout", MFD_CLOEXEC);
  if (fd >= 0 && ftruncate(fd, AREA) == 0) return fd;
  perror("memfd_create");
  exit(2);
}

static uint8_t* make_huge(void) {
  const size_t huge = 2u << 20;
  uint8_t* area = map(2 * huge, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  madvise(area, 2 * huge, MADV_HUGEPAGE);
  return (uint8_t*)(((uintptr_t)area + huge - 1) / huge * huge) + 3 * PAGE;
}

static uint8_t* make_mixed(void) {
  uint8_t* area = map(AREA, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  const int fd = make_file();
  for (unsigned page = 2; page < AREA / PAGE; page += 3) {
    const int flags = MAP_FIXED | (page % 2 == 0 ? MAP_SHARED : MAP_PRIVATE);
    mmap(area + page * PAGE, PAGE, PROT_READ | PROT_WRITE, flags, fd, (off_t)page * PAGE);
  }
  return area + 700;
}

struct thread_buffers {
  pthread_barrier_t made;
  uint8_t* heap;
  uint8_t* stack;
  uint8_t* tls;
};

/* Owns a heap arena, a stack and thread-local storage as long as the program runs. */
static void* hold_thread_buffers(void* argument) {
  struct thread_buffers* buffers = argument;
  uint8_t stack_area[AREA];
  buffers->heap = (uint8_t*)malloc(AREA) + 24;
  buffers->stack = stack_area + 100;
  buffers->tls = tls_area + 1000;
  pthread_barrier_wait(&buffers->made);
  for (;;) pause();
  return NULL;
}

static void make_thread_buffers(uint8_t* buffers[LAYOUT_KINDS]) {
  static struct thread_buffers made;
  pthread_t thread;
  pthread_barrier_init(&made.made, NULL, 2);
  if (pthread_create(&thread, NULL, hold_thread_buffers, &made) != 0) exit(2);
  pthread_barrier_wait(&made.made);
  buffers[LAYOUT_ARENA] = made.heap;
  buffers[LAYOUT_THREAD_STACK] = made.stack;
  buffers[LAYOUT_TLS] = made.tls;
}

void layouts_make(uint8_t* buffers[LAYOUT_KINDS], uint8_t* main_stack) {
  buffers[LAYOUT_HEAP] = (uint8_t*)malloc(AREA) + 8;
  buffers[LAYOUT_LARGE_HEAP] = (uint8_t*)malloc(50 * AREA) + 40 * PAGE;
  buffers[LAYOUT_PAGES] = map(AREA, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  buffers[LAYOUT_ODD_PAGES] = map(AREA, MAP_PRIVATE | MAP_ANONYMOUS, -1) + 2056;
  buffers[LAYOUT_HUGE] = make_huge();
  buffers[LAYOUT_BSS] = bss_area + 64;
  buffers[LAYOUT_DATA] = data_area + 64;
  buffers[LAYOUT_STACK] = main_stack;
  buffers[LAYOUT_SHARED] = map(AREA, MAP_SHARED | MAP_ANONYMOUS, -1) + 8;
  buffers[LAYOUT_FILE] = map(AREA, MAP_PRIVATE, make_file()) + 16;
  buffers[LAYOUT_MIXED] = make_mixed();
  make_thread_buffers(buffers);
  for (int kind = 0; kind < LAYOUT_KINDS; ++kind) {
    for (size_t i = 0; i < LAYOUT_BYTES; ++i) buffers[kind][i] = (uint8_t)(i * 131 + kind * 17);
  }
}
