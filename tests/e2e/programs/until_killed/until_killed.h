/* SPDX-License-Identifier: Apache-2.0
 * Traffic without an end between two programs, each of which may die at any instant. Every byte is
 * checked, and something is always under way, so that the death of the peer or of the daemon is
 * noticed. */
#ifndef ENDURE_ENDURE_H_
#define ENDURE_ENDURE_H_

#include <pthread.h>
#include <stdint.h>

#include "tests/e2e/programs/verbs_check/side.h"

/* Exit statuses. */
enum en_end {
  EN_TOLD = 0,  /* By SIGTERM, and all was right so far. */
  EN_WRONG = 1, /* Wrong data, or anything that may not happen. */
  EN_USAGE = 2,
  EN_PEER_GONE = 3,   /* Retries ran out, all other work was flushed. */
  EN_DEVICE_GONE = 4, /* DEVICE_FATAL, all work was flushed, and later commands fail with EIO. */
};

struct en_options {
  struct vc_options side;
  int sleeps;        /* In ibv_get_cq_event, instead of polling. */
  int churns;        /* A thread makes and unmakes objects of every kind beside the traffic. */
  uint32_t idle_qps; /* Queue pairs that wait with two receives each. */
  uint32_t pause_ms; /* Behind each round. */
};

/* What its threads share. */
struct en_program {
  const struct en_options* options;
  struct vc_side side;
  struct ibv_comp_channel* channel;
  struct ibv_cq* idle_cq;
  uint8_t* peer_readable;
  volatile uint64_t* rounds;  /* In a file of the exchange directory; the test reads it. */
  pthread_mutex_t post_mutex; /* Of `outstanding` and `closing`. */
  uint32_t outstanding;       /* Work requests whose completions are to come. */
  int beating;                /* One of them is the heartbeat. */
  int closing;                /* Nothing is posted any more. */
  int fatal;                  /* DEVICE_FATAL has come; atomic. */
};

/* Runs until told to end or until the peer or the daemon is gone. */
enum en_end en_run(const struct en_options* options);

/* Counts and posts; nothing when closing. */
void en_post_send(struct en_program* program, struct ibv_send_wr* request);

/* threads.c */
/* Reads asynchronous events, sends heartbeats, churns. They run until the process ends. */
void en_start_threads(struct en_program* program);

/* gone.c: what must hold after the device has gone. Dies when it does not. */
void en_expect_dead_device(struct en_program* program);

#endif /* ENDURE_ENDURE_H_ */
