// SPDX-License-Identifier: Apache-2.0
// The kernel's structures of the command ABI, and libc's addresses, which must come first.
#pragma once

#include <netinet/in.h>
#include <rdma/rdma_user_cm.h>
