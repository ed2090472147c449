// SPDX-License-Identifier: Apache-2.0
// newer_verbs DEVICE: calls the verbs that libibverbs has since 1.15, and librdmacm since 1.4,
// where the libraries of this process have them. Prints a line for each: its name, and what it
// returned. Debian 12's headers do not declare these functions.
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct region_attributes {  // ibv_mr_init_attr
  size_t length;
  int access;
  uint64_t given;
  uint64_t iova;
  void* addr;
  int fd;
  uint64_t fd_offset;
  void* dmah;
  void* buf;
};
enum { GIVEN_IOVA = 1, GIVEN_ADDR = 2, GIVEN_FD = 4, GIVEN_DMAH = 16 };
enum { EVENT_OF_THE_PROGRAM = RDMA_CM_EVENT_TIMEWAIT_EXIT + 3 };  // RDMA_CM_EVENT_USER
enum { BY_SUBNET_ADMINISTRATION = 0x10 };                         // RAI_SA

static void say(const char* name, int result) {
  printf("%s: %s\n", name, result == 0 ? "0" : strerrorname_np(result));
}
static void say_object(const char* name, const void* object) {
  printf("%s: %s\n", name, object != NULL ? "made" : strerrorname_np(errno));
}
static void need(int condition, const char* what) {
  if (condition) return;
  printf("%s: %s\n", what, strerrorname_np(errno));
  exit(1);
}

/// Sets `*function`, a pointer to a function, to `name` of the libraries; null if they lack it.
static void find(const char* name, void* function) {
  void* found = dlsym(RTLD_DEFAULT, name);
  memcpy(function, &found, sizeof(found));
}

static struct ibv_context* open_device(const char* name) {
  struct ibv_device** list = ibv_get_device_list(NULL);
  struct ibv_context* context = NULL;
  for (int i = 0; list != NULL && list[i] != NULL; ++i) {
    if (strcmp(ibv_get_device_name(list[i]), name) == 0) context = ibv_open_device(list[i]);
  }
  need(context != NULL, "ibv_open_device");
  ibv_free_device_list(list);
  return context;
}

static void ask_for_speed(struct ibv_context* context) {
  int (*query)(struct ibv_context*, uint32_t, uint64_t*);
  find("ibv_query_port_speed", &query);
  uint64_t speed = 0;
  const int error = query(context, 1, &speed);
  say("ibv_query_port_speed", error);
  printf("port 1: %llu00 Mb/s\n", (unsigned long long)speed);
  say("ibv_query_port_speed of port 2", query(context, 2, &speed));
}

/// Registers memory in all ways that `ibv_reg_mr_ex` has. The keys must work like any others'.
static void register_memory(struct ibv_pd* pd) {
  struct ibv_mr* (*reg)(struct ibv_pd*, struct region_attributes*);
  find("ibv_reg_mr_ex", &reg);
  void* memory = NULL;
  need(posix_memalign(&memory, 4096, 8192) == 0, "memory");
  struct region_attributes wanted = {
      .length = 8192, .access = IBV_ACCESS_LOCAL_WRITE, .given = GIVEN_ADDR, .addr = memory};
  struct ibv_mr* mr = reg(pd, &wanted);
  say_object("ibv_reg_mr_ex", mr);
  need(mr->addr == memory && mr->length == 8192 && mr->pd == pd, "its members");
  say("ibv_dereg_mr", ibv_dereg_mr(mr));
  wanted.given = GIVEN_ADDR | GIVEN_IOVA;
  wanted.iova = 4096;
  mr = reg(pd, &wanted);
  say_object("ibv_reg_mr_ex with an iova", mr);
  say("ibv_dereg_mr", ibv_dereg_mr(mr));
  wanted.given = GIVEN_IOVA;
  say_object("ibv_reg_mr_ex without memory", reg(pd, &wanted));
  wanted.given = GIVEN_FD;
  say_object("ibv_reg_mr_ex of a DMA-buf", reg(pd, &wanted));
  wanted.given = GIVEN_ADDR | GIVEN_DMAH;
  say_object("ibv_reg_mr_ex with a DMA handle", reg(pd, &wanted));
  free(memory);
}

static void use_buffer(struct ibv_pd* pd) {
  void* (*alloc)(struct ibv_pd*, size_t, void**);
  find("ibv_alloc_buf", &alloc);
  if (alloc == NULL) return;
  void (*give_back)(void*);
  find("ibv_free_buf", &give_back);
  struct ibv_mr* (*reg)(struct ibv_pd*, void*, void*, size_t, int);
  find("ibv_reg_buf_mr", &reg);
  int (*export)(void*);
  find("ibv_export_buf_dmabuf_fd", &export);
  void* buffer = NULL;
  uint8_t* memory = alloc(pd, 10000, &buffer);
  say_object("ibv_alloc_buf", memory);
  if (memory == NULL) return;
  memset(memory, 1, 10000);
  struct ibv_mr* mr = reg(pd, buffer, memory + 100, 9900, IBV_ACCESS_LOCAL_WRITE);
  say_object("ibv_reg_buf_mr", mr);
  need(mr->addr == memory + 100, "its address");
  say("ibv_dereg_mr", ibv_dereg_mr(mr));
  say_object("ibv_reg_buf_mr behind its end",
             reg(pd, buffer, memory + 100, 9901, IBV_ACCESS_LOCAL_WRITE));
  say_object("ibv_reg_buf_mr in front of it",
             reg(pd, buffer, memory - 1, 2, IBV_ACCESS_LOCAL_WRITE));
  struct ibv_pd* other = ibv_alloc_pd(pd->context);
  need(other != NULL, "ibv_alloc_pd");
  say_object("ibv_reg_buf_mr by another domain",
             reg(other, buffer, memory, 100, IBV_ACCESS_LOCAL_WRITE));
  ibv_dealloc_pd(other);
  if (export != NULL) printf("ibv_export_buf_dmabuf_fd: %d\n", export(buffer));
  give_back(buffer);
}

/// The verbs that no device of ours has.
static void be_refused(struct ibv_context* context) {
  uint64_t attributes[16] = {0};
  static const char* makers[] = {"ibv_alloc_dmah", "ibv_create_comp_cntr"};
  for (int i = 0; i < 2; ++i) {
    void* (*make)(struct ibv_context*, void*);
    find(makers[i], &make);
    if (make != NULL) say_object(makers[i], make(context, attributes));
  }
  int (*query)(struct ibv_context*, void*, size_t);
  find("_ibv_query_comp_cntr_caps", &query);
  if (query != NULL) say("ibv_query_comp_cntr_caps", query(context, attributes, 16));
  int (*export)(struct ibv_dm*);
  find("ibv_dm_export_dmabuf_fd", &export);
  if (export == NULL) return;
  struct ibv_alloc_dm_attr wanted = {.length = 4096};
  struct ibv_dm* dm = ibv_alloc_dm(context, &wanted);
  need(dm != NULL, "ibv_alloc_dm");
  printf("ibv_dm_export_dmabuf_fd: %d\n", export(dm));
  say("ibv_free_dm", ibv_free_dm(dm));
}

static void connection_manager(void) {
  int (*resolve)(struct rdma_cm_id*, const char*, const char*, const struct rdma_addrinfo*);
  find("rdma_resolve_addrinfo", &resolve);
  if (resolve == NULL) return;
  int (*query)(struct rdma_cm_id*, struct rdma_addrinfo**);
  find("rdma_query_addrinfo", &query);
  int (*send_event)(struct rdma_cm_id*, int, int, uint64_t);
  find("rdma_write_cm_event", &send_event);
  struct rdma_event_channel* channel = rdma_create_event_channel();
  struct rdma_cm_id* id = NULL;
  need(channel != NULL && rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0, "rdma_create_id");
  printf("rdma_write_cm_event: %d\n", send_event(id, EVENT_OF_THE_PROGRAM, 0, 7));
  printf("rdma_resolve_addrinfo: %d\n", resolve(id, "127.0.0.1", "7471", NULL));
  struct rdma_addrinfo* found = NULL;
  printf("rdma_query_addrinfo: %d\n", query(id, &found));
  struct rdma_addrinfo service = {.ai_flags = BY_SUBNET_ADMINISTRATION};
  printf("rdma_resolve_addrinfo by the SA: %d\n", resolve(id, NULL, "7", &service));
  printf("rdma_destroy_id: %d\n", rdma_destroy_id(id));
  rdma_destroy_event_channel(channel);
  int (*create)(int);
  find("repoll_create", &create);
  if (create != NULL)
    printf("repoll_create: %s\n", create(0) >= 0 ? "made" : strerrorname_np(errno));
}

int main(int argc, char** argv) {
  need(argc == 2, "one device");
  struct ibv_context* context = open_device(argv[1]);
  struct ibv_pd* pd = ibv_alloc_pd(context);
  need(pd != NULL, "ibv_alloc_pd");
  ask_for_speed(context);
  register_memory(pd);
  use_buffer(pd);
  be_refused(context);
  connection_manager();
  say("ibv_dealloc_pd", ibv_dealloc_pd(pd));
  say("ibv_close_device", ibv_close_device(context));
  return 0;
}
