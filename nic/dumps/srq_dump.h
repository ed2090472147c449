// SPDX-License-Identifier: Apache-2.0
// Shared receive queues as JSON: whose they are, and how full.
#pragma once

#include <memory>

#include "nic/dumps/dump_stream.h"

namespace uroce::nic {

/// All shared receive queues that `asker` may see.
std::unique_ptr<DumpSource> MakeSharedReceiveQueuesDump(const DumpContext& context,
                                                        const Client& asker);

}  // namespace uroce::nic
