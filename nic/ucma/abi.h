// SPDX-License-Identifier: Apache-2.0
// Includes the kernel's structures of the command ABI behind libc's addresses, which must be first.
#pragma once

#include <netinet/in.h>
#include <rdma/rdma_user_cm.h>
