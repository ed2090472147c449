// SPDX-License-Identifier: Apache-2.0
// Text of others on its way to a terminal, which obeys control characters.
#pragma once

#include <string>

namespace uroce::tools {

/// The text with '?' for control characters: those of ASCII, and C1 in UTF-8 (0xc2, then 0x80 to
/// 0x9f).
std::string Printable(std::string text);
/// The same for text with lines and tabs.
std::string PrintableLines(std::string text);

}  // namespace uroce::tools
