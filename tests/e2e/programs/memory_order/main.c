/* SPDX-License-Identifier: Apache-2.0
 * Both ends in two threads, or one of them. */
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "tests/e2e/programs/memory_order/memory_order.h"

static const char kUsage[] =
    "usage: memory_order last-word|flag|two-writes --exchange DIRECTORY [OPTION...]\n"
    "  --device-a NAME --device-b NAME   writer's and reader's (uroce0, uroce1)\n"
    "  --gid-a INDEX --gid-b INDEX       their GIDs (1)\n"
    "  --role 0|1                        the writer or the reader alone; otherwise both\n"
    "  --bytes N                         of the message or the target (4096)\n"
    "  --rounds N --seconds N            whichever comes first (1000, none)\n"
    "  --seed N                          (1)\n"
    "  --inner                           last-word: spin on words inside too\n"
    "  --flag first|inner|own            flag: which word of the message, or a separate one\n"
    "  --shared                          the target is a shared mapping of a file\n"
    "  --timeout N                       as ibv_modify_qp takes it (14)\n"
    "exit status: 0 all was right, 1 something was wrong\n";

static const struct {
  const char* name;
  size_t (*arena)(const struct mo_options* options, enum mo_end which);
  void (*run[2])(struct mo_end_state* end);
  /* Or null: two threads. */
  void (*run_both)(struct mo_end_state* writer, struct mo_end_state* reader);
} kModes[] = {
    {"last-word", mo_watch_arena, {mo_watch_writer, mo_watch_reader}, mo_watch_both},
    {"flag", mo_watch_arena, {mo_watch_writer, mo_watch_reader}, mo_watch_both},
    {"two-writes", mo_two_writes_arena, {mo_two_writes_writer, mo_two_writes_reader}, NULL}};

static struct timespec started;

int mo_goes_on(const struct mo_end_state* end, uint64_t round) {
  const struct mo_options* options = end->options;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const int has_time = options->seconds == 0 || now.tv_sec - started.tv_sec < options->seconds;
  return round <= options->rounds && has_time;
}

void mo_poll(struct mo_end_state* end) {
  struct ibv_wc wc;
  const int count = ibv_poll_cq(end->side.send_cq, 1, &wc);
  if (count < 0) vc_die(&end->side, "ibv_poll_cq: %d", count);
  if (count == 0) {
    sched_yield();
    return;
  }
  if (wc.status != IBV_WC_SUCCESS) vc_die(&end->side, "%s", ibv_wc_status_str(wc.status));
  if ((wc.opcode & IBV_WC_RECV) == 0) {
    --end->outstanding;
    return;
  }
  ++end->received;
  end->is_told_to_end = (wc.wc_flags & IBV_WC_WITH_IMM) != 0;
}

void mo_wait_for_sends(struct mo_end_state* end, uint32_t at_most) {
  while (end->outstanding > at_most) mo_poll(end);
}

void mo_wait_for_receive(struct mo_end_state* end) {
  while (end->received == 0) mo_poll(end);
  --end->received;
}

void mo_post_receive(struct mo_end_state* end, size_t offset, uint32_t length) {
  struct ibv_sge sge = {(uintptr_t)end->arena + offset, length, end->arena_mr->lkey};
  struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = length != 0};
  if (vc_side_post_receive(&end->side, &wr)) vc_die(&end->side, "ibv_post_recv");
}

void mo_post(struct mo_end_state* end, enum ibv_wr_opcode opcode, size_t offset, uint32_t length,
             size_t remote_offset, int is_signaled) {
  struct ibv_sge sge = {(uintptr_t)end->arena + offset, length, end->arena_mr->lkey};
  struct ibv_send_wr wr = {.sg_list = &sge,
                           .num_sge = length != 0,
                           .opcode = opcode,
                           .send_flags = is_signaled ? IBV_SEND_SIGNALED : 0};
  const uint64_t remote = end->side.peer.writable_addr + remote_offset;
  if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    wr.wr.atomic.remote_addr = remote;
    wr.wr.atomic.rkey = end->side.peer.writable_rkey;
    wr.wr.atomic.compare_add = 1;
  } else {
    wr.wr.rdma.remote_addr = remote;
    wr.wr.rdma.rkey = end->side.peer.writable_rkey;
  }
  struct ibv_send_wr* bad = NULL;
  const int error = ibv_post_send(end->side.qp, &wr, &bad);
  if (error) vc_die(&end->side, "ibv_post_send: %s", strerror(error));
  end->outstanding += is_signaled != 0;
}

static void make_arena(struct mo_end_state* end, size_t bytes) {
  const int is_file = end->options->is_shared_file && end->side.index == MO_READER;
  const int fd = is_file ? memfd_create("memory_order", 0) : -1;
  if (is_file && (fd < 0 || ftruncate(fd, (off_t)bytes))) vc_die(&end->side, "memfd_create");
  void* arena = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                     is_file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, fd, 0);
  if (arena == MAP_FAILED) vc_die(&end->side, "mmap: %s", strerror(errno));
  end->arena = arena;
  end->arena_bytes = bytes;
  end->arena_mr =
      ibv_reg_mr(end->side.pd, arena, bytes,
                 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
  if (!end->arena_mr) vc_die(&end->side, "ibv_reg_mr: %s", strerror(errno));
  end->side.info.writable_addr = (uintptr_t)arena;
  end->side.info.writable_rkey = end->arena_mr->rkey;
}

static size_t find_mode(const struct mo_options* options) {
  size_t mode = 0;
  while (mode < 3 && strcmp(kModes[mode].name, options->mode) != 0) ++mode;
  if (mode < 3) return mode;
  fputs(kUsage, stderr);
  exit(2);
}

static void* set_up(void* argument) {
  struct mo_end_state* end = argument;
  const enum mo_end which = (enum mo_end)end->side.index;
  vc_side_open(&end->side, &end->options->side, which);
  end->random = end->options->side.seed;
  make_arena(end, kModes[find_mode(end->options)].arena(end->options, which));
  vc_side_to_init(&end->side);
  vc_side_exchange(&end->side, "info");
  vc_side_connect(&end->side);
  vc_side_exchange(&end->side, "ready");
  return NULL;
}

static void* run(void* argument) {
  struct mo_end_state* end = argument;
  kModes[find_mode(end->options)].run[end->side.index](end);
  return NULL;
}

static void* take_down(void* argument) {
  struct mo_end_state* end = argument;
  vc_side_exchange(&end->side, "done");
  ibv_dereg_mr(end->arena_mr);
  vc_side_close(&end->side);
  return NULL;
}

static uint64_t number(const char* text) {
  char* rest = NULL;
  const uint64_t value = strtoull(text, &rest, 0);
  if (rest != text && !*rest) return value;
  fprintf(stderr, "memory_order: bad value '%s'\n", text);
  exit(2);
}

static void set_option(struct mo_options* options, int option, const char* value) {
  struct vc_options* side = &options->side;
  switch (option) {
    case 'a':
    case 'b':
      side->devices[option - 'a'] = value;
      return;
    case 'A':
    case 'B':
      side->gid_indices[option - 'A'] = (int)number(value);
      return;
    case 'r':
      side->role = number(value) != 0;
      return;
    case 'x':
      side->exchange = value;
      return;
    case 'n':
      options->bytes = (uint32_t)number(value);
      return;
    case 'R':
      options->rounds = number(value);
      return;
    case 'S':
      options->seconds = (uint32_t)number(value);
      return;
    case 's':
      side->seed = number(value) * 2 + 1; /* Odd: one completion queue for both. */
      return;
    case 'i':
      options->watches_inner = 1;
      return;
    case 'f':
      options->flag = value;
      return;
    case 'm':
      options->is_shared_file = 1;
      return;
    case 't':
      side->ack_timeout = (uint8_t)number(value);
      return;
    default:
      fputs(kUsage, option == 'h' ? stdout : stderr);
      exit(option == 'h' ? 0 : 2);
  }
}

static void parse(int argc, char** argv, struct mo_options* options) {
  static const struct option kOptions[] = {
      {"device-a", 1, 0, 'a'}, {"device-b", 1, 0, 'b'}, {"gid-a", 1, 0, 'A'}, {"gid-b", 1, 0, 'B'},
      {"role", 1, 0, 'r'},     {"exchange", 1, 0, 'x'}, {"bytes", 1, 0, 'n'}, {"rounds", 1, 0, 'R'},
      {"seconds", 1, 0, 'S'},  {"seed", 1, 0, 's'},     {"inner", 0, 0, 'i'}, {"flag", 1, 0, 'f'},
      {"shared", 0, 0, 'm'},   {"timeout", 1, 0, 't'},  {"help", 0, 0, 'h'},  {0, 0, 0, 0},
  };
  for (int option; (option = getopt_long(argc, argv, "h", kOptions, NULL)) != -1;) {
    set_option(options, option, optarg);
  }
  if (optind + 1 != argc || !options->side.exchange || options->bytes < 8 ||
      options->bytes % 8 != 0) {
    fputs(kUsage, stderr);
    exit(2);
  }
  options->mode = argv[optind];
}

static void in_two_threads(void* (*part)(void*), struct mo_end_state* ends) {
  pthread_t threads[2];
  for (int i = 0; i < 2; ++i) pthread_create(&threads[i], NULL, part, &ends[i]);
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
}

static int run_both(const struct mo_options* options) {
  struct mo_end_state ends[2] = {{.options = options, .side = {.index = MO_WRITER}},
                                 {.options = options, .side = {.index = MO_READER}}};
  const size_t mode = find_mode(options);
  in_two_threads(set_up, ends);
  if (kModes[mode].run_both != NULL) {
    kModes[mode].run_both(&ends[MO_WRITER], &ends[MO_READER]);
  } else {
    in_two_threads(run, ends);
  }
  in_two_threads(take_down, ends);
  return ends[MO_READER].wrong != 0;
}

int main(int argc, char** argv) {
  struct mo_options options = {.side = {.devices = {"uroce0", "uroce1"},
                                        .gid_indices = {1, 1},
                                        .role = -1,
                                        .rxe_end = -1,
                                        .type = IBV_QPT_RC,
                                        .seed = 3,
                                        .max_bytes = 4096,
                                        .ack_timeout = 14,
                                        .retry_count = 7,
                                        .rnr_retry = 7,
                                        .deadline_s = 60},
                               .bytes = 4096,
                               .rounds = 1000,
                               .flag = "first"};
  parse(argc, argv, &options);
  find_mode(&options);
  clock_gettime(CLOCK_MONOTONIC, &started);
  if (options.side.role < 0) return run_both(&options);
  struct mo_end_state end = {.options = &options, .side = {.index = options.side.role}};
  set_up(&end);
  run(&end);
  take_down(&end);
  return end.wrong != 0;
}
