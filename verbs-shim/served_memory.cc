// SPDX-License-Identifier: Apache-2.0
#include "verbs-shim/served_memory.h"

#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include <cerrno>

#include "pipeline/shm/rings/shared_word.h"
#include "verbs-shim/memory/system_call.h"

namespace uroce::shim {

using memory::SystemCall;

KeptFile::KeptFile(int fd) : fd_(fd) {
  struct stat status = {};
  if (fstat(fd, &status) != 0) fd_ = -1;
  device_ = status.st_dev;
  inode_ = status.st_ino;
}

bool KeptFile::IsThere() const {
  struct stat status;
  return fd_ >= 0 && fstat(fd_, &status) == 0 && status.st_dev == device_ &&
         status.st_ino == inode_;
}

int MapServedMemory(DaemonConnection& connection, uroce_command command, size_t least_bytes,
                    ServedMemory* memory) {
  uroce_request request = {command, 0};
  uroce_reply reply;
  uint32_t fd_count = 1;
  const int error =
      connection.Command(&request, sizeof(request), WholeReply(reply), &memory->fd, &fd_count);
  if (error != 0) return error;
  if (fd_count != 1) return EMFILE;
  memory->mapped = MAP_FAILED;
  struct stat status;
  if (IsSealedMemory(memory->fd, least_bytes) && fstat(memory->fd, &status) == 0) {
    memory->bytes = static_cast<size_t>(status.st_size);
    memory->mapped =
        mmap(nullptr, memory->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory->fd, 0);
  }
  if (memory->mapped == MAP_FAILED) {
    SystemCall(SYS_close, memory->fd);
    return EIO;
  }
  madvise(memory->mapped, memory->bytes, MADV_DONTFORK);
  return 0;
}

int StartServingThread(void* (*run)(void*), void* argument) {
  sigset_t all;
  sigset_t former;
  sigfillset(&all);
  sigdelset(&all, SIGSEGV);
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return ENOMEM;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_sigmask(SIG_SETMASK, &all, &former);
  pthread_t thread;
  const int error = pthread_create(&thread, &attributes, run, argument);
  pthread_sigmask(SIG_SETMASK, &former, nullptr);
  pthread_attr_destroy(&attributes);
  return error;
}

bool AwaitWake(const uint32_t& word, uint32_t value) {
  constexpr timespec kLook{.tv_sec = 5, .tv_nsec = 0};
  return SystemCall(SYS_futex, &word, FUTEX_WAIT, value, &kLook) != -ETIMEDOUT;
}

void WakeWorker(DaemonConnection& connection, uint32_t worker) {
  rings::FullFence();  // Pairs with the worker, which says that it sleeps and looks once more.
  uroce_doorbells& doorbells = *connection.doorbells(worker);
  if (rings::LoadRelaxed(doorbells.sleeping.value) != 0 &&
      __atomic_exchange_n(&doorbells.sleeping.value, 0, __ATOMIC_SEQ_CST) != 0) {
    connection.Wake(connection.wake_fd(worker));
  }
}

}  // namespace uroce::shim
