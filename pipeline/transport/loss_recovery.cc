// SPDX-License-Identifier: Apache-2.0
#include "pipeline/transport/loss_recovery.h"

#include <algorithm>

#include "pipeline/transport/selective_repeat.h"
#include "pipeline/transport/send_queue.h"
#include "pipeline/wire/packet.h"

namespace uroce::transport {
namespace {

/// The round trip by which a probe waits before one was measured. A program that sends as soon as
/// it has accepted a connection is often earlier than the peer's queue pair, which drops the
/// packet, and ACK timeouts of rdma_cm are seconds.
constexpr Nanos kUnknownRoundTrip{70'000'000};

/// The packet to probe with. Normally the last one sent, because its answer tells of all before. If
/// the last work is a READ, or too much is in flight, the oldest one: the requester does not know
/// whether the READ was executed.
wire::Psn ProbePsn(const SendWorks& works) {
  if (works.InFlight() > PacketSet::kWindow) return works.una();
  const wire::Psn last = works.high_psn() - 1;
  return works.WorkOf(last).is_read() ? works.una() : last;
}

}  // namespace

LossRecovery::LossRecovery(const RcConfig& config, SendWorks& works, QueuePairCounters& counters)
    : counters_(counters),
      works_(works),
      window_(std::clamp<uint32_t>(config.max_in_flight_packets, 1, wire::kMaxOutstandingPsns - 1),
              config.congestion),
      selective_(config.selective_repeat) {}

void LossRecovery::Configure(const QueuePairAttributes& attributes) {
  timer_.Configure(attributes.timeout);
  go_back_.Configure(attributes.retry_count);
  rnr_.Configure(attributes.rnr_retry);
  if (attributes.congestion != nullptr) window_.SetEnvironment(attributes.congestion);
  SetSelective(attributes.selective_repeat);
}

void LossRecovery::Start() {
  window_.Start(selective_.active(), works_.mtu().bytes());
  losses_ = {};
  ForgetLost();
}

void LossRecovery::SetSelective(bool agreed) {
  if (!selective_.SetActive(agreed)) return;
  probe_.Reset();
  round_trip_.Reset();
  window_.SetSelective(agreed);
  selective_.Start(works_.una());
}

void LossRecovery::Reset() {
  window_.Start(false, works_.mtu().bytes());
  losses_ = {};
  Stop();
  timer_.ForgetTimeouts();
  go_back_.ForgetEvent();
  round_trip_.Reset();
  probe_.Reset();
  selective_.Reset();
}

void LossRecovery::Stop() {
  StopTimers();
  rnr_.Stop();
}

void LossRecovery::FillLost(TxPacket& packet) {
  const wire::Psn psn = selective_.NextLost();
  const HeldWork& work = works_.WorkOf(psn);
  const PathMtu mtu = works_.mtu();
  // For a READ that was executed, only the lost responses are requested again.
  const bool in_part = work.is_read() && selective_.WasExecuted(psn);
  const uint32_t packets = in_part ? FillPartOfRead(work, mtu, psn, selective_.LostRun(), packet)
                                   : FillRequest(work, mtu, psn, packet);
  selective_.OnResent(psn, packets);
  packet.header.ack_request |= !selective_.has_lost();
  packet.resend = selective_.resend();
}

void LossRecovery::OnResponse(const wire::TransportHeader& response, Nanos now) {
  if (!selective_.active()) return;
  const bool is_data = wire::OperationOf(response.opcode) != wire::Opcode::kAcknowledge;
  const bool is_nak = !is_data && (response.aeth.syndrome & wire::kSyndromeKindMask) != 0;
  is_nak ? probe_.OnResponse() : probe_.OnResponse(now, round_trip_.smoothed());
  StartProbeTimer(now);
  peer_delay_ = wire::HostDelayOf(response.host_delay);
  // A NAK acknowledges packets before its PSN; other responses acknowledge their PSN too.
  bool arrived = is_nak ? round_trip_.CoversBefore(response.psn) : round_trip_.Covers(response.psn);
  // A data response shows that its own request arrived; the resent requests before it may be lost.
  if (is_data) arrived |= selective_.TakeArrived(works_.una(), response.psn);
  if (arrived) EndRound(now);
}

void LossRecovery::OnAcknowledged(uint32_t packets, Nanos now) {
  window_.OnAcknowledged(works_.una(), packets, now, peer_delay_);
  go_back_.OnProgress();
  timer_.ForgetTimeouts();
  rnr_.OnProgress(works_.una());
  if (selective_.active() && selective_.OnAcknowledged(works_.una())) EndRound(now);
  works_.SkipAcknowledged();
  if (!rnr_.waiting()) RestartTimers(now);
}

void LossRecovery::OnMapOf(const wire::TransportHeader& response, Nanos now) {
  SetSelective(true);  // Only a NIC that knows this one's capabilities sends it.
  selective_.OnMap();
  probe_.OnResponse();
  peer_delay_ = wire::HostDelayOf(response.host_delay);
  if (round_trip_.CoversBefore(response.psn)) EndRound(now);
}

void LossRecovery::OnMap(wire::Psn base, const wire::KeptMap& map, Nanos now) {
  if (rnr_.waiting()) return;
  if (selective_.TakeArrived(works_, base, map, round_trip_)) EndRound(now);
  if (map.packets() == KeptWindow(works_.mtu())) ResendBehind(base + map.packets());
  NoteLost(selective_.AddMissing(works_, base, map));
  StartProbeTimer(now);
}

void LossRecovery::ResendBehind(wire::Psn psn) {
  if (Distance(works_.una(), psn) >= works_.InFlight()) return;
  const HeldWork& work = works_.WorkOf(psn);
  GoBackTo(work.is_read() ? work.first_psn : psn);
}

void LossRecovery::OnResponseTaken(Nanos now) {
  if (selective_.active()) selective_.AcknowledgeExecuted(works_);
  OnAcknowledged(1, now);
}

bool LossRecovery::OnSequenceNak(wire::Psn psn, bool in_turn) {
  // With selective repeat, lost requests and lost responses are independent of each other.
  if (selective_.active()) {
    OnHoleAt(psn);
    return true;
  }
  if (!in_turn) return true;
  const bool is_back = works_.next_psn() == works_.una();
  return CarryOut(go_back_.OnLoss(ResendCause::kSequenceNak, is_back, timer_.timed_out()));
}

bool LossRecovery::OnResponsePassed(wire::Psn end) {
  if (selective_.active()) {
    OnResponsesLost(selective_.NoteExecuted(works_, end));
    return true;
  }
  OnResponsesLost(!go_back_.going_back());
  const bool is_back = works_.next_psn() == works_.una();
  return CarryOut(go_back_.OnLoss(ResendCause::kImpliedNak, is_back, timer_.timed_out()));
}

bool LossRecovery::OnRnrNak(wire::Psn psn, Nanos deadline, bool in_turn) {
  if (!rnr_.TakeRetry()) {
    ++counters_.retry_rnr_exceeded_err;
    return false;
  }
  ++counters_.rnr_nak_retry_err;
  OnResponsesLost(!in_turn);
  go_back_.OnRnrNak(rnr_.resend());
  GoBack();
  if (in_turn) go_back_.ForgetEvent();
  StopTimers();
  rnr_.Start(psn, deadline);
  return true;
}

bool LossRecovery::OnDeadline(Nanos now, bool has_heard_all) {
  if (has_heard_all && probe_.Expire(now)) Probe(now);
  if (rnr_.Expire(now) || !timer_.Expire(now)) return true;
  ++counters_.local_ack_timeout_err;
  return CarryOut(go_back_.OnTimeout());
}

bool LossRecovery::CarryOut(GoBackN::Decision decision) {
  switch (decision) {
    case GoBackN::Decision::kStay:
      return true;
    case GoBackN::Decision::kExhausted:
      ++counters_.retry_exceeded_err;
      return false;
    case GoBackN::Decision::kGoBack:
      break;
  }
  StopTimers();
  losses_.requests = true;
  window_.OnGoBack();
  GoBack();
  return true;
}

void LossRecovery::GoBack() {
  works_.GoBack();
  window_.OnAllResent(selective_.active());
  if (!selective_.active()) return;
  selective_.OnGoBack(works_.una());
  round_trip_.GiveUp();
}

void LossRecovery::OnHoleAt(wire::Psn psn) {
  // The map that was sent with the NAK may be lost; another map will come.
  if (!selective_.hears_maps()) return GoBackTo(psn);
  if (!rnr_.waiting() && selective_.AddHole(works_, psn)) NoteLost(1);
}

void LossRecovery::NoteLost(uint32_t packets) {
  if (packets == 0) return;
  losses_.requests = true;
  window_.OnLost(packets);
}

void LossRecovery::GoBackTo(wire::Psn psn) {
  if (rnr_.waiting() || Distance(works_.una(), psn) >= works_.InFlight()) return;
  if (!go_back_.OnFreeLoss(ResendCause::kSequenceNak)) return;
  psn == works_.una() ? GoBack() : works_.GoBackTo(psn);
}

void LossRecovery::EndRound(Nanos now) {
  if (!round_trip_.End(now)) return;
  selective_.OnRound(works_.una());
  window_.OnRound(works_.RequestsInFlight());
  go_back_.ForgetEvent();
}

void LossRecovery::RestartTimers(Nanos now) {
  if (works_.InFlight() == 0) {
    timer_.Stop();
  } else {
    timer_.Start(now, round_trip_.smoothed());
  }
  if (selective_.active()) StartProbeTimer(now);
}

void LossRecovery::StopTimers() {
  timer_.Stop();
  probe_.Stop();
}

void LossRecovery::StartProbeTimer(Nanos now) {
  if (works_.InFlight() == 0 || rnr_.waiting()) return probe_.Stop();
  const Nanos round_trip = round_trip_.measured() ? round_trip_.smoothed() : kUnknownRoundTrip;
  probe_.Start(now, round_trip, timer_.timeout());
}

void LossRecovery::Probe(Nanos now) {
  StartProbeTimer(now);
  if (rnr_.waiting()) return;
  if (selective_.AwaitsResponses(works_.una())) {
    return OnResponsesLost(selective_.AskAgain(works_));
  }
  // Packets that are to be resent anyway cause an answer too.
  if (has_lost() || works_.resends() || works_.InFlight() == 0) return;
  ++counters_.tail_loss_probes;
  selective_.AddProbe(ProbePsn(works_));
}

}  // namespace uroce::transport
