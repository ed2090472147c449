// SPDX-License-Identifier: Apache-2.0
// Selective repeat at a responder: the set of packets that it has behind a hole in the PSNs. The
// shell keeps the packets themselves, and gives each back in its turn.
#include "pipeline/transport/kept_packets.h"

#include "pipeline/wire/psn.h"

namespace uroce::transport {

void KeptPackets::Start(wire::Psn expected) {
  if (set_ == nullptr) return;
  set_->psns.Clear();
  expected_ = end_ = expected;
  Look();
}

void KeptPackets::Insert(wire::Psn psn, uint32_t packets) {
  for (uint32_t i = 0; i < packets; ++i) set_->psns.Insert(psn + i);
  NoteSeen(psn + (packets - 1));
}

void KeptPackets::NoteSeen(wire::Psn psn) {
  if (psn.Since(end_) >= 0) end_ = psn + 1;
  Look();
}

void KeptPackets::Erase(wire::Psn psn) {
  set_->psns.Erase(psn);
  Look();
}

void KeptPackets::Advance(wire::Psn expected) {
  set_->psns.Erase(expected_, Distance(expected_, expected));
  expected_ = expected;
  if (end_.Since(expected) < 0) end_ = expected;
  Look();
}

std::span<const uint8_t> KeptPackets::Map() {
  const uint32_t bytes = wire::WriteKeptMap(
      Distance(expected_, end_),
      [this](uint32_t first) { return set_->psns.Word(expected_ + first); }, set_->map);
  return std::span(set_->map).first(bytes);
}

}  // namespace uroce::transport
