// SPDX-License-Identifier: Apache-2.0
// Which packets a requester sends again, one by one, since its responder has named them.
#pragma once

#include <cstdint>

#include "pipeline/transport/packet_set.h"
#include "pipeline/wire/psn.h"

namespace uroce::transport {

/// Pure, of fixed size, owned by a Requester. Members lie less than a window behind the oldest
/// unacknowledged packet.
///
/// A hole is named again and again until it is filled. A packet that was resent in this round or
/// the one before may be on its way, and is not taken for lost: when something that was sent in a
/// round has arrived, everything sent before that round has either arrived or is lost. So has what
/// was resent in that round before it: packets are resent in the order of their PSNs, since within
/// a round none that was resent becomes lost again.
class SelectiveResend {
 public:
  /// Nothing is lost; `una` is the oldest unacknowledged packet.
  void Start(wire::Psn una);
  bool any() const { return !lost_.empty(); }
  /// It is named. False: it is known, or may be on its way.
  bool Add(wire::Psn psn);
  /// The same for packets by their bits, of the 64 from `from` on. Returns how many are new.
  uint32_t Add(wire::Psn from, uint64_t missing);
  /// These have arrived. True: one of them was resent in this round.
  bool OnArrived(wire::Psn from, uint64_t kept);
  /// It goes again, to find out what is missing.
  void AddProbe(wire::Psn psn) { lost_.Insert(psn); }
  /// The first that is lost. Needs any().
  wire::Psn Next() const { return una_ + lost_.ToMember(una_); }
  /// How many are lost from there on. Needs any().
  uint32_t Run() const { return lost_.ToGap(Next()); }
  /// It leaves again, with all of the `packets` PSNs that it takes.
  void OnResent(wire::Psn psn, uint32_t packets);
  void NextRound();
  /// No resend is on its way any more.
  void ForgetResent() {
    resent_.Clear();
    resent_before_.Clear();
  }
  /// All before `una` is acknowledged. True: something of it was resent in this round.
  bool Forget(wire::Psn una);

 private:
  PacketSet lost_;
  PacketSet resent_;         ///< In this round.
  PacketSet resent_before_;  ///< In the one before.
  wire::Psn una_;
};

}  // namespace uroce::transport
