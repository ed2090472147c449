// SPDX-License-Identifier: Apache-2.0
// What a requester knows of a responder that names what it misses: which packets are lost, and
// which responses are missing (pipeline/transport/README.md).
#pragma once

#include <cstdint>
#include <memory>

#include "pipeline/transport/packet_set.h"
#include "pipeline/transport/report.h"
#include "pipeline/transport/round_trip.h"
#include "pipeline/transport/selective_resend.h"
#include "pipeline/transport/send_works.h"
#include "pipeline/wire/kept_map.h"
#include "pipeline/wire/psn.h"

namespace uroce::transport {

/// Pure, of fixed size, owned by a LossRecovery. Where it is not active it changes nothing, and
/// has_lost is false.
///
/// PSNs: una .. searched_ .. heard_. All before heard_ was executed by the responder; all responses
/// that are missing before searched_ are known to be lost.
class SelectiveRepeat {
 public:
  explicit SelectiveRepeat(bool offered) : sets_(offered ? std::make_unique<Sets>() : nullptr) {}

  // ---- state ----
  bool offered() const { return sets_ != nullptr; }
  bool active() const { return active_; }
  /// Both ends agree, or do not any more. False: nothing changes. Else Start comes next.
  bool SetActive(bool agreed);
  /// Nothing is known, or has been sent again. `una` is the oldest unacknowledged packet.
  void Start(wire::Psn una);
  /// Everything is sent again: only what comes from now on tells of holes.
  void OnGoBack(wire::Psn una);
  void Reset() { active_ = has_lost_ = hears_maps_ = false; }

  // ---- what is sent again ----
  bool has_lost() const { return has_lost_; }
  /// The oldest packet that is lost. Needs has_lost().
  wire::Psn NextLost() const { return sets_->lost.Next(); }
  /// How many are lost from there on.
  uint32_t LostRun() const { return sets_->lost.Run(); }
  /// It leaves again, with all of the `packets` PSNs that it takes.
  void OnResent(wire::Psn psn, uint32_t packets);
  /// Why lost packets are sent again.
  const Resend& resend() const { return resend_; }
  /// The packet goes again so that its answer tells of all before it.
  void AddProbe(wire::Psn psn);

  // ---- what the responder says ----
  /// It sends maps, so that a sequence NAK says nothing new.
  void OnMap() { hears_maps_ = true; }
  bool hears_maps() const { return hears_maps_; }
  /// Takes what `map` says to have arrived of all from `base` on. True: something of it was sent in
  /// this round.
  bool TakeArrived(const SendWorks& works, wire::Psn base, const wire::KeptMap& map,
                   const RoundTrip& round);
  /// The same of one packet.
  bool TakeArrived(wire::Psn una, wire::Psn psn);
  /// Sends again what the map says is missing. Returns how many packets.
  uint32_t AddMissing(const SendWorks& works, wire::Psn base, const wire::KeptMap& map);
  /// Sends `psn` again, which a sequence NAK names. False: it is known, or may be on its way.
  bool AddHole(const SendWorks& works, wire::Psn psn);
  /// All before `una` is acknowledged. True: something of it was resent in this round.
  bool OnAcknowledged(wire::Psn una);
  /// A round trip has ended: what was resent before this round has arrived by now, or is lost once
  /// more.
  void OnRound(wire::Psn una);

  // ---- responses to READs and atomics ----
  /// All before `end` was executed and answered. True: responses are now known to be lost, and are
  /// asked for again.
  bool NoteExecuted(const SendWorks& works, wire::Psn end);
  /// Whether the responder has executed what `psn` is of: a READ is then asked for in part.
  bool WasExecuted(wire::Psn psn) const { return heard_.Since(psn) > 0; }
  /// Whether responses that are missing are known of.
  bool AwaitsResponses(wire::Psn una) const { return heard_.Since(una) > 0; }
  /// Nothing is on its way any more: what was asked for again, or its answer, was lost too. True:
  /// as of NoteExecuted.
  bool AskAgain(const SendWorks& works);
  /// A response that came before its turn was taken already.
  bool HasTaken(wire::Psn psn) const { return sets_->taken.Contains(psn); }
  /// The response `psn` has come before its turn.
  void OnEarlyResponse(wire::Psn psn);
  /// Its bytes are in their place.
  void OnTaken(wire::Psn psn) { sets_->taken.Insert(psn); }
  /// Acknowledges what was executed earlier and whose turn has come now.
  void AcknowledgeExecuted(SendWorks& works);

 private:
  /// Apart: connections that offer no selective repeat have none.
  struct Sets {
    SelectiveResend lost;
    PacketSet taken;  ///< Responses that came before their turn.
  };

  bool AddLost(wire::Psn psn);
  bool FindLostResponses(const SendWorks& works);
  /// How many of its packets were sent and may be spoken of.
  static uint32_t MapReach(const SendWorks& works, wire::Psn base, const wire::KeptMap& map);

  const std::unique_ptr<Sets> sets_;
  bool active_ = false;
  bool has_lost_ = false;    ///< sets_->lost.any()
  bool hears_maps_ = false;  ///< Of this responder, since all was sent again.
  wire::Psn heard_;
  wire::Psn searched_;
  Resend resend_;
};

}  // namespace uroce::transport
