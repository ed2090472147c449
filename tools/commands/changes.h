// SPDX-License-Identifier: Apache-2.0
// The sub-commands that change the daemon while it runs: congestion control, switches, faults,
// settings, ports. With each go those that show what can be changed.
#pragma once

#include <CLI/CLI.hpp>

#include "tools/commands/command.h"

namespace uroce::tools {

/// Adds cc, switch, fault, config and port.
void AddChanges(CLI::App& app, Invocation& invocation);

}  // namespace uroce::tools
