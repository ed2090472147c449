/* SPDX-License-Identifier: Apache-2.0
 * Programs that use SIGSEGV themselves, by every function of libc, while other threads write to
 * memory that is registered: their handlers get their own faults, they see their own actions, and
 * no write is lost. Usage: fault_handlers DEVICE DEVICE, under `uroce run`. Prints what is wrong.
 * Exit status 0 when nothing is. */
#include <infiniband/verbs.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "request.h"

/* sigset and sigignore are what old programs use. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

#define PAGE 4096u
#define PAGES 32u
#define BYTES (PAGES * PAGE)
#define WRITERS 2
#define ROUNDS 100

static int wrong;
static void expect(int ok, const char* what) {
  if (ok) return;
  printf("wrong: %s\n", what);
  wrong = 1;
}

static volatile uint64_t* words;
static uint64_t counts[WRITERS][PAGES];
static atomic_int stop;

static void* write_words(void* argument) {
  const size_t writer = (size_t)argument;
  for (uint64_t turn = 0; !stop; ++turn) {
    const size_t page = turn * 7 % PAGES;
    words[page * PAGE / sizeof(uint64_t) + writer] += 1;
    ++counts[writer][page];
  }
  return NULL;
}

static volatile sig_atomic_t calls;
static void* volatile fault_address;
static uint8_t* barrier; /* a page that the program write-protects on purpose */

static void on_barrier(int number, siginfo_t* info, void* context) {
  (void)number, (void)context;
  ++calls;
  fault_address = info->si_addr;
  mprotect(barrier, PAGE, PROT_READ | PROT_WRITE);
}
static sigjmp_buf escape;
static void on_simple(int number) {
  ++calls;
  siglongjmp(escape, number);
}

/* A fault that the handler of the moment mends. */
static void cross_barrier(const char* what) {
  const int before = calls;
  mprotect(barrier, PAGE, PROT_READ);
  *(volatile uint8_t*)(barrier + 16) = 1;
  expect(calls == before + 1 && fault_address == barrier + 16, what);
}
static void fault_and_escape(const char* what) {
  const int before = calls;
  mprotect(barrier, PAGE, PROT_READ);
  if (sigsetjmp(escape, 1) == 0) *(volatile uint8_t*)(barrier + 16) = 1;
  expect(calls == before + 1, what);
}

static void set_barrier_handler(void) {
  struct sigaction action = {.sa_flags = SA_SIGINFO | SA_RESTART};
  action.sa_sigaction = on_barrier;
  sigaddset(&action.sa_mask, SIGUSR2);
  expect(sigaction(SIGSEGV, &action, NULL) == 0, "sigaction");
}

static void check_told_action(void) {
  struct sigaction told;
  expect(sigaction(SIGSEGV, NULL, &told) == 0, "sigaction tells");
  expect(told.sa_sigaction == on_barrier, "the handler that it tells");
  expect((told.sa_flags & (SA_SIGINFO | SA_RESTART | SA_ONSTACK)) == (SA_SIGINFO | SA_RESTART),
         "the flags that it tells");
  expect(sigismember(&told.sa_mask, SIGUSR2) == 1 && sigismember(&told.sa_mask, SIGUSR1) == 0,
         "the mask that it tells");
}

/* The functions that set a handler, each of which tells the one before. */
static void check_functions(void) {
  expect(signal(SIGSEGV, on_simple) == (sighandler_t)(uintptr_t)on_barrier, "signal tells");
  fault_and_escape("a handler by signal");
  fault_and_escape("a handler by signal, again");
  expect(sysv_signal(SIGSEGV, on_simple) == on_simple, "sysv_signal tells");
  fault_and_escape("a handler by sysv_signal");
  expect(signal(SIGSEGV, SIG_DFL) == SIG_DFL, "which is one for one time");
  expect(sigset(SIGSEGV, on_simple) == SIG_DFL, "sigset tells");
  fault_and_escape("a handler by sigset");
  expect(sigignore(SIGSEGV) == 0, "sigignore");
  raise(SIGSEGV);
  expect(signal(SIGSEGV, SIG_DFL) == SIG_IGN, "sigignore sets");
}

/* How a child ends: by a fault, with the program's default action. */
static void check_end(void) {
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);
    volatile uintptr_t nowhere = 16;
    *(volatile int*)nowhere = 1;
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, "the end by a fault");
}

static void register_and_fault(struct ibv_pd* pd, uint8_t* pages) {
  for (int round = 0; round < ROUNDS; ++round) {
    struct ibv_mr* mr = ibv_reg_mr(pd, pages, BYTES, IBV_ACCESS_LOCAL_WRITE);
    expect(mr != NULL, "ibv_reg_mr");
    cross_barrier("a barrier among registrations");
    if (mr != NULL) ibv_dereg_mr(mr);
  }
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  struct end ends[2];
  connect_ends(ends, (const char* const[]){argv[1], argv[2]});
  barrier = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  uint8_t* pages = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  words = (volatile uint64_t*)(void*)pages;
  set_barrier_handler();
  pthread_t writers[WRITERS];
  for (size_t i = 0; i < WRITERS; ++i) pthread_create(&writers[i], NULL, write_words, (void*)i);
  register_and_fault(ends[0].pd, pages);
  check_told_action();
  check_functions();
  check_end();
  set_barrier_handler();
  register_and_fault(ends[0].pd, pages);
  stop = 1;
  for (size_t i = 0; i < WRITERS; ++i) pthread_join(writers[i], NULL);
  for (size_t page = 0; page < PAGES; ++page) {
    for (size_t i = 0; i < WRITERS; ++i) {
      expect(words[page * PAGE / sizeof(uint64_t) + i] == counts[i][page], "a write is lost");
    }
  }
  return wrong;
}
