/* SPDX-License-Identifier: Apache-2.0
 * Makes connected queue pairs that do nothing, and waits to be ended. Says "before", makes them on
 * SIGUSR1, says "connected". usage: idle_qps [-x GID_INDEX] [-y GID_INDEX] [-n QUEUE_PAIRS] */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "verbs_pair.h"

#define DEPTH 128

int main(int argc, char** argv) {
  uint32_t gid_a = 1;
  uint32_t gid_b = 1;
  uint32_t queue_pairs = 1000;
  for (int option; (option = getopt(argc, argv, "x:y:n:")) != -1;) {
    if (option == '?') return 2;
    const uint32_t value = (uint32_t)strtoul(optarg, NULL, 0);
    *(option == 'x' ? &gid_a : option == 'y' ? &gid_b : &queue_pairs) = value;
  }
  sigset_t go_on;
  sigemptyset(&go_on);
  sigaddset(&go_on, SIGUSR1);
  sigprocmask(SIG_BLOCK, &go_on, NULL);
  struct bench_end a = {0};
  struct bench_end b = {0};
  bench_open(&a, "uroce0", gid_a, DEPTH);
  bench_open(&b, "uroce1", gid_b, DEPTH);
  printf("before\n");
  fflush(stdout);
  int signal = 0;
  sigwait(&go_on, &signal);
  for (uint32_t i = 0; i + 1 < queue_pairs; i += 2) {
    struct ibv_qp* qp_a = bench_make_qp(&a, DEPTH, 0);
    struct ibv_qp* qp_b = bench_make_qp(&b, DEPTH, 0);
    bench_connect(&a, qp_a, &b, qp_b);
  }
  printf("connected\n");
  fflush(stdout);
  pause();
  return 0;
}
