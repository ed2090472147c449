// SPDX-License-Identifier: Apache-2.0
// A check of flags whose value is a whole number.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>

namespace uroce::tools {

/// Decimal or 0x. The message names the word and both ends; CLI11's own calls a word "not in
/// range".
CLI::Validator WholeNumber(uint64_t least, uint64_t most = std::numeric_limits<uint64_t>::max());

}  // namespace uroce::tools
