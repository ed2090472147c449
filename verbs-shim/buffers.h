// SPDX-License-Identifier: Apache-2.0
// Buffers of ibv_alloc_buf(3), which libibverbs has since 1.17: whose each is, and where it lies.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>

namespace uroce::shim {

/// Whether `pd` may register `length` bytes at `addr` as memory of `buffer`: it is the domain that
/// the buffer was allocated by, and the bytes lie in it. Also true for a buffer that was not
/// allocated by this library's ibv_alloc_buf.
bool MayRegister(const ibv_pd* pd, const void* buffer, const void* addr, size_t length);

}  // namespace uroce::shim
