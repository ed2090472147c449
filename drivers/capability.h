// SPDX-License-Identifier: Apache-2.0
// What this process may do.
#pragma once

namespace uroce::drivers {

/// Whether the calling thread has a capability, as capabilities(7) numbers them (CAP_NET_ADMIN...).
bool HasCapability(int capability);

}  // namespace uroce::drivers
