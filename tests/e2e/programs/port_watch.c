/* SPDX-License-Identifier: Apache-2.0
 * Shows port and GIDs of a device, and again after each asynchronous event, until it is killed. */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>

enum { kMaxGids = 1024 };
enum { kSpeedChange = 20 };  // IBV_EVENT_DEVICE_SPEED_CHANGE, which Debian 12's headers lack.

static void show_gids(struct ibv_context* context) {
  static struct ibv_gid_entry entries[kMaxGids];
  const ssize_t count = ibv_query_gid_table(context, entries, kMaxGids, 0);
  for (ssize_t i = 0; i < count; ++i) {
    char text[INET6_ADDRSTRLEN] = "";
    inet_ntop(AF_INET6, entries[i].gid.raw, text, sizeof(text));
    printf("gid %u %s ifindex %u\n", entries[i].gid_index, text, entries[i].ndev_ifindex);
  }
}

static int show(struct ibv_context* context) {
  struct ibv_port_attr port;
  if (ibv_query_port(context, 1, &port)) return 1;
  show_gids(context);
  printf("port %s mtu %d\n", ibv_port_state_str(port.state), 128 << port.active_mtu);
  return fflush(stdout);
}

/// Units of 100 Mb/s; 0 where it is not told.
static unsigned long long speed_of(struct ibv_context* context) {
  void* found = dlsym(RTLD_DEFAULT, "ibv_query_port_speed");
  int (*query)(struct ibv_context*, uint32_t, uint64_t*) = NULL;
  memcpy(&query, &found, sizeof(found));
  uint64_t speed = 0;
  if (query == NULL || query(context, 1, &speed) != 0) return 0;
  return speed;
}

static struct ibv_context* open_device(const char* name) {
  struct ibv_device** list = ibv_get_device_list(NULL);
  struct ibv_context* context = NULL;
  for (int i = 0; list && list[i] && !context; ++i) {
    if (!strcmp(ibv_get_device_name(list[i]), name)) context = ibv_open_device(list[i]);
  }
  if (list) ibv_free_device_list(list);
  return context;
}

int main(int argc, char** argv) {
  struct ibv_context* context = argc == 2 ? open_device(argv[1]) : NULL;
  if (!context) {
    fprintf(stderr, "usage: port_watch DEVICE\n");
    return 2;
  }
  struct ibv_async_event event;
  while (!show(context) && !ibv_get_async_event(context, &event)) {
    if ((int)event.event_type == kSpeedChange) {
      printf("event speed of port %d is %llu00 Mb/s\n", event.element.port_num, speed_of(context));
    } else {
      printf("event %s\n", ibv_event_type_str(event.event_type));
    }
    ibv_ack_async_event(&event);
  }
  return 1;
}
