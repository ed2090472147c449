/* SPDX-License-Identifier: Apache-2.0
 * One end of a pair of programs that transfer until one of them, or their daemon, is killed. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/e2e/programs/until_killed/until_killed.h"

static const char kUsage[] =
    "usage: until_killed --role 0|1 --exchange DIRECTORY [OPTION...]\n"
    "  --device-a NAME --device-b NAME   devices of the two ends (uroce0, uroce1)\n"
    "  --gid-a INDEX --gid-b INDEX       their GIDs (1)\n"
    "  --seed N --max-bytes N            (1, 65536)\n"
    "  --timeout N --retries N           as ibv_modify_qp takes them (14, 7)\n"
    "  --deadline SECONDS                give up when nothing completes for so long (60)\n"
    "  --sleep                           wait in ibv_get_cq_event\n"
    "  --churn                           make and unmake objects beside the traffic\n"
    "  --idle-qps N                      have so many more queue pairs\n"
    "  --pause MILLISECONDS              rest behind each round (0)\n"
    "exit status: 0 ended by SIGTERM, 1 something was wrong, 3 the peer is gone, 4 the daemon is\n";

static uint64_t number(const char* text, uint64_t max) {
  char* end = NULL;
  const uint64_t value = strtoull(text, &end, 0);
  if (end != text && !*end && value <= max) return value;
  fprintf(stderr, "until_killed: bad value '%s'\n", text);
  exit(EN_USAGE);
}

static void set_option(struct en_options* options, int option, const char* value) {
  struct vc_options* side = &options->side;
  switch (option) {
    case 'a':
    case 'b':
      side->devices[option - 'a'] = value;
      return;
    case 'A':
    case 'B':
      side->gid_indices[option - 'A'] = (int)number(value, 255);
      return;
    case 'r':
      side->role = (int)number(value, 1);
      return;
    case 'x':
      side->exchange = value;
      return;
    case 's':
      side->seed = number(value, UINT64_MAX) * 2 + 1; /* Odd: one completion queue for both. */
      return;
    case 'm':
      side->max_bytes = (uint32_t)number(value, 1u << 26);
      return;
    case 't':
      side->ack_timeout = (uint8_t)number(value, 31);
      return;
    case 'n':
      side->retry_count = (uint8_t)number(value, 7);
      return;
    case 'd':
      side->deadline_s = (uint32_t)number(value, 3600);
      return;
    case 'S':
      side->with_channel = 1;
      return;
    case 'c':
      options->churns = 1;
      return;
    case 'i':
      options->idle_qps = (uint32_t)number(value, 16000);
      return;
    case 'p':
      options->pause_ms = (uint32_t)number(value, 999);
      return;
    default:
      fputs(kUsage, option == 'h' ? stdout : stderr);
      exit(option == 'h' ? EN_TOLD : EN_USAGE);
  }
}

int main(int argc, char** argv) {
  static const struct option kOptions[] = {
      {"device-a", 1, 0, 'a'},
      {"device-b", 1, 0, 'b'},
      {"gid-a", 1, 0, 'A'},
      {"gid-b", 1, 0, 'B'},
      {"role", 1, 0, 'r'},
      {"exchange", 1, 0, 'x'},
      {"seed", 1, 0, 's'},
      {"max-bytes", 1, 0, 'm'},
      {"timeout", 1, 0, 't'},
      {"retries", 1, 0, 'n'},
      {"deadline", 1, 0, 'd'},
      {"sleep", 0, 0, 'S'},
      {"churn", 0, 0, 'c'},
      {"idle-qps", 1, 0, 'i'},
      {"pause", 1, 0, 'p'},
      {"help", 0, 0, 'h'},
      {0, 0, 0, 0},
  };
  struct en_options options = {.side = {.devices = {"uroce0", "uroce1"},
                                        .gid_indices = {1, 1},
                                        .role = -1,
                                        .rxe_end = -1,
                                        .type = IBV_QPT_RC,
                                        .seed = 3,
                                        .max_bytes = 65536,
                                        .ack_timeout = 14,
                                        .retry_count = 7,
                                        .rnr_retry = 7,
                                        .deadline_s = 60}};
  for (int option; (option = getopt_long(argc, argv, "h", kOptions, NULL)) != -1;) {
    set_option(&options, option, optarg);
  }
  if (options.side.role < 0 || !options.side.exchange) {
    fputs(kUsage, stderr);
    return EN_USAGE;
  }
  return en_run(&options);
}
