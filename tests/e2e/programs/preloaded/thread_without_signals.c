// SPDX-License-Identifier: Apache-2.0
// Preloaded into uroced: a thread that takes no signal, as an emulator has.
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

static void* wait_without_end(void* unused) {
  for (;;) pause();
  return unused;
}

// The thread inherits the mask of the one that starts it.
__attribute__((constructor)) static void start(void) {
  sigset_t all;
  sigset_t former;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &former);
  pthread_t thread;
  pthread_create(&thread, NULL, wait_without_end, NULL);
  pthread_sigmask(SIG_SETMASK, &former, NULL);
}
