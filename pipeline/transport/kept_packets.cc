// SPDX-License-Identifier: Apache-2.0
// Selective repeat at a responder: the set of packets that it has behind a hole in the PSNs. The
// shell keeps the packets themselves, and gives each back in its turn.
#include "pipeline/transport/kept_packets.h"

#include "pipeline/wire/psn.h"

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
