/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/e2e/programs/faulty_programs/stuck_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* The kernel refuses to be read from with less. */
#define BUFFER_BYTES (FUSE_MIN_READ_BUFFER + 4096)

#define LOOK_MS 10
#define MOST_HELD 16

static int g_device;
/* Shared with who serves. */
static struct shared {
  unsigned waiters;
  unsigned lets_go;
} * g_shared;
/* Of who serves: the reads that wait. */
static struct fuse_in_header g_held[MOST_HELD];
static uint32_t g_held_bytes[MOST_HELD];
static int g_held_count;

static void answer(const struct fuse_in_header* request, int error, void* body, size_t bytes) {
  struct fuse_out_header header = {
      .len = (uint32_t)(sizeof(header) + bytes), .error = error, .unique = request->unique};
  const struct iovec parts[] = {{&header, sizeof(header)}, {body, bytes}};
  if (writev(g_device, parts, 2) < 0) return; /* Who asked has gone. */
}

/* By the name that its threads have. */
static int is_daemon(uint32_t pid) {
  char path[64];
  char name[16] = "";
  snprintf(path, sizeof(path), "/proc/%u/comm", pid);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  const ssize_t got = read(fd, name, sizeof(name) - 1);
  close(fd);
  return got > 0 && !strncmp(name, "uroce", 5);
}

static void hold(const struct fuse_in_header* request) {
  if (g_held_count == MOST_HELD) return;
  g_held[g_held_count] = *request;
  g_held_bytes[g_held_count++] = ((const struct fuse_read_in*)(request + 1))->size;
}

static void answer_held(void) {
  static char zeros[SF_BYTES];
  if (!__atomic_load_n(&g_shared->lets_go, __ATOMIC_ACQUIRE)) return;
  for (; g_held_count > 0; --g_held_count) {
    const uint32_t bytes = g_held_bytes[g_held_count - 1];
    answer(&g_held[g_held_count - 1], 0, zeros, bytes < SF_BYTES ? bytes : SF_BYTES);
  }
}

static void serve(const struct fuse_in_header* request) {
  struct fuse_init_out init = {
      .major = FUSE_KERNEL_VERSION, .minor = FUSE_KERNEL_MINOR_VERSION, .max_write = 4096};
  struct fuse_attr_out attributes = {
      .attr_valid = 3600,
      .attr = {.ino = FUSE_ROOT_ID, .size = SF_BYTES, .mode = S_IFREG | 0666, .nlink = 1}};
  struct fuse_open_out opened = {0};
  switch (request->opcode) {
    case FUSE_INIT:
      answer(request, 0, &init, sizeof(init));
      return;
    case FUSE_GETATTR:
      answer(request, 0, &attributes, sizeof(attributes));
      return;
    case FUSE_OPEN:
      answer(request, 0, &opened, sizeof(opened));
      return;
    case FUSE_FLUSH:
      /* Not who opened it: one that is killed would wait in vain for its server to end with it. */
      if (is_daemon(request->pid)) {
        __atomic_fetch_add(&g_shared->waiters, 1, __ATOMIC_RELEASE);
      } else {
        answer(request, 0, NULL, 0);
      }
      return;
    case FUSE_READ:
      hold(request);
      __atomic_fetch_add(&g_shared->waiters, 1, __ATOMIC_RELEASE);
      return;
    case FUSE_RELEASE:
    case FUSE_FORGET:
    case FUSE_INTERRUPT:
      return;
    default:
      answer(request, -ENOSYS, NULL, 0);
  }
}

static void serve_all(void) {
  static char buffer[BUFFER_BYTES] __attribute__((aligned(8)));
  for (;;) {
    struct pollfd asked = {g_device, POLLIN, 0};
    const int any = poll(&asked, 1, LOOK_MS);
    answer_held();
    if (any == 0) continue;
    const ssize_t got = read(g_device, buffer, sizeof(buffer));
    if (got < 0 && errno != EINTR && errno != EAGAIN && errno != ENOENT) _exit(0);
    if (got >= (ssize_t)sizeof(struct fuse_in_header)) serve((struct fuse_in_header*)buffer);
  }
}

static int mount_on(const char* path) {
  char options[128];
  snprintf(options, sizeof(options), "fd=%d,rootmode=100000,user_id=0,group_id=0,allow_other",
           g_device);
  if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL)) return -1;
  return mount("stuck", path, "fuse", MS_NOSUID | MS_NODEV, options);
}

/* False: there is none. */
static int start_server(void) {
  const pid_t parent = getpid();
  const pid_t server = fork();
  if (server != 0) return server > 0;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() == parent) serve_all();
  _exit(0);
}

static int open_at(const char* path) {
  struct stat status;
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  const int error = errno;
  if (fd >= 0) fstat(fd, &status); /* The kernel learns the size when a process asks for it. */
  umount2(path, MNT_DETACH);
  errno = error;
  return fd;
}

int sf_open(void) {
  char path[] = "/tmp/stuck-XXXXXX";
  const int place = mkstemp(path);
  g_shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  g_device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
  int fd = -1;
  if (place >= 0 && g_device >= 0 && g_shared != MAP_FAILED && !mount_on(path) && start_server()) {
    fd = open_at(path);
  }
  const int error = errno;
  close(place);
  close(g_device); /* Its server's alone. */
  unlink(path);
  errno = error;
  return fd;
}

void sf_let_go(void) { __atomic_store_n(&g_shared->lets_go, 1, __ATOMIC_RELEASE); }

unsigned sf_waiters(void) { return __atomic_load_n(&g_shared->waiters, __ATOMIC_ACQUIRE); }
