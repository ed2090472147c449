// SPDX-License-Identifier: Apache-2.0
// A libibverbs of a release to come, as far as contexts of providers go: its verbs_context and its
// private part have slots that no header of today declares, and it has verbs that call them. Like
// all releases, it fills the table of a new context with functions that refuse. It has a device.
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "tests/verbs-shim/library/newer_library.h"

struct ops {
  void* of_today[90];
  int (*invented)(struct ibv_context*, int);
  void* (*make_invented)(struct ibv_context*);
};

struct verbs_ex_private {
  uint64_t unsupported[4];
  uint32_t driver_id;
  bool uses_ioctl;
  struct ops ops;
  bool is_imported;
};

struct newer_context {
  void* newer_slots[40];
  struct verbs_context of_today;  // Contexts grow at their beginning.
};

struct newer_device {
  struct ibv_device verbs;
  const void* ops;
  uint32_t users;
};

static struct ibv_device other_device = {.name = "mana_0"};

struct ibv_device** ibv_get_device_list(int* count) {
  struct ibv_device** list = calloc(2, sizeof(*list));
  list[0] = &other_device;
  *count = 1;
  return list;
}

void ibv_free_device_list(struct ibv_device** list) { free(list); }

const char* ibv_get_device_name(struct ibv_device* device) { return device->name; }

static int refuse(struct ibv_context* context, int argument) {
  (void)context, (void)argument;
  return EOPNOTSUPP;
}

static void* refuse_to_make(struct ibv_context* context) {
  (void)context;
  errno = EOPNOTSUPP;
  return NULL;
}

bool newer_library_makes_contexts = true;

void* _verbs_init_and_alloc_context(struct ibv_device* device, int cmd_fd, size_t size_bytes,
                                    struct verbs_context* offset, uint32_t driver_id) {
  if (!newer_library_makes_contexts) return NULL;
  uint8_t* memory = calloc(1, size_bytes);
  struct newer_context* made = (struct newer_context*)(memory + (uintptr_t)offset);
  struct verbs_ex_private* part = calloc(1, sizeof(*part));
  part->driver_id = driver_id;
  part->ops.invented = refuse;
  part->ops.make_invented = refuse_to_make;
  made->of_today.priv = part;
  made->of_today.sz = sizeof(*made);
  made->of_today.context.device = device;
  made->of_today.context.cmd_fd = cmd_fd;
  ((struct newer_device*)device)->users += 1;
  return memory;
}

static const struct ops* ops_of(struct ibv_context* context) {
  const size_t before = offsetof(struct verbs_context, context);
  return &((struct verbs_context*)((uint8_t*)context - before))->priv->ops;
}

int ibv_invented_verb(struct ibv_context* context, int argument) {
  return ops_of(context)->invented(context, argument);
}

void* ibv_make_invented(struct ibv_context* context) {
  return ops_of(context)->make_invented(context);
}
