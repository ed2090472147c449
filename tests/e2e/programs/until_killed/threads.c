/* SPDX-License-Identifier: Apache-2.0
 * What goes on beside the rounds. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "tests/e2e/programs/until_killed/until_killed.h"

#define WR_HEARTBEAT 5
#define CHURN_BYTES (256 << 10)

static void pause_ms(long milliseconds) {
  nanosleep(&(struct timespec){.tv_nsec = milliseconds * 1000000}, NULL);
}

static void* read_events(void* argument) {
  struct en_program* program = argument;
  struct ibv_async_event event;
  while (!ibv_get_async_event(program->side.context, &event)) {
    fprintf(stderr, "until_killed: event: %s\n", ibv_event_type_str(event.event_type));
    if (event.event_type == IBV_EVENT_DEVICE_FATAL) {
      __atomic_store_n(&program->fatal, 1, __ATOMIC_RELEASE);
    }
    ibv_ack_async_event(&event);
  }
  return NULL;
}

/* An empty WRITE now and then: a peer that is gone is noticed though nothing else is under way. */
static void* beat(void* argument) {
  struct en_program* program = argument;
  const struct vc_info* peer = &program->side.peer;
  for (;;) {
    pause_ms(50);
    pthread_mutex_lock(&program->post_mutex);
    const int due = !program->beating;
    program->beating = 1;
    pthread_mutex_unlock(&program->post_mutex);
    if (!due) continue;
    struct ibv_send_wr request = {
        .wr_id = WR_HEARTBEAT, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
    request.wr.rdma.remote_addr = peer->writable_addr;
    request.wr.rdma.rkey = peer->writable_rkey;
    en_post_send(program, &request);
  }
  return NULL;
}

/* Makes one object of each kind and unmakes them. False: a command failed, for errno's reason. */
static int churn_once(struct en_program* program, uint8_t* memory) {
  struct ibv_context* context = program->side.context;
  struct ibv_comp_channel* channel = ibv_create_comp_channel(context);
  struct ibv_pd* pd = channel ? ibv_alloc_pd(context) : NULL;
  struct ibv_cq* cq = pd ? ibv_create_cq(context, 64, NULL, channel, 0) : NULL;
  struct ibv_qp_init_attr attributes = {
      .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = {16, 16, 2, 2, 32}};
  struct ibv_qp* qp = cq ? ibv_create_qp(pd, &attributes) : NULL;
  struct ibv_mr* mr = qp ? ibv_reg_mr(pd, memory, CHURN_BYTES, IBV_ACCESS_LOCAL_WRITE) : NULL;
  if (!mr) return 0;
  return !ibv_dereg_mr(mr) && !ibv_destroy_qp(qp) && !ibv_destroy_cq(cq) && !ibv_dealloc_pd(pd) &&
         !ibv_destroy_comp_channel(channel);
}

static void* churn(void* argument) {
  struct en_program* program = argument;
  do {
    /* New memory each time, so that each registration has pages to swap. */
    uint8_t* memory =
        mmap(NULL, CHURN_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) vc_die(&program->side, "out of memory");
    memset(memory, 1, CHURN_BYTES);
    if (!churn_once(program, memory)) break;
    munmap(memory, CHURN_BYTES);
  } while (!program->closing);
  if (errno != EIO && !program->closing) {
    vc_die(&program->side, "an object cannot be made or unmade: %s", strerror(errno));
  }
  return NULL;
}

static void start(struct en_program* program, void* (*run)(void*)) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, run, program)) vc_die(&program->side, "no thread");
  pthread_detach(thread);
}

void en_start_threads(struct en_program* program) {
  start(program, read_events);
  start(program, beat);
  if (program->options->churns) start(program, churn);
}
