/* SPDX-License-Identifier: Apache-2.0
 * Rounds of random work requests in both directions, with every byte checked after each. */
#ifndef VERBS_CHECK_TRAFFIC_H_
#define VERBS_CHECK_TRAFFIC_H_

#include "side.h"

/* Runs one end to its last round, and counts the work requests that it sent. */
void vc_run_traffic(const struct vc_options* options, int index, struct vc_tally* sent);

#endif /* VERBS_CHECK_TRAFFIC_H_ */
