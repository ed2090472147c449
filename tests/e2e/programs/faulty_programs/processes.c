/* SPDX-License-Identifier: Apache-2.0
 * Processes that end, multiply or change under the library's feet. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/e2e/programs/faulty_programs/cases.h"

#define THREADS 4

/* A fork that no library notices: the child has all of its parent's fds. */
static void leaves_a_child_with_its_sockets(struct mu_pair* pair) {
  mu_post_write(pair);
  const long child = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
  if (child == 0) {
    for (;;) pause();
  }
  printf("child %ld\n", child);
}

static void forks_and_goes_on(struct mu_pair* pair) {
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      struct ibv_wc wc;
      _exit(ibv_poll_cq(pair->a.send_cq, 1, &wc) < 0 ? 0 : 1); /* Dead objects, no crash. */
    }
    mu_post_write(pair);
    if (mu_await_completion(pair).status) vc_die(&pair->a, "a write beside a fork failed");
    int status = 1;
    if (waitpid(child, &status, 0) != child || status) vc_die(&pair->a, "child: %d", status);
  }
}

static void becomes_another_program(struct mu_pair* pair) {
  mu_post_write(pair);
  execlp("sleep", "sleep", "30", NULL);
  vc_die(&pair->a, "exec: %s", strerror(errno));
}

/* As a program that makes itself a service does. The library finds out, and touches no file that
 * now has the number of an fd that was the library's. */
static void closes_all_fds(struct mu_pair* pair) {
  close_range(3, ~0u, 0);
  char path[] = "/tmp/faulty-XXXXXX";
  int files[32];
  files[0] = mkstemp(path);
  unlink(path);
  for (int i = 1; i < 32; ++i) files[i] = dup(files[0]);
  struct ibv_wc wc = {0};
  for (int i = 0; i < 10 && wc.status != IBV_WC_WR_FLUSH_ERR; ++i) {
    mu_post_write(pair);
    usleep(5000); /* The worker sleeps by then: the next request would wake it. */
    wc = mu_await_completion(pair);
  }
  if (!ibv_alloc_pd(pair->a.context)) {
    struct stat status;
    if (fstat(files[0], &status) || status.st_size) vc_die(&pair->a, "a file was written to");
    while (wc.status != IBV_WC_WR_FLUSH_ERR) {
      mu_post_write(pair);
      wc = mu_await_completion(pair);
    }
    return;
  }
  vc_die(&pair->a, "a command without a socket succeeded");
}

static void* keep_posting(void* argument) {
  struct mu_pair* pair = argument;
  struct ibv_wc wc;
  for (;;) {
    mu_post_write(pair);
    while (ibv_poll_cq(pair->a.send_cq, 1, &wc) > 0) continue;
    sched_yield();
  }
  return NULL;
}

static void ends_while_others_post(struct mu_pair* pair) {
  for (int i = 0; i < THREADS; ++i) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, keep_posting, pair)) vc_die(&pair->a, "no thread");
  }
  usleep(50000);
  exit(0);
}

static void unloads_libraries(struct mu_pair* pair) {
  for (int i = 0; i < 10; ++i) {
    void* library = dlopen("libibverbs.so.1", RTLD_NOW);
    if (!library || dlclose(library)) vc_die(&pair->a, "dlopen or dlclose: %s", dlerror());
    mu_post_write(pair);
    if (mu_await_completion(pair).status) vc_die(&pair->a, "a write failed");
  }
}

const struct mu_case mu_process_cases[] = {
    {"leaves-a-child-with-its-sockets", leaves_a_child_with_its_sockets},
    {"forks-and-goes-on", forks_and_goes_on},
    {"becomes-another-program", becomes_another_program},
    {"closes-all-fds", closes_all_fds},
    {"ends-while-others-post", ends_while_others_post},
    {"unloads-libraries", unloads_libraries},
    {NULL, NULL},
};
