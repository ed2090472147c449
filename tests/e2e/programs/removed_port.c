// SPDX-License-Identifier: Apache-2.0
// Has a device open whose port is removed: what it is told, what still works, and what does not.
// Arguments: the name of the device. It says "open", "removed" when all was as it should be, and
// "back" once a device of the name could be opened again.
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kReceives = 4, kPatienceMs = 20000 };

#define CHECK(condition)                                                      \
  do {                                                                        \
    if (!(condition)) {                                                       \
      printf("%s:%d: %s, errno %d\n", __FILE__, __LINE__, #condition, errno); \
      exit(1);                                                                \
    }                                                                         \
  } while (0)

// The device of this name in a new list, or null. It stays valid without the list.
static struct ibv_device* Find(const char* name) {
  struct ibv_device** list = ibv_get_device_list(NULL);
  struct ibv_device* found = NULL;
  CHECK(list != NULL);
  for (struct ibv_device** each = list; *each != NULL; ++each) {
    if (strcmp(ibv_get_device_name(*each), name) == 0) found = *each;
  }
  ibv_free_device_list(list);
  return found;
}

static struct ibv_qp* MakeQueuePair(struct ibv_pd* pd, struct ibv_cq* cq) {
  struct ibv_qp_init_attr init = {
      .send_cq = cq,
      .recv_cq = cq,
      .cap = {.max_send_wr = 4, .max_recv_wr = kReceives, .max_send_sge = 1, .max_recv_sge = 1},
      .qp_type = IBV_QPT_RC};
  struct ibv_qp* qp = ibv_create_qp(pd, &init);
  CHECK(qp != NULL);
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
  CHECK(ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
  return qp;
}

static void PostReceives(struct ibv_qp* qp, struct ibv_mr* mr) {
  for (int i = 0; i < kReceives; ++i) {
    struct ibv_sge sge = {.addr = (uintptr_t)mr->addr, .length = 64, .lkey = mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = (uint64_t)i, .sg_list = &sge, .num_sge = 1};
    struct ibv_recv_wr* bad;
    CHECK(ibv_post_recv(qp, &wr, &bad) == 0);
  }
}

static void ExpectFlushed(struct ibv_cq* cq, int count) {
  struct ibv_wc wc;
  for (int waited_ms = 0; count != 0; ++waited_ms) {
    CHECK(waited_ms < kPatienceMs);
    while (ibv_poll_cq(cq, 1, &wc) == 1) {
      CHECK(wc.status == IBV_WC_WR_FLUSH_ERR);
      --count;
    }
    usleep(1000);
  }
}

static void ExpectNothingNew(struct ibv_device* device, struct ibv_context* context,
                             struct ibv_pd* pd, struct ibv_qp* qp, struct ibv_mr* mr) {
  struct ibv_port_attr port;
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
  errno = 0;
  CHECK(ibv_alloc_pd(context) == NULL && errno == ENODEV);
  CHECK(ibv_query_port(context, 1, &port) == ENODEV);
  errno = 0;
  CHECK(ibv_reg_mr(pd, mr->addr, mr->length, 0) == NULL && errno == ENODEV);
  CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == ENODEV);
  errno = 0;
  CHECK(ibv_open_device(device) == NULL && errno == ENODEV);
}

int main(int argc, char** argv) {
  CHECK(argc == 2);
  setlinebuf(stdout);
  struct ibv_device* device = Find(argv[1]);
  CHECK(device != NULL);
  struct ibv_context* context = ibv_open_device(device);
  CHECK(context != NULL);
  static char memory[4096];
  struct ibv_pd* pd = ibv_alloc_pd(context);
  struct ibv_cq* cq = ibv_create_cq(context, 16, NULL, NULL, 0);
  CHECK(pd != NULL && cq != NULL);
  struct ibv_mr* mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
  CHECK(mr != NULL);
  struct ibv_qp* qp = MakeQueuePair(pd, cq);
  PostReceives(qp, mr);
  puts("open");

  struct ibv_async_event event;
  do {
    CHECK(ibv_get_async_event(context, &event) == 0);
    ibv_ack_async_event(&event);
  } while (event.event_type != IBV_EVENT_DEVICE_FATAL);
  ExpectFlushed(cq, kReceives);
  ExpectNothingNew(device, context, pd, qp, mr);
  CHECK(ibv_destroy_qp(qp) == 0);
  CHECK(ibv_dereg_mr(mr) == 0);
  CHECK(ibv_destroy_cq(cq) == 0);
  CHECK(ibv_dealloc_pd(pd) == 0);
  CHECK(ibv_close_device(context) == 0);
  CHECK(Find(argv[1]) == NULL);
  puts("removed");

  for (int waited_ms = 0; Find(argv[1]) == NULL; ++waited_ms) {
    CHECK(waited_ms < kPatienceMs);
    usleep(1000);
  }
  context = ibv_open_device(Find(argv[1]));
  CHECK(context != NULL);
  CHECK(ibv_close_device(context) == 0);
  puts("back");
  return 0;
}
