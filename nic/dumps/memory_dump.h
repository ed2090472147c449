// SPDX-License-Identifier: Apache-2.0
// Registered memory as JSON: how the daemon reaches each part, and why not better.
#pragma once

#include <cstdint>
#include <memory>

#include "nic/dumps/dump_stream.h"

namespace uroce::nic {

/// All regions and windows that `asker` may see.
std::unique_ptr<DumpSource> MakeMemoryDump(const DumpContext& context, const Client& asker);

/// What a code of enum uroce_mr_reason says; "" for none.
const char* ReasonText(uint32_t reason);

}  // namespace uroce::nic
