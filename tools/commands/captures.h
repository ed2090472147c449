// SPDX-License-Identifier: Apache-2.0
// `uroce capture` and `uroce flight`: packets as pcapng files.
#pragma once

#include <CLI/CLI.hpp>

#include "tools/commands/command.h"

namespace uroce::tools {

void AddCaptures(CLI::App& app, Invocation& invocation);

}  // namespace uroce::tools
