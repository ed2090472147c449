/* SPDX-License-Identifier: Apache-2.0
 * Where each buffer comes from. */
#include "layouts.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>

#define PAGE 4096u
#define AREA (16u * PAGE)
#define HUGE_PAGE (2u << 20)

static uint8_t bss_area[AREA];
static uint8_t data_area[AREA] = {1};
static const uint8_t rodata_area[AREA] = {7, 7, 7};
static __thread uint8_t tls_area[AREA];

const char* layout_name(enum layout_kind kind) {
  static const char* const names[LAYOUT_KINDS] = {
      "brk",         "heap",         "arena", "large heap",   "pages",         "odd pages",
      "huge",        "bss",          "data",  "rodata",       "stack",         "thread stack",
      "tls",         "shared",       "memfd", "memfd closed", "posix shm",     "sysv shm",
      "file shared", "file private", "mixed", "hugetlb",      "hugetlb shared"};
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
  uint8_t* area = map(2 * HUGE_PAGE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  madvise(area, 2 * HUGE_PAGE, MADV_HUGEPAGE);
  return (uint8_t*)(((uintptr_t)area + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE) + 3 * PAGE;
}

static uint8_t* make_hugetlb(int flags) {
  uint8_t* area =
      mmap(NULL, HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | MAP_HUGETLB | flags, -1, 0);
  return area == MAP_FAILED ? NULL : area + 5 * PAGE + 12;
}

static uint8_t* make_memfd(int is_closed) {
  const int fd = make_file();
  uint8_t* area = map(AREA, MAP_SHARED, fd);
  if (is_closed) close(fd);
  return area + 40;
}

/* It keeps its name while the program runs: that is the way to the file. Who may have to kill the
 * program says which name, and removes it. */
static char shm_name[64];
static void remove_shm(void) { shm_unlink(shm_name); }

static uint8_t* make_posix_shm(void) {
  const char* wanted = getenv("LAYOUTS_SHM");
  if (wanted != NULL) {
    snprintf(shm_name, sizeof(shm_name), "/%s", wanted);
  } else {
    snprintf(shm_name, sizeof(shm_name), "/uroce-layouts-%d", (int)getpid());
  }
  const int fd = shm_open(shm_name, O_RDWR | O_CREAT | O_EXCL, 0600);
  if (fd < 0 || atexit(remove_shm) != 0 || ftruncate(fd, AREA) != 0) {
    perror("shm_open");
    exit(2);
  }
  uint8_t* area = map(AREA, MAP_SHARED, fd);
  close(fd);
  return area + 4;
}

static uint8_t* make_sysv_shm(void) {
  const int id = shmget(IPC_PRIVATE, AREA, 0600);
  uint8_t* area = shmat(id, NULL, 0);
  shmctl(id, IPC_RMID, NULL);
  if (id >= 0 && area != (void*)-1) return area + 2 * PAGE + 1;
  perror("shmat");
  exit(2);
}

static uint8_t* make_file_mapping(int flags) {
  char path[] = "/var/tmp/uroce-layouts-XXXXXX";
  const int fd = mkstemp(path);
  unlink(path);
  if (fd < 0 || ftruncate(fd, AREA) != 0) {
    perror(path);
    exit(2);
  }
  uint8_t* area = map(AREA, flags, fd);
  close(fd);
  return area + 16;
}

static uint8_t* make_brk(void) {
  const size_t bytes = 24u << 20;
  uint8_t* area = sbrk((intptr_t)bytes);
  if (area != (void*)-1) return area + bytes / 2 + 7;
  perror("sbrk");
  exit(2);
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
  buffers[LAYOUT_BRK] = make_brk();
  buffers[LAYOUT_HEAP] = (uint8_t*)malloc(AREA) + 8;
  buffers[LAYOUT_LARGE_HEAP] = (uint8_t*)malloc(50 * AREA) + 40 * PAGE;
  buffers[LAYOUT_PAGES] = map(AREA, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  buffers[LAYOUT_ODD_PAGES] = map(AREA, MAP_PRIVATE | MAP_ANONYMOUS, -1) + 2056;
  buffers[LAYOUT_HUGE] = make_huge();
  buffers[LAYOUT_BSS] = bss_area + 64;
  buffers[LAYOUT_DATA] = data_area + 64;
  buffers[LAYOUT_RODATA] = (uint8_t*)rodata_area + 100;
  buffers[LAYOUT_STACK] = main_stack;
  buffers[LAYOUT_SHARED] = map(AREA, MAP_SHARED | MAP_ANONYMOUS, -1) + 8;
  buffers[LAYOUT_MEMFD] = make_memfd(0);
  buffers[LAYOUT_MEMFD_CLOSED] = make_memfd(1);
  buffers[LAYOUT_POSIX_SHM] = make_posix_shm();
  buffers[LAYOUT_SYSV_SHM] = make_sysv_shm();
  buffers[LAYOUT_FILE_SHARED] = make_file_mapping(MAP_SHARED);
  buffers[LAYOUT_FILE_PRIVATE] = make_file_mapping(MAP_PRIVATE);
  buffers[LAYOUT_HUGETLB_PRIVATE] = make_hugetlb(MAP_PRIVATE);
  buffers[LAYOUT_HUGETLB_SHARED] = make_hugetlb(MAP_SHARED);
  buffers[LAYOUT_MIXED] = make_mixed();
  make_thread_buffers(buffers);
  for (int kind = 0; kind < LAYOUT_KINDS; ++kind) {
    if (buffers[kind] == NULL || kind == LAYOUT_RODATA) continue;
    for (size_t i = 0; i < LAYOUT_BYTES; ++i) buffers[kind][i] = (uint8_t)(i * 131 + kind * 17);
  }
}
