/* SPDX-License-Identifier: Apache-2.0
 * What a program may do with memory has the same effect whether the memory is registered, was, or
 * never was. Each row of the table in docs/protocol/registered-memory.md, section 1, is an
 * operation here. Usage: ordinary_memory DEVICE DEVICE, under `uroce run`. Prints the rows that
 * differ. Exit status 0 when only those do that the table names. */
#include <errno.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "request.h"

#define PAGE 4096u
#define PAGES 16u
#define BYTES (PAGES * PAGE)
#define FILL 0x5a
/* Answers of operations that look at bytes. */
#define ZEROS 1000
#define KEPT 1001
#define MIXED 1002
#define ENDED 1003 /* a child, by a signal */

static struct end ends[2];

static int error_of(long result) { return result < 0 ? errno : 0; }

static int look_at(const uint8_t* bytes, size_t count) {
  size_t zeros = 0, kept = 0;
  for (size_t i = 0; i < count; ++i) {
    zeros += bytes[i] == 0;
    kept += bytes[i] == FILL;
  }
  if (zeros == count) return ZEROS;
  return kept == count ? KEPT : MIXED;
}

/* The error of an advice, or what the memory holds after it. */
static int advised(uint8_t* pages, int advice) {
  return madvise(pages, BYTES, advice) != 0 ? errno : look_at(pages, BYTES);
}

static int dont_need(uint8_t* pages) { return advised(pages, MADV_DONTNEED); }
static int dont_need_part(uint8_t* pages) {
  if (madvise(pages + 3 * PAGE, 2 * PAGE, MADV_DONTNEED) != 0) return errno;
  return look_at(pages + 3 * PAGE, 2 * PAGE) * 10 + (look_at(pages, 3 * PAGE) == KEPT);
}
static int dont_need_without_libc(uint8_t* pages) {
  const long result = syscall(SYS_madvise, pages, BYTES, MADV_DONTNEED);
  return result != 0 ? errno : look_at(pages, BYTES);
}
/* The kernel may clear the pages at once, or never: what is written afterwards stays. */
static int free_lazily(uint8_t* pages) {
  if (madvise(pages, BYTES, MADV_FREE) != 0) return errno;
  memset(pages, FILL, BYTES);
  return look_at(pages, BYTES);
}
static int remove_pages(uint8_t* pages) { return advised(pages, MADV_REMOVE); }
static int cold(uint8_t* pages) { return advised(pages, MADV_COLD); }
static int page_out(uint8_t* pages) { return advised(pages, MADV_PAGEOUT); }
static int will_need(uint8_t* pages) { return advised(pages, MADV_WILLNEED); }
static int populate_read(uint8_t* pages) { return advised(pages, MADV_POPULATE_READ); }
static int populate_write(uint8_t* pages) { return advised(pages, MADV_POPULATE_WRITE); }
static int huge_page(uint8_t* pages) { return advised(pages, MADV_HUGEPAGE); }
static int no_huge_page(uint8_t* pages) { return advised(pages, MADV_NOHUGEPAGE); }
static int mergeable(uint8_t* pages) { return advised(pages, MADV_MERGEABLE); }
static int dont_dump(uint8_t* pages) { return advised(pages, MADV_DONTDUMP); }
static int sequential(uint8_t* pages) { return advised(pages, MADV_SEQUENTIAL); }
static int wrong_advice(uint8_t* pages) { return advised(pages, 12345); }

/* What a child sees, which also writes there, and what the parent has then. */
static int seen_by_child(uint8_t* pages) {
  const pid_t pid = fork();
  if (pid == 0) {
    const int seen = look_at(pages, BYTES);
    memset(pages, 1, BYTES);
    _exit(seen - ZEROS);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  const int seen = WIFEXITED(status) ? ZEROS + WEXITSTATUS(status) : ENDED;
  return seen * 10 + (look_at(pages, BYTES) == KEPT);
}
static int fork_alone(uint8_t* pages) { return seen_by_child(pages); }
static int wipe_on_fork(uint8_t* pages) {
  return madvise(pages, BYTES, MADV_WIPEONFORK) != 0 ? errno : seen_by_child(pages);
}
static int keep_on_fork(uint8_t* pages) {
  madvise(pages, BYTES, MADV_WIPEONFORK);
  return madvise(pages, BYTES, MADV_KEEPONFORK) != 0 ? errno : seen_by_child(pages);
}
static int dont_fork(uint8_t* pages) {
  return madvise(pages, BYTES, MADV_DONTFORK) != 0 ? errno : seen_by_child(pages);
}
static int do_fork(uint8_t* pages) {
  madvise(pages, BYTES, MADV_DONTFORK);
  return madvise(pages, BYTES, MADV_DOFORK) != 0 ? errno : seen_by_child(pages);
}
static int vfork_alone(uint8_t* pages) {
  const pid_t pid = vfork();
  if (pid == 0) {
    pages[7] = 0;
    _exit(0);
  }
  waitpid(pid, NULL, 0);
  return pages[7];
}

static int move(uint8_t* pages) {
  uint8_t* place = mmap(NULL, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  uint8_t* moved = mremap(pages, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, place);
  const int seen = moved == MAP_FAILED ? errno : look_at(moved, BYTES);
  munmap(place, BYTES);
  return seen;
}
static int grow(uint8_t* pages) {
  uint8_t* grown = mremap(pages, BYTES, 4 * BYTES, MREMAP_MAYMOVE);
  if (grown == MAP_FAILED) return errno;
  const int seen = look_at(grown, BYTES) * 10 + (look_at(grown + BYTES, 3 * BYTES) == ZEROS);
  munmap(grown, 4 * BYTES);
  return seen;
}
static int shrink(uint8_t* pages) {
  if (mremap(pages, BYTES, PAGE, 0) != pages) return errno;
  return look_at(pages, PAGE);
}
static int protect(uint8_t* pages) {
  if (mprotect(pages, BYTES, PROT_READ) != 0) return errno;
  const pid_t pid = fork();
  if (pid == 0) {
    pages[0] = 1;
    _exit(0);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : look_at(pages, BYTES);
}
static int protect_part(uint8_t* pages) {
  if (mprotect(pages + PAGE, PAGE, PROT_NONE) != 0) return errno;
  if (mprotect(pages + PAGE, PAGE, PROT_READ | PROT_WRITE) != 0) return errno;
  return look_at(pages, BYTES);
}
static int unmap_part(uint8_t* pages) {
  if (munmap(pages + 2 * PAGE, PAGE) != 0) return errno;
  return look_at(pages, 2 * PAGE) + (look_at(pages + 3 * PAGE, PAGE) == KEPT);
}
static int map_over(uint8_t* pages) {
  void* over = mmap(pages + PAGE, PAGE, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  if (over == MAP_FAILED) return errno;
  return look_at(pages + PAGE, PAGE) * 10 + (look_at(pages, PAGE) == KEPT);
}
static int lock(uint8_t* pages) {
  if (mlock(pages, BYTES) != 0) return errno;
  const int refused = madvise(pages, BYTES, MADV_DONTNEED) == 0 ? 0 : errno;
  if (munlock(pages, BYTES) != 0) return errno;
  return refused * 10000 + look_at(pages, BYTES);
}
static int resident(uint8_t* pages) {
  unsigned char there[PAGES];
  if (mincore(pages, BYTES, there) != 0) return errno;
  unsigned count = 0;
  for (unsigned i = 0; i < PAGES; ++i) count += there[i] & 1;
  return (int)count;
}
/* A page fault handler of the program's own may watch the memory. */
static int watch(uint8_t* pages) {
  const int fd = (int)syscall(SYS_userfaultfd, UFFD_USER_MODE_ONLY);
  if (fd < 0) return errno;
  struct uffdio_api api = {.api = UFFD_API};
  struct uffdio_register all = {.range = {(uintptr_t)pages, BYTES},
                                .mode = UFFDIO_REGISTER_MODE_MISSING};
  int error = error_of(ioctl(fd, UFFDIO_API, &api));
  if (error == 0) error = error_of(ioctl(fd, UFFDIO_REGISTER, &all));
  close(fd);
  return error;
}
static int read_into(uint8_t* pages) {
  int pipe_ends[2];
  if (pipe(pipe_ends) != 0) return errno;
  static const uint8_t bytes[PAGE];
  if (write(pipe_ends[1], bytes, PAGE) != PAGE) return errno;
  const long got = read(pipe_ends[0], pages + 100, PAGE);
  close(pipe_ends[0]);
  close(pipe_ends[1]);
  return got != PAGE ? errno : look_at(pages + 100, PAGE);
}

struct row {
  const char* name;
  int (*run)(uint8_t* pages);
  int may_differ; /* while it is registered, as the README says */
};
static const struct row rows[] = {{"MADV_DONTNEED", dont_need, 0},
                                  {"MADV_DONTNEED of a part", dont_need_part, 0},
                                  {"MADV_DONTNEED without libc", dont_need_without_libc, 1},
                                  {"MADV_FREE", free_lazily, 0},
                                  {"MADV_REMOVE", remove_pages, 0},
                                  {"MADV_COLD", cold, 0},
                                  {"MADV_PAGEOUT", page_out, 0},
                                  {"MADV_WILLNEED", will_need, 0},
                                  {"MADV_POPULATE_READ", populate_read, 0},
                                  {"MADV_POPULATE_WRITE", populate_write, 0},
                                  {"MADV_HUGEPAGE", huge_page, 0},
                                  {"MADV_NOHUGEPAGE", no_huge_page, 0},
                                  {"MADV_MERGEABLE", mergeable, 0},
                                  {"MADV_DONTDUMP", dont_dump, 0},
                                  {"MADV_SEQUENTIAL", sequential, 0},
                                  {"advice that there is not", wrong_advice, 0},
                                  {"fork", fork_alone, 0},
                                  {"MADV_WIPEONFORK, fork", wipe_on_fork, 0},
                                  {"MADV_KEEPONFORK, fork", keep_on_fork, 0},
                                  {"MADV_DONTFORK, fork", dont_fork, 0},
                                  {"MADV_DOFORK, fork", do_fork, 0},
                                  {"vfork", vfork_alone, 0},
                                  {"mremap to another place", move, 0},
                                  {"mremap to more", grow, 0},
                                  {"mremap to less", shrink, 0},
                                  {"mprotect", protect, 0},
                                  {"mprotect of a part", protect_part, 0},
                                  {"munmap of a part", unmap_part, 0},
                                  {"MAP_FIXED over a part", map_over, 0},
                                  {"mlock, MADV_DONTNEED, munlock", lock, 0},
                                  {"mincore", resident, 0},
                                  {"its own userfaultfd", watch, 0},
                                  {"read into it", read_into, 0}};

enum state { PLAIN, REGISTERED, DEREGISTERED, STATES };
static const char* const state_names[STATES] = {"plain", "registered", "deregistered"};

/* The mapping is one by itself. */
static uint8_t* make_pages(int is_shared) {
  uint8_t* area = mmap(NULL, BYTES + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (area == MAP_FAILED) fail("mmap");
  const int fd = is_shared ? memfd_create("shared", MFD_CLOEXEC) : -1;
  if (is_shared && ftruncate(fd, 4 * BYTES) != 0) fail("memfd_create");
  const int sharing = is_shared ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
  uint8_t* pages = mmap(area + PAGE, BYTES, PROT_READ | PROT_WRITE, sharing | MAP_FIXED, fd, 0);
  if (pages == MAP_FAILED) fail("mmap");
  if (fd >= 0) close(fd);
  return memset(pages, FILL, BYTES);
}

static int outcome_of(const struct row* row, int is_shared, enum state state) {
  uint8_t* pages = make_pages(is_shared);
  struct ibv_mr* region = NULL;
  if (state != PLAIN) region = register_all_rights(&ends[0], pages, BYTES);
  if (state == DEREGISTERED && ibv_dereg_mr(region) != 0) fail("ibv_dereg_mr");
  const int outcome = row->run(pages);
  if (state == REGISTERED && ibv_dereg_mr(region) != 0) fail("ibv_dereg_mr");
  munmap(pages - PAGE, BYTES + 2 * PAGE);
  return outcome;
}

static int check_row(const struct row* row, int is_shared) {
  int outcomes[STATES], wrong = 0;
  for (int state = PLAIN; state < STATES; ++state) {
    outcomes[state] = outcome_of(row, is_shared, (enum state)state);
    if (outcomes[state] == outcomes[PLAIN]) continue;
    printf("%s, %s, %s: %d, and plain %d\n", row->name, is_shared ? "shared" : "private",
           state_names[state], outcomes[state], outcomes[PLAIN]);
    wrong += !(row->may_differ && state == REGISTERED);
  }
  return wrong;
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  setvbuf(stdout, NULL, _IONBF, 0);
  connect_ends(ends, (const char* const*)argv + 1);
  int wrong = 0;
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i) {
    for (int is_shared = 0; is_shared < 2; ++is_shared) wrong += check_row(&rows[i], is_shared);
  }
  printf("%d rows differ that should not\n", wrong);
  return wrong == 0 ? 0 : 1;
}
