// SPDX-License-Identifier: Apache-2.0
// `uroce doctor` and `uroce extcap`: what this machine has, without a daemon too.
#pragma once

#include <CLI/CLI.hpp>

#include "tools/commands/command.h"

namespace uroce::tools {

void AddExtcap(CLI::App& app, Invocation& invocation);
void AddDoctor(CLI::App& app, Invocation& invocation);

}  // namespace uroce::tools
