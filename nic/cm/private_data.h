// SPDX-License-Identifier: Apache-2.0
// Copies private data into the fixed fields of messages. Pure.
#pragma once

#include <algorithm>
#include <span>

#include "pipeline/wire/cm/message.h"

namespace uroce::nic::cm {

/// Returns a field that starts with `data` and ends in zeros.   Range: `data` fits.
template <size_t bytes>
wire::CmBytes<bytes> Padded(std::span<const uint8_t> data) {
  wire::CmBytes<bytes> field{};
  std::ranges::copy(data.first(std::min(bytes, data.size())), field.begin());
  return field;
}

}  // namespace uroce::nic::cm
