// SPDX-License-Identifier: Apache-2.0
#include "pipeline/transport/early_writes.h"

#include <algorithm>
#include <cassert>

#include "pipeline/transport/psn_distance.h"

namespace uroce::transport {

void EarlyWrites::Start(wire::Psn expected) {
  placed_.Clear();
  expected_ = told_ = end_ = expected;
  announced_count_ = 0;
}

bool EarlyWrites::PlaceFirst(const wire::Packet& packet, PathMtu mtu, EarlyPlace& place) const {
  const wire::Reth& reth = packet.header.reth;
  const bool fits = packet.payload.size() == mtu.bytes() && reth.length_bytes > mtu.bytes() &&
                    reth.length_bytes <= kMaxMessageBytes;
  if (!fits || announced_count_ == kMaxAnnounced) return false;
  place.range = {.rkey = reth.rkey, .va = reth.va, .length_bytes = mtu.bytes()};
  place.check_length_bytes = reth.length_bytes;
  return true;
}

const EarlyWrites::Announced* EarlyWrites::Around(wire::Psn psn) const {
  const Announced* nearest = nullptr;
  for (uint32_t i = 0; i < announced_count_; ++i) {
    const Announced& write = announced_[i];
    const bool before = psn.Since(write.first) > 0;
    if (before && (nearest == nullptr || write.first.Since(nearest->first) > 0)) nearest = &write;
  }
  return nearest;
}

bool EarlyWrites::PlaceMiddle(const wire::Packet& packet, PathMtu mtu, EarlyPlace& place) const {
  const Announced* const write = Around(packet.header.psn);
  if (write == nullptr || packet.payload.size() != mtu.bytes()) return false;
  const uint32_t index = Distance(write->first, packet.header.psn);
  // The last packet of the WRITE, or something behind it.
  if (index + 1 >= mtu.PacketsOf(write->reth.length_bytes)) return false;
  const uint32_t offset = mtu.OffsetOf(index);
  place.range = {
      .rkey = write->reth.rkey, .va = write->reth.va + offset, .length_bytes = mtu.bytes()};
  place.check_length_bytes = write->reth.length_bytes - offset;
  return true;
}

void EarlyWrites::Insert(wire::Psn psn, const wire::Reth* first) {
  placed_.Insert(psn);
  if (first != nullptr && announced_count_ != kMaxAnnounced) {
    announced_[announced_count_++] = {.first = psn, .reth = *first};
  }
  NoteSeen(psn);
}

void EarlyWrites::NoteSeen(wire::Psn psn) {
  if (psn.Since(end_) >= 0) end_ = psn + 1;
  SkipPlaced();
}

const wire::Reth* EarlyWrites::FirstAt(wire::Psn psn) const {
  for (uint32_t i = 0; i < announced_count_; ++i) {
    if (announced_[i].first == psn) return &announced_[i].reth;
  }
  return nullptr;
}

void EarlyWrites::Forget(wire::Psn expected) {
  placed_.Erase(expected_, Distance(expected_, expected));
  expected_ = expected;
  if (end_.Since(expected) < 0) end_ = expected;
  if (told_.Since(expected) < 0) told_ = expected;
  const auto end = announced_.begin() + announced_count_;
  const auto kept = std::remove_if(announced_.begin(), end, [expected](const Announced& write) {
    return write.first.Since(expected) < 0;
  });
  announced_count_ = static_cast<uint32_t>(kept - announced_.begin());
  SkipPlaced();
}

void EarlyWrites::SkipPlaced() {
  if (told_ != end_) told_ = told_ + std::min(placed_.ToGap(told_), Distance(told_, end_));
}

Hole EarlyWrites::HoleAt(wire::Psn psn) const {
  return {.offset = Distance(expected_, psn),
          .packets = std::min(placed_.ToMember(psn), Distance(psn, end_))};
}

void EarlyWrites::TellAgain() { told_ = expected_; }

Hole EarlyWrites::TakeNews() {
  assert(HasNews());
  const Hole hole = HoleAt(told_);
  told_ = told_ + hole.packets;
  SkipPlaced();
  return hole;
}

Hole EarlyWrites::FirstHole() const { return HoleAt(expected_); }

}  // namespace uroce::transport
