// SPDX-License-Identifier: Apache-2.0
// Completions and effects as the text that scripts compare.
#pragma once

#include <cstdio>
#include <string>

#include "pipeline/transport/work.h"

namespace uroce::transport {

/// printf into a string of at most 159 characters.
template <typename... Values>
std::string Format(const char* format, Values... values) {
  char buffer[160];
  std::snprintf(buffer, sizeof buffer, format, values...);
  return buffer;
}

/// "slot OPCODE STATUS", of a receive also " len=" and what else it says.
std::string TextOf(const Completion& completion);
/// What is done, and to which range; "" for nothing.
std::string TextOf(const Effect& effect);

}  // namespace uroce::transport
