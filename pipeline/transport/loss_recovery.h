// SPDX-License-Identifier: Apache-2.0
// Loss recovery and congestion control of a requester: when it may send, what it sends again, and
// when it gives up (docs/protocol/transport.md, section 3.3; pipeline/transport/README.md).
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "pipeline/base/types.h"
#include "pipeline/congestion/window.h"
#include "pipeline/transport/ack_timer.h"
#include "pipeline/transport/counters.h"
#include "pipeline/transport/effect.h"
#include "pipeline/transport/go_back_n.h"
#include "pipeline/transport/queue_pair_types.h"
#include "pipeline/transport/rc_types.h"
#include "pipeline/transport/report.h"
#include "pipeline/transport/rnr_timer.h"
#include "pipeline/transport/round_trip.h"
#include "pipeline/transport/selective_repeat.h"
#include "pipeline/transport/send_works.h"
#include "pipeline/transport/tail_loss_probe.h"
#include "pipeline/wire/kept_map.h"
#include "pipeline/wire/packet.h"

namespace uroce::transport {

/// What a requester calls when it wants to send, has sent, is answered and is not answered. It
/// moves the position of `works` back, and knows nothing of memory, completions and failures: where
/// its retries are exhausted it says so, and the requester fails.
///
/// Its parts own their state; what one event means to several of them stands here. Congestion
/// control is one of the parts: MaySend asks it, and it is told of what is acknowledged, of what is
/// lost, of each round trip and of each time that all is sent again.
/// Pure, owned by a Requester.
class LossRecovery {
 public:
  LossRecovery(const RcConfig& config, SendWorks& works, QueuePairCounters& counters);

  // ---- state ----
  void Configure(const QueuePairAttributes& attributes);
  /// The first request is about to be sent.
  void Start();
  /// No single packet is known to be lost: the works have a first PSN, or one of them fails.
  void ForgetLost() { selective_.Start(works_.una()); }
  /// The responder agrees to selective repeat, or does not any more.
  void SetSelective(bool agreed);
  bool selective() const { return selective_.active(); }
  bool offers_selective() const { return selective_.offered(); }
  void Reset();
  /// The requester has failed, or is flushed: no timer runs.
  void Stop();

  // ---- may I send ----
  /// For the end of an RNR wait: nothing may leave.
  bool waiting() const { return rnr_.waiting(); }
  /// A single lost packet is sent before all else, whatever MaySend says.
  bool has_lost() const { return selective_.has_lost(); }
  /// Whether the next packet in order may leave, with so many requests in flight.
  bool MaySend(uint32_t requests_in_flight) const { return window_.MaySend(requests_in_flight); }
  /// The packet that is sent now asks for an ACK: behind it nothing may leave, or congestion
  /// control measures round trips.
  bool AsksForAck(uint32_t requests_in_flight) const {
    return window_.AsksForAck(requests_in_flight);
  }

  // ---- sent ----
  /// A packet is about to leave while the next one in order is `psn`.
  void BeforeSend(wire::Psn psn, Nanos now) {
    if (selective_.active()) round_trip_.OnSent(psn, now);
  }
  /// The packet `psn`, the next one in order, has left, with `requests_in_flight` before it.
  /// `asks`: for an ACK that nothing but itself holds up.
  void OnSent(wire::Psn psn, uint32_t requests_in_flight, bool asks, Nanos now) {
    if (!timer_.running()) RestartTimers(now);
    window_.OnSent(psn, requests_in_flight, asks, now);
  }
  /// The next packet may not leave for now. The ACK timer runs as if it had, and was lost.
  void OnHeld(Nanos now) {
    if (!timer_.running()) timer_.Start(now, round_trip_.smoothed());
  }
  /// Why packets in order that were sent before are sent again.
  const Resend& resend() const { return go_back_.resend(); }
  /// Fills in the lost packet whose turn it is. Needs has_lost().
  void FillLost(TxPacket& packet);

  // ---- acknowledged ----
  /// A response says something, whatever it acknowledges. Of those that are no map.
  void OnResponse(const wire::TransportHeader& response, Nanos now);
  /// Something new was acknowledged, up to the una of the works: `packets` PSNs, as the congestion
  /// window counts them.
  void OnAcknowledged(uint32_t packets, Nanos now);
  /// A selective acknowledgement of all before `base`, before OnAcknowledged of that.
  void OnMapOf(wire::Psn base, Nanos now);
  /// And its map, behind it.
  void OnMap(wire::Psn base, const wire::KeptMap& map, Nanos now);

  // ---- responses before their turn: selective() ----
  /// Whether a response to the packet `psn` can be taken before its turn.
  bool ReachesEarly(wire::Psn psn) const {
    return Distance(works_.una(), psn) < PacketSet::kWindow;
  }
  bool HasTaken(wire::Psn psn) const { return selective_.HasTaken(psn); }
  void OnEarlyResponse(wire::Psn psn) { selective_.OnEarlyResponse(psn); }
  void OnTaken(wire::Psn psn) { selective_.OnTaken(psn); }
  /// A response in its turn was taken: it may be the turn of those that were taken before theirs.
  void OnResponseTaken(Nanos now);

  // ---- lost; false: its retries are exhausted ----
  /// A NAK of `psn`, before which all is acknowledged. `in_turn`: also by their responses.
  [[nodiscard]] bool OnSequenceNak(wire::Psn psn, bool in_turn);
  /// An implied NAK: the responder has answered all before `end`, and the oldest READ or atomic is
  /// incomplete.
  [[nodiscard]] bool OnResponsePassed(wire::Psn end);
  /// An RNR NAK of `psn` that came before says the same.
  bool IsKnownRnr(wire::Psn psn) const { return rnr_.IsKnown(psn); }
  /// An RNR NAK: all goes again from `deadline` on. `in_turn`: no response was passed over.
  [[nodiscard]] bool OnRnrNak(wire::Psn psn, Nanos deadline, bool in_turn);

  // ---- timed out; false: its retries are exhausted ----
  [[nodiscard]] bool OnDeadline(Nanos now);
  /// How long after a request the next one leaves, where congestion control allows less than one in
  /// flight; else 0.
  Nanos send_gap() const { return window_.gap(); }
  /// What was lost, as NAKs, timeouts and responses say, since this was asked last.
  Losses TakeLosses() { return std::exchange(losses_, {}); }
  const congestion::Window& window() const { return window_; }
  Nanos deadline() const {
    return std::min({timer_.deadline(), rnr_.deadline(), probe_.deadline()});
  }

 private:
  [[nodiscard]] bool CarryOut(GoBackN::Decision decision);
  void GoBack();
  /// A single hole: that packet is sent again, or all behind it where no map will tell more.
  void OnHoleAt(wire::Psn psn);
  /// Resends all from `psn` on. What is before was executed, and may still be answered.
  void GoBackTo(wire::Psn psn);
  /// Behind a map of the whole KeptWindow nothing is kept: all from `psn` on is sent again.
  void ResendBehind(wire::Psn psn);
  void EndRound(Nanos now);
  /// Selective repeat: so many packets are known to be lost.
  void NoteLost(uint32_t packets);
  void OnResponsesLost(bool found) {
    counters_.implied_nak_seq_err += found;
    losses_.responses |= found;
  }
  void RestartTimers(Nanos now);
  void StopTimers();
  void StartProbeTimer(Nanos now);
  /// Nothing came for long: a packet again finds out what is missing.
  void Probe(Nanos now);

  QueuePairCounters& counters_;
  SendWorks& works_;
  congestion::Window window_;
  AckTimer timer_;
  RnrTimer rnr_;
  GoBackN go_back_;
  RoundTrip round_trip_;
  TailLossProbe probe_;
  SelectiveRepeat selective_;
  Losses losses_;
};

}  // namespace uroce::transport
