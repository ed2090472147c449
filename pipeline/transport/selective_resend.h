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
/// the one before may be on its way, and is not taken for lost; in a round's echo everything sent
/// before that round has either arrived or is lost.
class SelectiveResend {
 public:
  /// Nothing is lost; `una` is the oldest unacknowledged packet.
  void Start(wire::Psn una);
  bool any() const { return !lost_.empty(); }
  /// It is named. False: it is known, or may be on its way.
  bool Add(wire::Psn psn);
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
  /// All before `una` is acknowledged.
  void Forget(wire::Psn una);

 private:
  PacketSet lost_;
  PacketSet resent_;         ///< In this round.
  PacketSet resent_before_;  ///< In the one before.
  wire::Psn una_;
};

}  // namespace uroce::transport
