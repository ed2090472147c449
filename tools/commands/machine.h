// SPDX-License-Identifier: Apache-2.0
// Sub-commands that need no daemon: `uroce run` and `uroce env` start programs on its devices,
// `uroce doctor` and `uroce extcap` look at this machine.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "tools/commands/command.h"

namespace uroce::tools {

// `uroce run` and `uroce env`: programs on the daemon's devices.

/// Removes the program of `uroce run` and its arguments: this tool must not parse them.
std::vector<std::string> TakeProgram(std::vector<std::string>& arguments);

/// `program` outlives the parse.
void AddLaunchers(CLI::App& app, Invocation& invocation, const std::vector<std::string>& program);

// `uroce doctor` and `uroce extcap`: what this machine has, without a daemon too.

void AddExtcap(CLI::App& app, Invocation& invocation);
void AddDoctor(CLI::App& app, Invocation& invocation);

}  // namespace uroce::tools
