// SPDX-License-Identifier: Apache-2.0
// Which capabilities this process has (capabilities(7)).
#pragma once

namespace uroce {

/// Whether the calling thread has a capability, as capabilities(7) numbers them (CAP_NET_ADMIN...).
bool HasCapability(int capability);

}  // namespace uroce
