/* SPDX-License-Identifier: Apache-2.0
 * Forks in the middle of transfers. A child has what its parent had at the fork, and none of the
 * objects; neither's writes reach the other; the parent's transfers stay right.
 * Usage: forking DEVICE DEVICE FORKS, under `uroce run`. Exit status 0 when all is right. */
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "request.h"

#define BYTES (256u << 10)
#define HALF (BYTES / 2)

extern char** environ;

static struct end ends[2];
/* The first half of each buffer stays as it is, the second is transferred into all the time. */
static uint8_t* buffers[2];
static struct ibv_mr* regions[2];
static atomic_int stop;
static atomic_ulong transfers;
static atomic_int wrong;

static void check(int is_right, const char* what) {
  if (is_right) return;
  fprintf(stderr, "wrong: %s\n", what);
  atomic_fetch_add(&wrong, 1);
}

static int all_are(const uint8_t* bytes, size_t count, int value) {
  for (size_t i = 0; i < count; ++i) {
    if (bytes[i] != value) return 0;
  }
  return 1;
}

/* Writes a pattern that changes with every turn, and checks it. */
static void* transfer(void* unused) {
  static uint8_t source[HALF] __attribute__((aligned(4096)));
  struct ibv_mr* region = register_all_rights(&ends[0], source, HALF);
  for (unsigned turn = 1; !atomic_load(&stop); ++turn) {
    memset(source, (int)(turn % 251), HALF);
    const struct request request = {.opcode = IBV_WR_RDMA_WRITE,
                                    .local = region,
                                    .remote = regions[1],
                                    .remote_at = HALF,
                                    .length = HALF};
    check(perform(&ends[0], &request) == IBV_WC_SUCCESS, "a transfer of the parent");
    check(all_are(buffers[1] + HALF, HALF, (int)(turn % 251)), "bytes of the parent");
    atomic_fetch_add(&transfers, 1);
  }
  if (ibv_dereg_mr(region) != 0) fail("ibv_dereg_mr");
  return unused;
}

/* In a child: its parent's objects answer with errors, and touch nothing. */
static int objects_are_dead(void) {
  const struct request request = {
      .opcode = IBV_WR_RDMA_WRITE, .local = regions[0], .remote = regions[1], .length = 8};
  struct ibv_wc wc;
  if (try_post(&ends[0], &request) == 0) return 0;
  if (ibv_poll_cq(ends[0].cq, 1, &wc) > 0) return 0;
  if (ibv_alloc_pd(ends[0].context) != NULL) return 0;
  return ibv_reg_mr(ends[0].pd, buffers[0], BYTES, IBV_ACCESS_LOCAL_WRITE) == NULL;
}

static int is_half_mine(int value) {
  memset(buffers[0], value, HALF);
  memset(buffers[1], value, HALF);
  return all_are(buffers[0], HALF, value) && all_are(buffers[1], HALF, value);
}

/* What a child checks: its exit status. */
static int be_child(void) {
  for (int i = 0; i < 2; ++i) {
    if (!all_are(buffers[i], HALF, 'a' + i)) return 11;
  }
  /* What was under way is there or not, byte by byte; but from here on it stays. */
  uint8_t* before = malloc(HALF);
  memcpy(before, buffers[1] + HALF, HALF);
  if (!objects_are_dead()) return 12;
  if (!is_half_mine('z')) return 13;
  if (memcmp(before, buffers[1] + HALF, HALF) != 0) return 14;
  free(before);
  return 0;
}

static void expect_exit(pid_t pid, const char* what) {
  int status = -1;
  if (pid < 0 || waitpid(pid, &status, 0) != pid) fail(what);
  if (status == 0) return;
  fprintf(stderr, "%s: status %x\n", what, (unsigned)status);
  atomic_fetch_add(&wrong, 1);
}

static void* fork_once(void* unused) {
  const pid_t pid = fork();
  if (pid == 0) _exit(be_child());
  expect_exit(pid, "a child");
  return unused;
}

static void fork_from_thread(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, fork_once, NULL) != 0) fail("pthread_create");
  pthread_join(thread, NULL);
}

static void fork_and_exec(void) {
  const pid_t pid = fork();
  if (pid == 0) {
    execl("/bin/true", "true", (char*)NULL);
    _exit(15);
  }
  expect_exit(pid, "a child with exec");
}

static void spawn(void) {
  char* const arguments[] = {"true", NULL};
  pid_t pid = -1;
  if (posix_spawn(&pid, "/bin/true", NULL, NULL, arguments, environ) != 0) fail("posix_spawn");
  expect_exit(pid, "a spawned child");
  pid = vfork();
  if (pid == 0) _exit(0);
  expect_exit(pid, "a vfork child");
}

static void fork_all_at_once(int count) {
  pid_t* pids = malloc(sizeof(pid_t) * (size_t)count);
  for (int i = 0; i < count; ++i) {
    pids[i] = fork();
    if (pids[i] == 0) _exit(be_child());
  }
  for (int i = 0; i < count; ++i) expect_exit(pids[i], "one of many children");
  free(pids);
}

/* A grandchild may use the daemon: its session is its own. */
static void fork_and_use(const char* const names[2]) {
  const pid_t pid = fork();
  if (pid == 0) {
    static struct end own[2];
    connect_ends(own, names);
    struct ibv_mr* from = register_all_rights(&own[0], buffers[0], HALF);
    struct ibv_mr* to = register_all_rights(&own[1], buffers[1], HALF);
    const struct request request = {
        .opcode = IBV_WR_RDMA_WRITE, .local = from, .remote = to, .length = HALF};
    if (perform(&own[0], &request) != IBV_WC_SUCCESS) _exit(16);
    _exit(all_are(buffers[1], HALF, 'a') ? 0 : 17);
  }
  expect_exit(pid, "a child with its own session");
}

static void make_buffers(void) {
  buffers[0] = malloc(BYTES); /* heap: its first and last pages are the heap's too */
  buffers[1] = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (buffers[0] == NULL || buffers[1] == MAP_FAILED) fail("memory");
  for (int i = 0; i < 2; ++i) {
    memset(buffers[i], 'a' + i, BYTES);
    regions[i] = register_all_rights(&ends[i], buffers[i], BYTES);
  }
}

static void await_transfers(void) {
  const unsigned long now = atomic_load(&transfers);
  while (atomic_load(&transfers) < now + 3 && atomic_load(&wrong) == 0) usleep(100);
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const char* const* names = (const char* const*)argv + 1;
  connect_ends(ends, names);
  make_buffers();
  pthread_t thread;
  if (pthread_create(&thread, NULL, transfer, NULL) != 0) fail("pthread_create");
  await_transfers();
  for (int i = 0; i < atoi(argv[3]); ++i) {
    fork_once(NULL);
    fork_from_thread();
    fork_and_exec();
    spawn();
    if (system("exit 0") != 0) fail("system");
    await_transfers();
  }
  fork_all_at_once(20);
  fork_and_use(names);
  for (int i = 0; i < 2; ++i) check(all_are(buffers[i], HALF, 'a' + i), "the parent's own half");
  await_transfers();
  atomic_store(&stop, 1);
  pthread_join(thread, NULL);
  return atomic_load(&wrong) == 0 ? 0 : 1;
}
