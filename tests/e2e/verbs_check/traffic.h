/* SPDX-License-Identifier: Apache-2.0
 * Rounds of random work requests in both directions, with every byte checked after each. */
#ifndef VERBS_CHECK_TRAFFIC_H_
#define VERBS_CHECK_TRAFFIC_H_

#include "side.h"

/* Runs one end to its last round. Returns the number of work requests that it sent. */
uint64_t vc_run_traffic(const struct vc_options* options, int index);

#endif /* VERBS_CHECK_TRAFFIC_H_ */
