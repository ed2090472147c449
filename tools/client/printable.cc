// SPDX-License-Identifier: Apache-2.0
#include "tools/client/printable.h"

#include <cstdint>
#include <utility>

namespace uroce::tools {
namespace {

std::string WithoutControls(std::string text, bool has_lines) {
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    const bool is_c1 =
        byte == 0xc2 && i + 1 < text.size() && (static_cast<uint8_t>(text[i + 1]) & 0xe0) == 0x80;
    const bool is_kept = has_lines && (byte == '\n' || byte == '\t');
    if ((byte < 0x20 && !is_kept) || byte == 0x7f || is_c1) text[i] = '?';
    if (is_c1) text[i + 1] = '?';
  }
  return text;
}

}  // namespace

std::string Printable(std::string text) { return WithoutControls(std::move(text), false); }

std::string PrintableLines(std::string text) { return WithoutControls(std::move(text), true); }

}  // namespace uroce::tools
