// SPDX-License-Identifier: Apache-2.0
// Works in flight, and maps of what a responder keeps, for tests of the parts of loss recovery.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <span>

#include "pipeline/transport/send_queue.h"
#include "pipeline/wire/packet.h"
#include "tests/transport/script/script.h"

namespace uroce::transport {

inline constexpr uint32_t kSmallMtu = 256;

/// Sends `work` whole, its first packet next.
inline void SendWhole(SendWorks& works, const SendWork& work) {
  EXPECT_EQ(works.Post(work), PostResult::kPosted);
  works.Begin();
  const HeldWork& held = works.next();
  if (held.is_read()) return works.Advance(held, held.packets);
  for (uint32_t left = held.packets; left != 0; --left) works.Advance(held, 1);
}

/// The map of `packets` packets of which those of the bits are kept.
class MapOf {
 public:
  MapOf(uint32_t packets, uint64_t kept) {
    const uint32_t bytes = wire::WriteKeptMap(
        packets, [kept](uint32_t first) { return first == 0 ? kept : 0; }, bytes_);
    EXPECT_TRUE(map_.Parse(std::span(bytes_).first(bytes)));
  }
  const wire::KeptMap& map() const { return map_; }

 private:
  std::array<uint8_t, wire::kMaxKeptMapBytes> bytes_;
  wire::KeptMap map_;
};

}  // namespace uroce::transport
