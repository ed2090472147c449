// SPDX-License-Identifier: Apache-2.0
// Flags that `uroce capture` and uroce-extcap share: which packets to capture, and how much of
// each.
#pragma once

#include <CLI/CLI.hpp>

#include "tools/capture/command.h"

namespace uroce::tools {

/// `options` outlives the parse.
void AddCaptureFlags(CLI::App& app, CaptureOptions& options);

}  // namespace uroce::tools
