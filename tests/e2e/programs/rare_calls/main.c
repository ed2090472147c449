/* SPDX-License-Identifier: Apache-2.0
 * usage: calls CASE GID_INDEX_A GID_INDEX_B */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/e2e/programs/rare_calls/rare_calls.h"

static const struct {
  const char* name;
  void (*run)(struct ca_bed* bed);
} kCases[] = {{"null-region", ca_null_region}, {"moderation", ca_moderation},
              {"unsupported", ca_unsupported}, {"bad-arguments", ca_bad_arguments},
              {"wrong-order", ca_wrong_order}, {"no-memory", ca_no_memory},
              {"no-fds", ca_no_fds},           {"rate-limits", ca_rate_limits}};

void ca_refused(const void* made, int error, const char* what) {
  const int found = errno;
  if (made == NULL && found == error) return;
  fprintf(stderr, "%s: %s, and not %s\n", what, made ? "done" : strerror(found), strerror(error));
  exit(1);
}

void ca_returns(int returned, int error, const char* what) {
  if (returned == error) return;
  fprintf(stderr, "%s: returned %d (%s), and not %d (%s)\n", what, returned, strerror(returned),
          error, strerror(error));
  exit(1);
}

int main(int argc, char** argv) {
  for (size_t i = 0; argc == 4 && i < sizeof(kCases) / sizeof(kCases[0]); ++i) {
    if (strcmp(kCases[i].name, argv[1]) != 0) continue;
    struct ca_bed bed;
    bench_open(&bed.a, "uroce0", (uint32_t)atoi(argv[2]), 16);
    bench_open(&bed.b, "uroce1", (uint32_t)atoi(argv[3]), 16);
    kCases[i].run(&bed);
    printf("%s: right\n", argv[1]);
    return 0;
  }
  fprintf(stderr, "usage: calls CASE GID_INDEX_A GID_INDEX_B\n");
  return 2;
}
