/* SPDX-License-Identifier: Apache-2.0
 * What newer_library.c has beside the verbs of today. */
#pragma once

#include <infiniband/verbs.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/// False: the library is laid out in a way that the shim does not know.
extern bool newer_library_makes_contexts;

int ibv_invented_verb(struct ibv_context* context, int argument);
void* ibv_make_invented(struct ibv_context* context);

#ifdef __cplusplus
}
#endif
