// SPDX-License-Identifier: Apache-2.0
// `uroce capture` and `uroce flight`: packets as pcapng files; the flags that `uroce capture` and
// uroce-extcap share.
#pragma once

#include <CLI/CLI.hpp>

#include "tools/capture/command.h"
#include "tools/commands/command.h"

namespace uroce::tools {

// Flags that `uroce capture` and uroce-extcap share: which packets to capture, and how much of
// each.

/// `options` outlives the parse.
void AddCaptureFlags(CLI::App& app, CaptureOptions& options);

// `uroce capture` and `uroce flight`: packets as pcapng files.

void AddCaptures(CLI::App& app, Invocation& invocation);

}  // namespace uroce::tools
