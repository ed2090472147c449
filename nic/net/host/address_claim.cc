// SPDX-License-Identifier: Apache-2.0
#include "nic/net/host/address_claim.h"

namespace uroce::nic {
namespace {

// The length of the common prefix of two addresses, in bits.
int CommonBits(const Gid& a, const Gid& b) {
  int bits = 0;
  while (bits < 128 && ((a.bytes[bits / 8] ^ b.bytes[bits / 8]) >> (7 - bits % 8) & 1) == 0) ++bits;
  return bits;
}

}  // namespace

void AddressClaim::OnLinkDown() {
  if (state_ == State::kTentative) state_ = State::kUsable;
  probing_ = false;
  deadline_ = kNever;
}

void AddressClaim::OnLinkUp(Nanos now) {
  probing_ = true;
  probes_left_ = kProbes;
  deadline_ = now;
}

AddressClaim::Reaction AddressClaim::OnConflict(Nanos now) {
  const bool was_lost = state_ == State::kConflict;
  if (probing_) {
    state_ = State::kConflict;
    probing_ = false;
    deadline_ = now + kRetry;
    return was_lost ? Reaction::kNone : Reaction::kLost;
  }
  // Addresses are configured on purpose: they are kept, but not defended more often than this.
  if (was_lost || now - defended_at_ < kDefendInterval) return Reaction::kNone;
  defended_at_ = now;
  return Reaction::kDefend;
}

AddressClaim::Step AddressClaim::OnDeadline(Nanos now) {
  if (now < deadline_) return Step::kNone;
  deadline_ = kNever;
  if (probing_) return Probe(now);
  if (state_ == State::kUsable) return Step::kAnnounce;
  OnLinkUp(now);
  return Probe(now);
}

AddressClaim::Step AddressClaim::Probe(Nanos now) {
  if (probes_left_ != 0) {
    --probes_left_;
    deadline_ = now + (probes_left_ == 0 ? kWaitBeforeUse : kProbeInterval);
    return Step::kProbe;
  }
  probing_ = false;
  state_ = State::kUsable;
  deadline_ = now + kAnnounceInterval;
  return Step::kUse;
}

std::optional<Gid> SourceFor(const AddressClaims& claims, uint16_t vlan_id, const Gid& peer) {
  std::optional<Gid> best;
  for (const AddressClaim& claim : claims) {
    const InterfaceAddress& address = claim.address();
    if (claim.state() != AddressClaim::State::kUsable || address.vlan_id != vlan_id) continue;
    if (address.gid.is_ipv4() != peer.is_ipv4()) continue;
    if (!best || CommonBits(address.gid, peer) > CommonBits(*best, peer)) best = address.gid;
  }
  return best;
}

}  // namespace uroce::nic
