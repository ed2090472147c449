/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/e2e/misuse/stuck_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* The kernel refuses to be read from with less. */
#define BUFFER_BYTES (FUSE_MIN_READ_BUFFER + 4096)

static int g_device;
static unsigned g_waiters;

static void answer(const struct fuse_in_header* request, int error, void* body, size_t bytes) {
  struct fuse_out_header header = {
      .len = (uint32_t)(sizeof(header) + bytes), .error = error, .unique = request->unique};
  const struct iovec parts[] = {{&header, sizeof(header)}, {body, bytes}};
  if (writev(g_device, parts, 2) < 0) return; /* Who asked has gone. */
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
      /* A process that is killed closes its fds before it can be known to have gone: it would wait
       * for itself. */
      if (request->pid == (uint32_t)getpid()) {
        answer(request, 0, NULL, 0);
        return;
      }
      __attribute__((fallthrough));
    case FUSE_READ:
      __atomic_fetch_add(&g_waiters, 1, __ATOMIC_RELEASE);
      return;
    case FUSE_RELEASE:
    case FUSE_FORGET:
    case FUSE_INTERRUPT:
      return;
    default:
      answer(request, -ENOSYS, NULL, 0);
  }
}

static void* serve_all(void* unused) {
  (void)unused;
  static char buffer[BUFFER_BYTES] __attribute__((aligned(8)));
  for (;;) {
    const ssize_t got = read(g_device, buffer, sizeof(buffer));
    if (got < 0 && errno != EINTR && errno != EAGAIN && errno != ENOENT) return NULL;
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

int sf_open(void) {
  pthread_t thread;
  char path[] = "/tmp/stuck-XXXXXX";
  const int place = mkstemp(path);
  g_device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
  int fd = -1;
  if (place >= 0 && g_device >= 0 && !mount_on(path) &&
      !pthread_create(&thread, NULL, serve_all, NULL)) {
    struct stat status;
    fd = open(path, O_RDWR | O_CLOEXEC);
    const int error = errno;
    fstat(fd, &status); /* The kernel learns the size when somebody asks for it. */
    umount2(path, MNT_DETACH);
    errno = error;
  }
  unlink(path);
  return fd;
}

unsigned sf_waiters(void) { return __atomic_load_n(&g_waiters, __ATOMIC_ACQUIRE); }
