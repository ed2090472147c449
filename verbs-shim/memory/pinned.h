// SPDX-License-Identifier: Apache-2.0
// Whether the kernel holds pages of the program at their place.
#pragma once

namespace uroce::memory {

/// Whether the kernel counts pinned pages of this process: buffers that are registered with
/// io_uring or with another RDMA device. Whoever has pinned a page goes on using that page, so the
/// memory at its address must not become another one. False also where /proc does not tell.
bool HasPinnedPages();

}  // namespace uroce::memory
