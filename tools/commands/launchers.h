// SPDX-License-Identifier: Apache-2.0
// `uroce run` and `uroce env`: programs on the daemon's devices.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "tools/commands/command.h"

namespace uroce::tools {

/// Removes the program of `uroce run` and its arguments: this tool must not parse them.
std::vector<std::string> TakeProgram(std::vector<std::string>& arguments);

/// `program` outlives the parse.
void AddLaunchers(CLI::App& app, Invocation& invocation, const std::vector<std::string>& program);

}  // namespace uroce::tools
