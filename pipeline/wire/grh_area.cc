// SPDX-License-Identifier: Apache-2.0
#include "pipeline/wire/grh_area.h"

#include <algorithm>

#include "pipeline/wire/layout.h"

namespace uroce::wire {

std::array<uint8_t, 40> GrhArea(std::span<const uint8_t> frame, const FrameView& view) {
  std::array<uint8_t, 40> area{};
  const size_t header_bytes = view.is_ipv6 ? sizeof(Ipv6Header) : sizeof(Ipv4Header);
  const std::span<const uint8_t> header = frame.subspan(view.ip_offset, header_bytes);
  std::ranges::copy(header, area.end() - static_cast<ptrdiff_t>(header_bytes));
  return area;
}

}  // namespace uroce::wire
