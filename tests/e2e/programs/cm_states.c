/* SPDX-License-Identifier: Apache-2.0
 * An end of a connection by librdmacm that goes as far as a state, says so and stays there, until
 * its peer or its daemon is gone. Its queue pair stays in RESET: it is rdma_cm's no more than any
 * that a program makes by ibv_create_qp, and the states are the same.
 *
 * usage: cm_states server STATE ADDRESS PORT [QPN]    listening, requested, accepted, established
 *        cm_states client STATE ADDRESS PORT [QPN]    bound, resolving, resolved, routed,
 *                                               connecting, responded, established, disconnecting
 * QPN: the number of the queue pair that it names to its peer, in place of the true one. Prints "at
 * STATE", then the event that ended it. Status 0: such an event came. */
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kTimeoutMs = 2000 };

static struct rdma_event_channel* channel;
static const char* wanted;
static uint32_t claimed_qpn;

static void fail(const char* what) {
  perror(what);
  exit(1);
}

static void require(int result, const char* what) {
  if (result) fail(what);
}

static struct rdma_cm_event* next_event(void) {
  struct rdma_cm_event* event;
  require(rdma_get_cm_event(channel, &event), "rdma_get_cm_event");
  return event;
}

/* The next event, which has to be `type`. Returns its id. */
static struct rdma_cm_id* expect(enum rdma_cm_event_type type) {
  struct rdma_cm_event* event = next_event();
  if (event->event != type) {
    printf("got %s, status %d\n", rdma_event_str(event->event), event->status);
    exit(event->event == RDMA_CM_EVENT_DISCONNECTED ? 0 : 1);
  }
  struct rdma_cm_id* id = event->id;
  rdma_ack_cm_event(event);
  return id;
}

/* Stays, once this is the state that was asked for. */
static void reach(const char* state) {
  if (strcmp(state, wanted) != 0) return;
  printf("at %s\n", state);
  fflush(stdout);
  struct rdma_cm_event* event = next_event();
  printf("got %s, status %d\n", rdma_event_str(event->event), event->status);
  exit(0);
}

static struct rdma_conn_param parameters(struct rdma_cm_id* id) {
  struct rdma_conn_param param = {.retry_count = 7, .rnr_retry_count = 7};
  struct ibv_pd* pd = ibv_alloc_pd(id->verbs);
  struct ibv_cq* cq = ibv_create_cq(id->verbs, 1, NULL, NULL, 0);
  struct ibv_qp_init_attr attr = {
      .send_cq = cq, .recv_cq = cq, .cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC};
  struct ibv_qp* qp = pd && cq ? ibv_create_qp(pd, &attr) : NULL;
  if (!qp) fail("ibv_create_qp");
  param.qp_num = claimed_qpn ? claimed_qpn : qp->qp_num;
  return param;
}

static void serve(struct rdma_cm_id* id, struct sockaddr_in* address) {
  require(rdma_bind_addr(id, (struct sockaddr*)address), "rdma_bind_addr");
  require(rdma_listen(id, 4), "rdma_listen");
  reach("listening");
  struct rdma_cm_id* request = expect(RDMA_CM_EVENT_CONNECT_REQUEST);
  reach("requested");
  struct rdma_conn_param param = parameters(request);
  require(rdma_accept(request, &param), "rdma_accept");
  reach("accepted");
  expect(RDMA_CM_EVENT_ESTABLISHED);
  reach("established");
}

static void connect_to(struct rdma_cm_id* id, struct sockaddr_in* address) {
  struct sockaddr_in any = {.sin_family = AF_INET};
  require(rdma_bind_addr(id, (struct sockaddr*)&any), "rdma_bind_addr");
  reach("bound");
  require(rdma_resolve_addr(id, NULL, (struct sockaddr*)address, kTimeoutMs), "rdma_resolve_addr");
  reach("resolving");
  expect(RDMA_CM_EVENT_ADDR_RESOLVED);
  reach("resolved");
  require(rdma_resolve_route(id, kTimeoutMs), "rdma_resolve_route");
  expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
  reach("routed");
  struct rdma_conn_param param = parameters(id);
  require(rdma_connect(id, &param), "rdma_connect");
  reach("connecting");
  expect(RDMA_CM_EVENT_CONNECT_RESPONSE);
  reach("responded");
  require(rdma_establish(id), "rdma_establish");
  reach("established");
  require(rdma_disconnect(id), "rdma_disconnect");
  reach("disconnecting");
}

int main(int argc, char** argv) {
  struct rdma_cm_id* id;
  if (argc != 5 && argc != 6) {
    fprintf(stderr, "usage: cm_states server|client STATE ADDRESS PORT [QPN]\n");
    return 2;
  }
  wanted = argv[2];
  if (argc == 6) claimed_qpn = (uint32_t)atoi(argv[5]);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[4]))};
  if (inet_pton(AF_INET, argv[3], &address.sin_addr) != 1) fail(argv[3]);
  channel = rdma_create_event_channel();
  if (!channel) fail("rdma_create_event_channel");
  require(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), "rdma_create_id");
  if (strcmp(argv[1], "server") == 0) serve(id, &address);
  if (strcmp(argv[1], "client") == 0) connect_to(id, &address);
  fprintf(stderr, "cm_states: there is no state %s\n", wanted);
  return 2;
}
