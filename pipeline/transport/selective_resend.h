// SPDX-License-Identifier: Apache-2.0
// The packets that a requester resends one by one, because its responder has named them.
#pragma once

#include <cstdint>

#include "pipeline/transport/packet_set.h"
#include "pipeline/wire/psn.h"

namespace uroce::transport {

/// Pure, of fixed size, owned by a Requester. Members lie less than a window behind the oldest
/// unacknowledged packet.
///
/// A responder names a hole again and again until it is filled. A packet that was resent in this
/// round or the one before may be on its way, and does not count as lost. When a packet sent in a
/// round has arrived, everything sent before that round has either arrived or is lost. The same is
/// true for packets resent earlier in that round: resends follow the order of PSNs, because within
/// a round no resent packet becomes lost again.
class SelectiveResend {
 public:
  /// Nothing is lost; `una` is the oldest unacknowledged packet.
  void Start(wire::Psn una);
  bool any() const { return !lost_.empty(); }
  /// The responder has named `psn` as missing. False: its loss is known, or it may be on its way.
  bool Add(wire::Psn psn);
  /// The same for each bit of `missing`, of the 64 PSNs from `from` on. Returns how many are new.
  uint32_t Add(wire::Psn from, uint64_t missing);
  /// The packets of the bits `kept` have arrived. True: one of them was resent in this round.
  bool OnArrived(wire::Psn from, uint64_t kept);
  /// Resends `psn`, so that its answer tells what is missing.
  void AddProbe(wire::Psn psn) { lost_.Insert(psn); }
  /// The first lost packet. Needs any().
  wire::Psn Next() const { return una_ + lost_.ToMember(una_); }
  /// How many packets in a row are lost, from Next() on. Needs any().
  uint32_t Run() const { return lost_.ToGap(Next()); }
  /// The packet `psn`, which takes `packets` PSNs, has been sent again.
  void OnResent(wire::Psn psn, uint32_t packets);
  void NextRound();
  /// No resend is on its way any more.
  void ForgetResent() {
    resent_.Clear();
    resent_before_.Clear();
  }
  /// All before `una` is acknowledged. True: one of these packets was resent in this round.
  bool Forget(wire::Psn una);

 private:
  PacketSet lost_;
  PacketSet resent_;         ///< Packets resent in this round.
  PacketSet resent_before_;  ///< Packets resent in the round before.
  wire::Psn una_;
};

}  // namespace uroce::transport
