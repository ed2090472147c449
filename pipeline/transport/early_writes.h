// SPDX-License-Identifier: Apache-2.0
// What a responder has seen before its turn: packets of WRITEs behind a gap are in memory already,
// others must come again.
#pragma once

#include <array>
#include <cstdint>

#include "pipeline/transport/effect.h"
#include "pipeline/transport/packet_set.h"
#include "pipeline/transport/path_mtu.h"
#include "pipeline/transport/selective_repeat.h"
#include "pipeline/wire/packet.h"
#include "pipeline/wire/psn.h"

namespace uroce::transport {

/// Where the payload of a packet goes, and how much from there on must be its peer's to write.
struct EarlyPlace {
  RemoteRange range;
  uint32_t check_length_bytes = 0;
};

/// Pure, of fixed size, owned by a Responder. Only packets that neither end a message nor need
/// anything of the responder but memory are placed early: the last packet of a WRITE waits for its
/// turn, since programs watch for its bytes.
///
/// PSNs: expected_ (ePSN, missing while active) .. told_ (holes before it were named) .. end_
/// (nothing seen).
class EarlyWrites {
 public:
  /// WRITEs whose first packet came early; behind as many, the next one's must come again.
  static constexpr uint32_t kMaxAnnounced = 16;

  /// Nothing has been seen ahead of `expected`.
  void Start(wire::Psn expected);
  /// There is a gap at the PSN expected, and something behind it.
  bool active() const { return end_ != expected_; }

  // ---- packets ahead of their turn, less than a window ----
  bool Contains(wire::Psn psn) const { return placed_.Contains(psn); }
  /// The place of a FIRST. False: it is not taken early.
  bool PlaceFirst(const wire::Packet& packet, PathMtu mtu, EarlyPlace& place) const;
  /// Whether some FIRST in front of `psn` came early, so that the WRITE under way ends before.
  bool BehindAnnounced(wire::Psn psn) const { return Around(psn) != nullptr; }
  /// The place of a MIDDLE behind such a FIRST. False: it is not taken early.
  bool PlaceMiddle(const wire::Packet& packet, PathMtu mtu, EarlyPlace& place) const;
  /// It is placed. `first`: and begins a WRITE.
  void Insert(wire::Psn psn, const wire::Reth* first);
  /// It is not, and must come again.
  void NoteSeen(wire::Psn psn);

  // ---- their turn ----
  /// Of a packet placed: the WRITE that it begins, or null.
  const wire::Reth* FirstAt(wire::Psn psn) const;
  /// All before `expected` was executed.
  void Forget(wire::Psn expected);

  // ---- what to say ----
  /// Whether there is a hole that was not named yet.
  bool HasNews() const { return told_ != end_; }
  /// Names all once more: what was named may have been lost, or its resend.
  void TellAgain();
  /// The next of these.
  Hole TakeNews();
  /// The one at the PSN expected. Needs active().
  Hole FirstHole() const;

 private:
  struct Announced {
    wire::Psn first;
    wire::Reth reth;
  };
  /// The nearest in front of `psn`, or null.
  const Announced* Around(wire::Psn psn) const;
  Hole HoleAt(wire::Psn psn) const;
  void SkipPlaced();

  PacketSet placed_;
  wire::Psn expected_;
  wire::Psn told_;  ///< At a hole, or at end_.
  wire::Psn end_;
  std::array<Announced, kMaxAnnounced> announced_;
  uint32_t announced_count_ = 0;
};

}  // namespace uroce::transport
