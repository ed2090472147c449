// SPDX-License-Identifier: Apache-2.0
// `uroce top`: the highest rates, again after each interval. `uroce monitor`: events as they come.
#pragma once

#include <CLI/CLI.hpp>

#include "tools/commands/command.h"

namespace uroce::tools {

void AddWatching(CLI::App& app, Invocation& invocation);

}  // namespace uroce::tools
