// SPDX-License-Identifier: Apache-2.0
#include "pipeline/transport/kept_packets.h"

#include "pipeline/transport/psn_distance.h"

namespace uroce::transport {

void KeptPackets::Insert(wire::Psn psn, uint32_t packets) {
  for (uint32_t i = 0; i < packets; ++i) kept_.Insert(psn + i);
  NoteSeen(psn + (packets - 1));
}

void KeptPackets::NoteSeen(wire::Psn psn) {
  if (psn.Since(end_) >= 0) end_ = psn + 1;
}

void KeptPackets::Advance(wire::Psn expected) {
  kept_.Erase(expected_, Distance(expected_, expected));
  expected_ = expected;
  if (end_.Since(expected) < 0) end_ = expected;
}

std::span<const uint8_t> KeptPackets::Map() {
  const uint32_t bytes = wire::WriteKeptMap(
      Distance(expected_, end_), [this](uint32_t first) { return kept_.Word(expected_ + first); },
      map_);
  return std::span(map_).first(bytes);
}

}  // namespace uroce::transport
