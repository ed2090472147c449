/* SPDX-License-Identifier: Apache-2.0
 * A device whose daemon has gone: it says so, flushes, and fails in an orderly way. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "tests/e2e/programs/until_killed/until_killed.h"

static void expect_event(struct en_program* program) {
  const time_t deadline = time(NULL) + program->options->side.deadline_s;
  while (!__atomic_load_n(&program->fatal, __ATOMIC_ACQUIRE)) {
    if (time(NULL) > deadline) vc_die(&program->side, "flushed, and no DEVICE_FATAL");
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
}

static void expect_idle_flushed(struct en_program* program) {
  if (!program->idle_cq) return;
  for (uint32_t i = 0; i < 2 * program->options->idle_qps; ++i) {
    struct ibv_wc wc;
    if (ibv_poll_cq(program->idle_cq, 1, &wc) != 1 || wc.status != IBV_WC_WR_FLUSH_ERR) {
      vc_die(&program->side, "receive %u of an idle queue pair is not flushed", i);
    }
  }
}

static void expect_eio(const struct en_program* program, const char* what, int error) {
  if (error != EIO) vc_die(&program->side, "%s after the end: %s", what, strerror(error));
}

static int error_of(const void* made) { return made ? 0 : errno; }

void en_expect_dead_device(struct en_program* program) {
  struct vc_side* side = &program->side;
  expect_event(program);
  expect_idle_flushed(program);
  static uint8_t page[8192];
  struct ibv_port_attr port;
  struct ibv_qp_init_attr init = {.send_cq = side->send_cq,
                                  .recv_cq = side->send_cq,
                                  .qp_type = IBV_QPT_RC,
                                  .cap = {1, 1, 1, 1}};
  expect_eio(program, "ibv_alloc_pd", error_of(ibv_alloc_pd(side->context)));
  expect_eio(program, "ibv_reg_mr", error_of(ibv_reg_mr(side->pd, page, sizeof(page), 1)));
  expect_eio(program, "ibv_create_cq", error_of(ibv_create_cq(side->context, 1, NULL, NULL, 0)));
  expect_eio(program, "ibv_create_qp", error_of(ibv_create_qp(side->pd, &init)));
  expect_eio(program, "ibv_query_port", ibv_query_port(side->context, 1, &port));
  /* Its own copy of everything goes without the daemon. */
  vc_side_close(side);
}
