// SPDX-License-Identifier: Apache-2.0
// Standard input, output and error that the caller has closed.
#pragma once

namespace uroce {

/// Takes the numbers of closed standard fds, so that no socket or file of ours gets one and, with
/// it, what is printed. Reading or writing there still fails with EBADF. Call it first in main.
void TakeClosedStandardFds();

}  // namespace uroce
