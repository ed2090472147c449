// SPDX-License-Identifier: Apache-2.0
// The dumps that list objects of programs. Those of queue pairs and connections are defined in
// files of their own.
#pragma once

#include <cstdint>
#include <memory>

#include "nic/dumps/dump_stream.h"
#include "pipeline/shm/abi/uroce_commands.h"

namespace uroce::nic {

/// Queue pairs as their workers have them.
std::unique_ptr<DumpSource> MakeQueuePairsDump(const DumpContext& context, const Client& asker);
/// Regions and windows: how the daemon reaches each part of a region, and why not faster.
std::unique_ptr<DumpSource> MakeMemoryDump(const DumpContext& context, const Client& asker);
/// librdmacm ids: their programs, their destinations and their states.
std::unique_ptr<DumpSource> MakeConnectionsDump(const DumpContext& context, const Client& asker);
/// Shared receive queues: their programs, and how full they are.
std::unique_ptr<DumpSource> MakeSharedReceiveQueuesDump(const DumpContext& context,
                                                        const Client& asker);

/// Completion queues: their programs, and how full their rings are.
std::unique_ptr<DumpSource> MakeCompletionQueuesDump(const DumpContext& context,
                                                     const Client& asker);
std::unique_ptr<DumpSource> MakeProtectionDomainsDump(const DumpContext& context,
                                                      const Client& asker);
std::unique_ptr<DumpSource> MakeContextsDump(const DumpContext& context, const Client& asker);

/// Congestion control of queue pairs: rates, windows, round trips, CNPs.
std::unique_ptr<DumpSource> MakeFlowsDump(const DumpContext& context, const Client& asker);

/// Maps numbers of uroce_dump_what to these dumps. Each dump shows what `asker` may see; `asker`
/// outlives the dump.
struct ObjectDump {
  uint32_t what;
  std::unique_ptr<DumpSource> (*make)(const DumpContext& context, const Client& asker);
};
inline constexpr ObjectDump kObjectDumps[] = {
    {UROCE_DUMP_QP, MakeQueuePairsDump},
    {UROCE_DUMP_MR, MakeMemoryDump},
    {UROCE_DUMP_CM, MakeConnectionsDump},
    {UROCE_DUMP_SRQ, MakeSharedReceiveQueuesDump},
    {UROCE_DUMP_CC, MakeFlowsDump},
    {UROCE_DUMP_CQ, MakeCompletionQueuesDump},
    {UROCE_DUMP_PD, MakeProtectionDomainsDump},
    {UROCE_DUMP_CTX, MakeContextsDump},
};

}  // namespace uroce::nic
