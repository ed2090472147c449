/* SPDX-License-Identifier: Apache-2.0
 * Requests that must fail, each with the status that the verbs name for it, and windows, whose keys
 * must fail in the end. */
#ifndef VERBS_CHECK_ERRORS_H_
#define VERBS_CHECK_ERRORS_H_

#include "side.h"

/* Runs the case `name`, or all when it is "all". Returns 0, or 2 for an unknown name. */
int vc_run_errors(const struct vc_options* options, const char* name);

#endif /* VERBS_CHECK_ERRORS_H_ */
