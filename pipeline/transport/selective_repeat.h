// SPDX-License-Identifier: Apache-2.0
// Selective repeat at a requester: which packets and responses are lost, according to the maps of
// its responder, and which packets it resends one by one (pipeline/transport/loss-recovery.md).
#pragma once

#include <cstdint>
#include <memory>

#include "pipeline/transport/packet_set.h"
#include "pipeline/transport/send_queue.h"
#include "pipeline/transport/timers.h"
#include "pipeline/transport/work.h"
#include "pipeline/wire/acknowledgement.h"
#include "pipeline/wire/psn.h"

namespace uroce::transport {

/// The packets that a requester resends one by one, because its responder has named them.
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

/// Which packets and which responses are lost, according to the maps of the responder.
/// Pure, of fixed size, owned by a LossRecovery. While it is not active it changes nothing, and
/// has_lost() is false.
///
/// PSNs: una .. searched_ .. heard_. The responder has executed all before heard_. All responses
/// that are missing before searched_ are known to be lost.
class SelectiveRepeat {
 public:
  explicit SelectiveRepeat(bool offered) : sets_(offered ? std::make_unique<Sets>() : nullptr) {}

  // ---- state ----
  bool offered() const { return sets_ != nullptr; }
  bool active() const { return active_; }
  /// Sets whether both ends agree. False: nothing changes. True: the caller calls Start next.
  bool SetActive(bool agreed);
  /// Forgets all losses and resends. `una` is the oldest unacknowledged packet.
  void Start(wire::Psn una);
  /// Everything is sent again: forgets losses; only later responses tell of holes.
  void OnGoBack(wire::Psn una);
  void Reset() { active_ = has_lost_ = hears_maps_ = false; }

  // ---- packets to resend ----
  bool has_lost() const { return has_lost_; }
  /// The oldest packet that is lost. Needs has_lost().
  wire::Psn NextLost() const { return sets_->lost.Next(); }
  /// How many packets in a row are lost, from NextLost() on.
  uint32_t LostRun() const { return sets_->lost.Run(); }
  /// The packet `psn`, which takes `packets` PSNs, has been sent again.
  void OnResent(wire::Psn psn, uint32_t packets);
  /// Why lost packets are sent again.
  const Resend& resend() const { return resend_; }
  /// Resends the packet `psn`, so that its answer tells of all packets before it.
  void AddProbe(wire::Psn psn);

  // ---- what the responder reports ----
  /// The responder sends maps, so that a sequence NAK tells nothing new.
  void OnMap() { hears_maps_ = true; }
  bool hears_maps() const { return hears_maps_; }
  /// Notes the packets from `base` on that have arrived according to `map`. True: one of them was
  /// sent in this round.
  bool TakeArrived(const SendWorks& works, wire::Psn base, const wire::KeptMap& map,
                   const RoundTrip& round);
  /// Notes that the packet `psn` has arrived. True: it was sent in this round.
  bool TakeArrived(wire::Psn una, wire::Psn psn);
  /// Resends the packets that are missing according to `map`. Returns how many.
  uint32_t AddMissing(const SendWorks& works, wire::Psn base, const wire::KeptMap& map);
  /// Resends `psn`, which a sequence NAK names. False: its loss is known, or it may be on its way.
  bool AddHole(const SendWorks& works, wire::Psn psn);
  /// All before `una` is acknowledged. True: one of these packets was resent in this round.
  bool OnAcknowledged(wire::Psn una);
  /// A round trip has ended: a packet that was resent before this round has arrived, or is lost
  /// again.
  void OnRound(wire::Psn una);

  // ---- responses to READs and atomics ----
  /// All before `end` was executed and answered. True: responses are now known to be lost, and will
  /// be requested again.
  bool NoteExecuted(const SendWorks& works, wire::Psn end);
  /// Whether the responder has executed the work of `psn`: a READ is then requested in part.
  bool WasExecuted(wire::Psn psn) const { return heard_.Since(psn) > 0; }
  /// Whether responses are known to be missing.
  bool AwaitsResponses(wire::Psn una) const { return heard_.Since(una) > 0; }
  /// Nothing is on its way any more: a repeated request, or its response, was lost too. Returns the
  /// same as NoteExecuted.
  bool AskAgain(const SendWorks& works);
  /// True when the response `psn` came before its turn and was taken.
  bool HasTaken(wire::Psn psn) const { return sets_->taken.Contains(psn); }
  /// The response `psn` has come before its turn.
  void OnEarlyResponse(wire::Psn psn);
  /// The bytes of the response `psn`, which came before its turn, are placed.
  void OnTaken(wire::Psn psn) { sets_->taken.Insert(psn); }
  /// Acknowledges works that were executed earlier and whose turn has come now.
  void AcknowledgeExecuted(SendWorks& works);

 private:
  /// A separate allocation: connections that do not offer selective repeat have none.
  struct Sets {
    SelectiveResend lost;
    PacketSet taken;  ///< Responses that came before their turn.
  };

  bool AddLost(wire::Psn psn);
  bool FindLostResponses(const SendWorks& works);
  /// How many packets of `map` lie within the window and were sent.
  static uint32_t MapReach(const SendWorks& works, wire::Psn base, const wire::KeptMap& map);

  const std::unique_ptr<Sets> sets_;
  bool active_ = false;
  bool has_lost_ = false;    ///< sets_->lost.any()
  bool hears_maps_ = false;  ///< A map has come since all was sent again last.
  wire::Psn heard_;
  wire::Psn searched_;
  Resend resend_;
};

}  // namespace uroce::transport
