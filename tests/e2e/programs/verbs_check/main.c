/* SPDX-License-Identifier: Apache-2.0
 * Checks the data of connections and datagrams, byte by byte, with nothing but libibverbs. */
#include <dirent.h>
#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "errors.h"
#include "traffic.h"

#define NO_SEED UINT64_MAX

static const char kUsage[] =
    "usage: verbs_check [OPTION...]\n"
    "  --device-a NAME --device-b NAME   devices of the two ends (uroce0, uroce1)\n"
    "  --gid-a INDEX --gid-b INDEX       their GIDs (1)\n"
    "  --role 0|1                        only this end; the other has the same --seed\n"
    "  --exchange DIRECTORY              where the ends meet, empty at the start\n"
    "  --service rc|uc|ud|xrc\n"
    "  --srq                             receives are posted to a shared receive queue\n"
    "  --seed N --ops N --max-bytes N --mtu N\n"
    "  --until FILE                      go on after --ops until end 0 sees this file\n"
    "  --timeout N --retries N --rnr-retries N   as ibv_modify_qp takes them (14, 7, 7)\n"
    "  --traffic-class N                 of all packets: DSCP and ECN bits (0)\n"
    "  --deadline SECONDS                give up when nothing completes for so long (60)\n"
    "  --unfenced                        no request waits for READs and atomics before it\n"
    "  --late-receives                   messages find no receive at first\n"
    "  --errors CASE|all                 requests that must fail, and windows, instead of data\n"
    "  --rxe 0|1                         this end runs on Linux's rdma_rxe\n";

struct end {
  const struct vc_options* options;
  int index;
  struct vc_tally sent;
};

static void* run_end(void* argument) {
  struct end* end = argument;
  vc_run_traffic(end->options, end->index, &end->sent);
  return NULL;
}

static void report(const struct end* end) {
  printf("verbs_check: seed %lu: all data right after", end->options->seed);
  for (int kind = 0; kind < VC_KINDS; ++kind) {
    printf(" %s=%lu", vc_kind_name((enum vc_kind)kind), end->sent.of[kind]);
  }
  printf("\n");
}

static void run_both(const struct vc_options* options) {
  struct end ends[2] = {{options, 0, {{0}}}, {options, 1, {{0}}}};
  pthread_t other;
  if (pthread_create(&other, NULL, run_end, &ends[1])) abort();
  run_end(&ends[0]);
  pthread_join(other, NULL);
  report(&ends[0]);
  report(&ends[1]);
}

/* Takes away what the ends left for each other. */
static void remove_exchange(const char* directory) {
  DIR* files = opendir(directory);
  if (files) {
    for (struct dirent* file; (file = readdir(files));) unlinkat(dirfd(files), file->d_name, 0);
    closedir(files);
  }
  rmdir(directory);
}

static int run(const struct vc_options* options, const char* errors) {
  if (errors) return vc_run_errors(options, errors);
  if (options->role < 0) {
    run_both(options);
  } else {
    struct end end = {options, options->role, {{0}}};
    run_end(&end);
    report(&end);
  }
  return 0;
}

static uint64_t number(const char* text, uint64_t max) {
  char* end = NULL;
  const uint64_t value = strtoull(text, &end, 0);
  if (end == text || *end || value > max) {
    fprintf(stderr, "verbs_check: bad value '%s'\n", text);
    exit(2);
  }
  return value;
}

static enum ibv_qp_type service(const char* text) {
  if (!strcmp(text, "rc")) return IBV_QPT_RC;
  if (!strcmp(text, "uc")) return IBV_QPT_UC;
  if (!strcmp(text, "ud")) return IBV_QPT_UD;
  if (!strcmp(text, "xrc")) return IBV_QPT_XRC_SEND;
  fprintf(stderr, "verbs_check: there is no service '%s'\n", text);
  exit(2);
}

static void set_option(struct vc_options* options, const char** errors, int option,
                       const char* value) {
  switch (option) {
    case 'a':
    case 'b':
      options->devices[option - 'a'] = value;
      return;
    case 'A':
    case 'B':
      options->gid_indices[option - 'A'] = (int)number(value, 255);
      return;
    case 'r':
      options->role = (int)number(value, 1);
      return;
    case 'x':
      options->exchange = value;
      return;
    case 's':
      options->seed = number(value, NO_SEED - 1);
      return;
    case 'o':
      options->ops = number(value, UINT64_MAX);
      return;
    case 'U':
      options->until = value;
      return;
    case 'm':
      options->max_bytes = (uint32_t)number(value, 1u << 28);
      return;
    case 'M':
      options->mtu_bytes = (uint32_t)number(value, 4096);
      return;
    case 't':
      options->ack_timeout = (uint8_t)number(value, 31);
      return;
    case 'T':
      options->traffic_class = (uint8_t)number(value, 255);
      return;
    case 'n':
      options->retry_count = (uint8_t)number(value, 7);
      return;
    case 'N':
      options->rnr_retry = (uint8_t)number(value, 7);
      return;
    case 'd':
      options->deadline_s = (uint32_t)number(value, 3600);
      return;
    case 'R':
      options->rxe_end = (int)number(value, 1);
      return;
    case 'q':
      options->shared_receive = 1;
      return;
    case 'S':
      options->type = service(value);
      return;
    case 'l':
      options->late_receives = 1;
      return;
    case 'u':
      options->unfenced = 1;
      return;
    case 'e':
      *errors = value;
      return;
    default:
      fputs(kUsage, option == 'h' ? stdout : stderr);
      exit(option == 'h' ? 0 : 2);
  }
}

int main(int argc, char** argv) {
  static const struct option kOptions[] = {
      {"device-a", 1, 0, 'a'},      {"device-b", 1, 0, 'b'},      {"gid-a", 1, 0, 'A'},
      {"gid-b", 1, 0, 'B'},         {"role", 1, 0, 'r'},          {"exchange", 1, 0, 'x'},
      {"seed", 1, 0, 's'},          {"ops", 1, 0, 'o'},           {"until", 1, 0, 'U'},
      {"max-bytes", 1, 0, 'm'},     {"mtu", 1, 0, 'M'},           {"timeout", 1, 0, 't'},
      {"retries", 1, 0, 'n'},       {"rnr-retries", 1, 0, 'N'},   {"deadline", 1, 0, 'd'},
      {"unfenced", 0, 0, 'u'},      {"errors", 1, 0, 'e'},        {"rxe", 1, 0, 'R'},
      {"late-receives", 0, 0, 'l'}, {"help", 0, 0, 'h'},          {"service", 1, 0, 'S'},
      {"srq", 0, 0, 'q'},           {"traffic-class", 1, 0, 'T'}, {0, 0, 0, 0},
  };
  struct vc_options options = {.devices = {"uroce0", "uroce1"},
                               .gid_indices = {1, 1},
                               .role = -1,
                               .rxe_end = -1,
                               .type = IBV_QPT_RC,
                               .seed = NO_SEED,
                               .ops = 1000,
                               .max_bytes = 300000,
                               .ack_timeout = 14,
                               .retry_count = 7,
                               .rnr_retry = 7,
                               .deadline_s = 60};
  const char* errors = NULL;
  for (int option; (option = getopt_long(argc, argv, "h", kOptions, NULL)) != -1;) {
    set_option(&options, &errors, option, optarg);
  }
  if (options.role >= 0 && options.seed == NO_SEED) {
    fprintf(stderr, "verbs_check: two processes need the same --seed\n");
    return 2;
  }
  if (options.seed == NO_SEED) options.seed = (uint64_t)time(NULL);
  char own_directory[] = "/tmp/verbs_check-XXXXXX";
  if (!options.exchange && !mkdtemp(own_directory)) {
    perror("verbs_check: mkdtemp");
    return 1;
  }
  const int own = !options.exchange;
  if (own) options.exchange = own_directory;
  const int status = run(&options, errors);
  if (own) remove_exchange(own_directory);
  return status;
}
