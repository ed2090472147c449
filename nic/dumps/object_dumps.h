// SPDX-License-Identifier: Apache-2.0
// The dumps that list objects in tables of programs.
#pragma once

#include <memory>

#include "nic/dumps/dump_stream.h"

namespace uroce::nic {

/// Regions and windows: how the daemon reaches each part of a region, and why not faster.
std::unique_ptr<DumpSource> MakeMemoryDump(const DumpContext& context, const Client& asker);
/// Shared receive queues: their programs, and how full they are.
std::unique_ptr<DumpSource> MakeSharedReceiveQueuesDump(const DumpContext& context,
                                                        const Client& asker);
/// Completion queues: their programs, and how full their rings are.
std::unique_ptr<DumpSource> MakeCompletionQueuesDump(const DumpContext& context,
                                                     const Client& asker);
std::unique_ptr<DumpSource> MakeProtectionDomainsDump(const DumpContext& context,
                                                      const Client& asker);
std::unique_ptr<DumpSource> MakeContextsDump(const DumpContext& context, const Client& asker);

}  // namespace uroce::nic
