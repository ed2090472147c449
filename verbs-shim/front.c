/* SPDX-License-Identifier: Apache-2.0
 * liburoce-verbs.so: nothing but its dependencies, liburoce.so and libibverbs, in this order. See
 * hooks/path_hooks.cc. */
typedef int uroce_front_has_no_code;
