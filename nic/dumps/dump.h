// SPDX-License-Identifier: Apache-2.0
// The daemon's state and counters as JSON.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "nic/dumps/dump_stream.h"
#include "pipeline/base/types.h"

namespace uroce::nic {

/// Makes the dump that uroce_dump_what names. Everybody may see devices and their counters; only
/// the privileged see queue pairs and memory regions of other users. `asker` outlives the dump.
absl::StatusOr<std::unique_ptr<DumpSource>> MakeDump(uint32_t what, const DumpContext& context,
                                                     const Client& asker);

/// Dumps the newest packets of a live queue pair as a pcapng file, for the same askers. Errors:
/// there is no such queue pair, or it keeps no packets.
absl::StatusOr<std::unique_ptr<DumpSource>> MakeHistoryDump(Qpn qpn, const DumpContext& context,
                                                            const Client& asker);

}  // namespace uroce::nic
