// SPDX-License-Identifier: Apache-2.0
#include "tools/analyze/story/recovery.h"

#include <algorithm>
#include <utility>

namespace uroce::tools::analyze {

// ---- The sink ----

Finding FindingSink::Make(FindingKind kind, int64_t time_ns, wire::Psn psn) const {
  Finding finding;
  finding.kind = kind;
  finding.connection = connection_;
  finding.point = point_;
  finding.requester = requester_;
  finding.time_ns = time_ns;
  finding.psn = psn.value();
  return finding;
}

void FindingSink::Rename(uint32_t connection, uint8_t requester) {
  connection_ = connection;
  requester_ = requester;
}

// ---- Events ----

void Recovery::OnSequenceNak(const CapturedPacket& nak, const PacketMark* original) {
  const wire::Psn psn = nak.packet.header.psn;
  // Behind an RNR NAK, some responders send a sequence NAK too (section 3.2).
  if (rnr_ && rnr_->psn == psn) return;
  naks_[next_nak_++ % naks_.size()] = {psn, nak.time_ns};
  if (nak_ && nak_->psn == psn) return;
  if (nak_) ReportNakAlone(*nak_);
  Nak found{.psn = psn, .frame = nak.number, .time_ns = nak.time_ns};
  if (original != nullptr) found.original = *original;
  // It came in its turn, before a packet that was late or had to be sent again. Or the NAK comes
  // too soon to be about the last time that it was sent: the responder dropped it the time before.
  // A responder that keeps what comes behind a gap sends a map with the NAK.
  const bool keeps = selective_frame_ != 0 && selective_psn_ == psn;
  const uint64_t dropped_until = keeps ? late_until_ : std::max(late_until_, repair_frame_);
  const auto is_soon = [&](int64_t passed_ns) {
    return round_trip_.is_sure() ? round_trip_.IsTooSoon(passed_ns)
                                 : passed_ns < round_trip_.least_ns * 3 / 4;
  };
  found.was_dropped = found.original && (found.original->frame < dropped_until ||
                                         is_soon(nak.time_ns - found.original->time_ns));
  if (found.was_dropped) found.cause = late_cause_;
  found.was_resent = episode_ && psn.Since(episode_->start) >= 0 && psn.Since(episode_->last) <= 0;
  nak_ = found;
  NoteMissed(psn, nak.time_ns);
}

void Recovery::NoteMissed(wire::Psn psn, int64_t time_ns) {
  if (IsMissed(psn)) return;
  if (missed_.size() == kMostLost) missed_.erase(missed_.begin());
  missed_.push_back({psn, time_ns});
}

bool Recovery::TakeMissed(wire::Psn psn) {
  return std::erase_if(missed_, [&](const Missed& missed) { return missed.psn == psn; }) != 0;
}

void Recovery::OnLateRequest(const CapturedPacket& packet, uint32_t finding) {
  late_cause_ = finding;
  late_until_ = packet.number;
  if (nak_ && nak_->psn == packet.packet.header.psn) nak_->cause = finding;
}

void Recovery::OnRnrNak(const CapturedPacket& nak, int64_t timer_ns) {
  const wire::Psn psn = nak.packet.header.psn;
  if (!rnr_ || rnr_->psn != psn) {
    if (rnr_) ReportRnr(false);
    rnr_ = Rnr{.psn = psn, .first_frame = nak.number, .first_ns = nak.time_ns};
  }
  rnr_->last_frame = nak.number;
  rnr_->before_ns = rnr_->last_ns;
  rnr_->last_ns = nak.time_ns;
  rnr_->timer_ns = timer_ns;
  ++rnr_->naks;
}

void Recovery::OnSelectiveAck(const CapturedPacket& ack) {
  selective_frame_ = ack.number;
  selective_psn_ = ack.packet.header.psn;
  wire::KeptMap map;
  if (ack.is_cut || !map.Parse(ack.packet.payload)) return;
  const wire::Psn base = ack.packet.header.psn;
  const auto is_kept = [&](uint32_t i) { return (map.Kept(i & ~63u) >> (i & 63) & 1) != 0; };
  for (uint32_t i = 0; i < map.packets();) {
    const uint32_t first = i;
    while (i < map.packets() && is_kept(i)) ++i;
    if (i != first) OnArrived(base + first, base + i, ack.time_ns);
    for (; i < map.packets() && !is_kept(i); ++i) {
      if (!IsUnderWay(base + i, ack.time_ns)) NoteMissed(base + i, ack.time_ns);
    }
  }
}

/// It was sent again so lately that the responder cannot have told of that yet.
bool Recovery::IsUnderWay(wire::Psn psn, int64_t now_ns) const {
  if (!episode_) return false;
  const auto sent = std::ranges::find(episode_->lost, psn, &Lost::psn);
  return sent != episode_->lost.end() && sent->resent_ns != 0 &&
         round_trip_.IsTooSoon(now_ns - sent->resent_ns);
}

void Recovery::OnArrived(wire::Psn first, wire::Psn end, int64_t time_ns) {
  std::erase_if(missed_, [&](const Missed& missed) {
    return missed.psn.Since(first) >= 0 && missed.psn.Since(end) < 0;
  });
  for (std::optional<Episode>* const one : {&episode_, &settling_}) {
    if (!*one) continue;
    for (Lost& lost : (*one)->lost) {
      const bool is_there = lost.psn.Since(first) >= 0 && lost.psn.Since(end) < 0;
      if (is_there && lost.arrived_ns == 0) lost.arrived_ns = time_ns;
    }
  }
}

bool Recovery::OnLateAnswer(wire::Psn psn) {
  size_t erased = 0;
  for (std::optional<Episode>* const one : {&episode_, &settling_}) {
    if (*one)
      erased += std::erase_if((*one)->lost, [&](const Lost& lost) { return lost.psn == psn; });
  }
  return erased != 0;
}

void Recovery::OnLateOriginal(wire::Psn psn) {
  for (std::optional<Episode>* const one : {&episode_, &settling_}) {
    if (!*one) continue;
    std::erase_if((*one)->lost, [&](const Lost& lost) {
      return lost.psn == psn && lost.frame == 0 && lost.packets == 1;
    });
  }
}

bool Recovery::IsOlderOf(const Lost& lost, const CapturedPacket& packet) {
  return lost.psn == packet.packet.header.psn && lost.frame == 0 && lost.packets == 1 &&
         lost.what == LostWhat::kRequest && lost.was_in_run;
}

/// A requester begins at the packet that a NAK names.
bool Recovery::MayStartRoundAt(wire::Psn psn, int64_t now_ns) const {
  return std::ranges::any_of(naks_, [&](const Missed& nak) {
    const int64_t passed = now_ns - nak.time_ns;
    return nak.time_ns != 0 && nak.psn == psn && passed < kLeastTimeoutNs &&
           !IsTooSoonToRepair(passed);
  });
}

bool Recovery::TakeLateSecond(const CapturedPacket& packet, const ResendFacts& facts) {
  if (facts.is_read || selective_frame_ != 0 || rnr_) return false;
  if (IsInRun(facts.psn, packet.time_ns) || MayStartRoundAt(facts.psn, packet.time_ns))
    return false;
  for (std::optional<Episode>* const one : {&episode_, &settling_}) {
    if (!*one) continue;
    const auto first = std::ranges::find_if(
        (*one)->lost, [&](const Lost& lost) { return IsOlderOf(lost, packet); });
    if (first == (*one)->lost.end()) continue;
    if (packet.time_ns - first->resent_ns >= kLeastTimeoutNs) return false;
    first->resent_ns = packet.time_ns;
    first->resent_frame = packet.number;
    ReportLateRepeat(*first);
    (*one)->lost.erase(first);
    return true;
  }
  return false;
}

bool Recovery::IsFirstOf(const Lost& lost, const CapturedPacket& packet) {
  return lost.psn == packet.packet.header.psn && lost.frame == 0 && lost.packets == 1 &&
         lost.what == LostWhat::kRequest && !lost.was_in_run &&
         packet.time_ns - lost.resent_ns < kLeastTimeoutNs;
}

bool Recovery::MayBeSecond(const CapturedPacket& packet) const {
  const auto is_in = [&](const std::optional<Episode>& episode) {
    return episode && std::ranges::any_of(
                          episode->lost, [&](const Lost& lost) { return IsFirstOf(lost, packet); });
  };
  return is_in(episode_) || is_in(settling_);
}

/// The responder told that it misses the packet, or is not ready for it: that is why it comes
/// again.
bool Recovery::WasRefused(wire::Psn psn, int64_t now_ns) const {
  if (IsMissed(psn)) return true;
  if (!rnr_ || psn.Since(rnr_->psn) < 0) return false;
  // An RNR NAK asks for a wait, which has not passed.
  return psn != rnr_->psn || now_ns - rnr_->last_ns >= rnr_->timer_ns / 2;
}

bool Recovery::OnSecond(const CapturedPacket& packet, const ResendFacts& facts) {
  if (WasRefused(facts.psn, packet.time_ns) || IsInTurn(facts.psn, packet.time_ns)) return false;
  bool was_late = false;
  for (std::optional<Episode>* const one : {&episode_, &settling_}) {
    if (!*one) continue;
    const size_t erased =
        std::erase_if((*one)->lost, [&](const Lost& lost) { return IsFirstOf(lost, packet); });
    if (erased == 0) continue;
    // This one answers the NAK.
    const std::optional<Nak>& nak = (*one)->nak;
    if (nak && nak->psn == facts.psn) AddReaction(packet.time_ns - nak->time_ns);
    if ((*one)->start == facts.psn) ReportLateIn(**one);
    OnLateRequest(packet, ReportSentAgain(packet, facts));
    TakeMissed(facts.psn);
    was_late = true;
  }
  return was_late;
}

bool Recovery::HoldsForLost(wire::Psn answer) const {
  const auto holds = [&](const std::optional<Episode>& episode) {
    return episode && std::ranges::any_of(episode->lost, [&](const Lost& lost) {
             return lost.what == LostWhat::kResponse && lost.frame == 0 && lost.psn == answer;
           });
  };
  return holds(episode_) || holds(settling_);
}

void Recovery::OnMissingAnswers(wire::Psn psn, uint32_t packets) {
  for (std::optional<Episode>* const one : {&episode_, &settling_}) {
    if (!*one || psn.Since((*one)->start) < 0 || psn.Since((*one)->until) >= 0) continue;
    for (uint32_t i = 0; i < packets && (*one)->lost.size() < kMostLost; ++i) {
      if (HoldsForLost(psn + i)) continue;
      (*one)->lost.push_back(
          {.psn = psn + i, .what = LostWhat::kResponse, .side = LostSide::kResponder});
    }
    return;
  }
}

void Recovery::OnDamagedResponse(wire::Psn psn, uint32_t finding) {
  damaged_psn_ = psn;
  damaged_cause_ = finding;
}

bool Recovery::Continues(const ResendFacts& facts) const {
  if (!episode_ || facts.psn.Since(episode_->last_end) < 0) return false;
  if (facts.psn.Since(episode_->until) >= 0) return false;
  // A new NAK begins again.
  if (nak_ && nak_->psn == facts.psn) return false;
  return !(rnr_ && rnr_->psn == facts.psn);
}

/// The wait that an RNR NAK asked for ends now.
bool Recovery::IsAfterRnr(int64_t now_ns) const {
  const int64_t passed = rnr_ ? now_ns - rnr_->first_ns : 0;
  return rnr_ && passed > rnr_->timer_ns * 3 / 4 && passed < rnr_->timer_ns * 3 / 2;
}

Recovery::Trigger Recovery::TriggerOf(const ResendFacts& facts, int64_t waited_ns,
                                      int64_t now_ns) const {
  const bool is_before_rnr = rnr_ && facts.psn.Since(rnr_->psn) < 0 && !facts.is_read;
  if (is_before_rnr && IsAfterRnr(now_ns)) return Trigger::kRnr;
  if (rnr_ && facts.psn.Since(rnr_->psn) >= 0) {
    // No NAK has answered the last attempt: it was lost, or the NAK was.
    const bool is_unanswered = rnr_->psn == facts.psn && rnr_->resent_ns > rnr_->last_ns;
    return is_unanswered ? Trigger::kTimeout : Trigger::kRnr;
  }
  if (nak_ && nak_->psn == facts.psn) return Trigger::kNak;
  if (IsMissed(facts.psn)) return Trigger::kSelective;
  if (facts.is_read && facts.later_response) return Trigger::kImplied;
  if (waited_ns >= kLeastTimeoutNs) return Trigger::kTimeout;
  // What was acknowledged, as the point shows, is sent again for no other reason.
  const bool may_be_probe = (facts.is_last || facts.ack_frame != 0) && facts.hears_responses;
  const int64_t least_ns = facts.ack_frame != 0 ? kLeastTimeoutNs / 2 : round_trip_.least_ns;
  return may_be_probe && waited_ns > least_ns ? Trigger::kProbe : Trigger::kUnknown;
}

/// Go-back-N sends again what had arrived too: of that, only gaps, and what the responder missed,
/// were lost. The first packet behind a timeout tells that it, or its answer, was.
bool Recovery::IsLost(const ResendFacts& facts, bool is_first, bool is_missed) const {
  if (is_missed) return true;
  if (!facts.original) return !facts.is_before_start;
  if (facts.is_hasty || facts.was_ignored) return false;
  if (facts.is_piece || facts.is_passed_over) return true;
  if (!is_first) return false;
  return episode_->trigger != Trigger::kNak && episode_->trigger != Trigger::kSelective;
}

Recovery::Lost Recovery::LostOf(const ResendFacts& facts, bool is_missed) const {
  Lost lost{.psn = facts.psn, .opcode = facts.opcode};
  if (!facts.original) {
    lost.what = LostWhat::kRequest;
    lost.side = facts.is_before_start ? LostSide::kUnknown : LostSide::kRequester;
    lost.packets = std::max(1u, facts.gap);
    return lost;
  }
  lost.frame = facts.original->frame;
  lost.time_ns = facts.original->time_ns;
  lost.cause = facts.original->cause;
  if (damaged_cause_ != 0 && damaged_psn_.Since(facts.psn) >= 0) lost.cause = damaged_cause_;
  const std::optional<Nak>& nak = episode_->nak;
  const bool has_nak = nak && nak->psn == facts.psn && nak->original;
  if (has_nak && lost.cause == 0) lost.cause = nak->original->cause;
  lost.opcode = facts.original->opcode;
  lost.side = LostSide::kResponder;
  if (is_missed) {
    lost.what = LostWhat::kRequest;
    return lost;
  }
  if (facts.is_read && facts.response) {
    lost.what = LostWhat::kResponse;
    lost.side = LostSide::kRequester;
    lost.frame = facts.response->frame;
    lost.time_ns = facts.response->time_ns;
    lost.opcode = facts.response->opcode;
    lost.cause = facts.response->cause != 0 ? facts.response->cause : lost.cause;
  } else if (facts.is_read && facts.later_response && !facts.was_asked_again) {
    lost.what = LostWhat::kResponse;
    lost.frame = 0;
    lost.packets = std::max(1u, facts.gap);
    lost.among = facts.gap_span > lost.packets ? facts.gap_span : 0;
  } else if (facts.ack_frame != 0) {
    lost.what = LostWhat::kResponse;
    lost.side = LostSide::kRequester;
    lost.frame = facts.ack_frame;
    lost.psn = facts.ack_psn;
    lost.opcode = wire::Opcode::kAcknowledge;
  }
  return lost;
}

void Recovery::Begin(const CapturedPacket& packet, const ResendFacts& facts, bool is_second) {
  Close();
  Episode episode;
  episode.waited_ns = packet.time_ns - facts.last_event_ns;
  episode.trigger = TriggerOf(facts, episode.waited_ns, packet.time_ns);
  episode.start = facts.psn;
  episode.start_end = facts.end;
  episode.until = facts.next;
  repair_frame_ = packet.number;
  episode.first_frame = packet.number;
  episode.hears_responses = facts.hears_responses;
  episode.waits = facts.waits;
  episode.is_useless = facts.is_useless && !nak_ && selective_frame_ == 0;
  episode.is_oldest = facts.is_oldest;
  episode.start_ns = packet.time_ns;
  if (episode.trigger == Trigger::kNak) episode.nak = std::exchange(nak_, std::nullopt);
  if (attempts_ != 0 && attempted_ == facts.psn) episode.attempt = attempts_ + 1;
  attempted_ = facts.psn;
  attempts_ = episode.attempt;
  last_attempt_ns_ = packet.time_ns;
  last_wait_ns_ = episode.waited_ns;
  if (rnr_ && rnr_->psn == facts.psn) rnr_->resent_ns = packet.time_ns;
  const bool is_of_round =
      rnr_round_ && (facts.psn == rnr_round_->psn || facts.psn == rnr_round_->end);
  if (is_of_round) episode.rnr_round = rnr_round_;
  rnr_round_.reset();
  if (episode.trigger == Trigger::kRnr && rnr_->psn == facts.psn) {
    rnr_round_ = RnrRound{facts.psn, facts.end, packet.number, packet.time_ns};
  }
  if (episode.trigger == Trigger::kRnr && rnr_->psn == facts.psn) {
    ++rnr_->resends;
    // The NAK passed the point before it reached the requester: the wait seen here is too long. A
    // packet whose first transmission drew the NAK was sent again for another reason.
    rnr_->early +=
        !is_second && packet.time_ns - rnr_->last_ns < rnr_->timer_ns - rnr_->timer_ns / 20;
  }
  episode_ = std::move(episode);
}

/// A NAK for an older packet makes the requester send again from that one on, just now: what was
/// missed of its round before this packet has been acknowledged since, or did not come.
bool Recovery::MayBeOfRoundBefore(wire::Psn psn, int64_t now_ns) const {
  const std::optional<Episode>& newest = episode_ ? episode_ : settling_;
  if (newest && newest->last_ns == now_ns) return false;
  return std::ranges::any_of(naks_, [&](const Missed& nak) {
    const int64_t passed = now_ns - nak.time_ns;
    return nak.time_ns != 0 && psn.Since(nak.psn) > 0 && !to_requester_->IsTooSoon(passed) &&
           passed < to_requester_->least_ns * 5 / 4;
  });
}

/// The responder misses the packet, and its requester cannot know that yet.
bool Recovery::TakeLateRefused(const CapturedPacket& packet, const ResendFacts& facts) {
  const int64_t refused_ns = RefusalOf(facts.psn);
  if (refused_ns == 0 || to_requester_ == nullptr || !to_requester_->is_sure()) return false;
  if (!to_requester_->IsTooSoon(packet.time_ns - refused_ns)) return false;
  if (IsInRun(facts.psn, packet.time_ns)) return false;
  if (MayBeOfRoundBefore(facts.psn, packet.time_ns)) return false;
  ReportLateRepeat({.psn = facts.psn,
                    .opcode = facts.opcode,
                    .resent_ns = packet.time_ns,
                    .resent_frame = packet.number});
  return true;
}

/// A late packet comes alone.
bool Recovery::IsInRun(wire::Psn psn, int64_t now_ns) const {
  const std::optional<Episode>& newest = episode_ ? episode_ : settling_;
  return newest && newest->resent != 0 && psn == newest->last_end &&
         now_ns - newest->last_ns < kLeastProbeNs;
}

void Recovery::OnResend(const CapturedPacket& packet, const ResendFacts& facts) {
  if (facts.original && !facts.knows_order && TakeLateSecond(packet, facts)) return;
  if (facts.original && !facts.knows_order && TakeLateRefused(packet, facts)) return;
  const bool is_second = facts.original && !facts.knows_order && OnSecond(packet, facts);
  const bool is_in_run = IsInRun(facts.psn, packet.time_ns);
  if (!episode_ && Resumes(facts, packet.time_ns)) episode_ = std::exchange(settling_, {});
  if (!Continues(facts)) Begin(packet, facts, is_second);
  Episode& episode = *episode_;
  const bool is_first = episode.resent == 0;
  if (episode.resent == 0) episode.is_in_run = is_in_run;
  if (episode.resent == 1 && episode.nak && is_in_run && !episode.is_in_run) {
    AddReaction(episode.start_ns - episode.nak->time_ns);
  }
  episode.last = facts.psn;
  episode.last_end = facts.end;
  episode.last_ns = packet.time_ns;
  ++episode.resent;
  episode.bytes += facts.payload_bytes;
  ++resent_packets_;
  resent_bytes_ += facts.payload_bytes;
  if (facts.skipped_by != 0) OnSkipped(packet, facts, is_in_run);
  // The responder has dropped what came behind an RNR NAK.
  if (episode.trigger == Trigger::kRnr && facts.original) return;
  const bool is_missed = TakeMissed(facts.psn);
  const bool is_told = facts.skipped_by != 0 && facts.original;
  if (!is_told && IsLost(facts, is_first, is_missed) && episode.lost.size() < kMostLost) {
    episode.lost.push_back(LostOf(facts, is_missed));
    episode.lost.back().resent_ns = packet.time_ns;
    episode.lost.back().resent_frame = packet.number;
    episode.lost.back().was_in_run = is_in_run;
    if (is_first && episode.nak && episode.nak->was_dropped) {
      episode.lost.back().was_dropped = true;
      if (episode.nak->cause != 0) episode.lost.back().cause = episode.nak->cause;
    }
  }
  if (facts.original && episode.originals.size() < kMostOriginals) {
    episode.originals.push_back({.psn = facts.psn,
                                 .frame = facts.original->frame,
                                 .time_ns = facts.original->time_ns,
                                 .what = LostWhat::kRequest,
                                 .side = LostSide::kResponder,
                                 .opcode = facts.original->opcode,
                                 .cause = facts.original->cause});
  }
}

/// The packet was missed where the requester had sent it again: that time, it was lost. If it soon
/// comes once more, it was late.
void Recovery::OnSkipped(const CapturedPacket& packet, const ResendFacts& facts, bool is_in_run) {
  if (episode_->lost.size() == kMostLost) return;
  episode_->lost.push_back({.psn = facts.psn,
                            .time_ns = facts.skipped_ns,
                            .what = LostWhat::kRequest,
                            .side = LostSide::kRequester,
                            .opcode = facts.opcode,
                            .skipped_by = facts.skipped_by,
                            .resent_ns = packet.time_ns,
                            .resent_frame = packet.number,
                            .was_in_run = is_in_run});
}

uint32_t Recovery::SkippedBy(wire::Psn psn, int64_t time_ns, wire::Psn acknowledged) const {
  if (selective_frame_ != 0) return 0;
  wire::Psn expected = psn;
  const bool is_next = episode_ && psn.Since(episode_->last) > 0 &&
                       psn.Since(episode_->until) < 0 &&
                       time_ns - episode_->last_ns < kLeastTimeoutNs;
  const bool answers_nak = nak_ && !nak_->was_resent && psn.Since(nak_->psn) > 0 &&
                           time_ns - nak_->time_ns < kLeastTimeoutNs;
  if (is_next) {
    expected = episode_->last_end;
  } else if (answers_nak) {
    expected = nak_->psn;
  }
  if (expected.Since(acknowledged) < 0) expected = acknowledged;
  return static_cast<uint32_t>(std::max(0, psn.Since(expected)));
}

int64_t Recovery::RoundBegin(int64_t now_ns) const {
  // Between two RNR NAKs the requester waits.
  const int64_t wait_ns = rnr_ ? rnr_->timer_ns * 3 / 4 : 0;
  if (rnr_ && now_ns - rnr_->last_ns > wait_ns) return rnr_->last_ns + wait_ns;
  if (rnr_ && rnr_->before_ns != 0) return rnr_->before_ns + wait_ns;
  int64_t passed = std::max(kLeastProbeNs, round_trip_.least_ns * 3 / 4);
  if (to_requester_ != nullptr) passed = std::max(passed, to_requester_->least_ns * 3 / 4);
  return now_ns - passed;
}

void Recovery::OnNewRequest() {
  may_resume_ = false;
  if (episode_ && episode_->is_answered) Close();
}

void Recovery::OnProgress(const CapturedPacket& response, wire::Psn una,
                          const RoundTrip& round_trip) {
  attempts_ = 0;
  round_trip_ = round_trip;
  OnArrived(una - wire::kMaxKeptPackets, una, response.time_ns);
  if (rnr_ && una.Since(rnr_->psn) > 0) {
    ReportRnr(false);
    rnr_.reset();
  }
  if (episode_ && una.Since(episode_->start) > 0 && !episode_->is_answered) {
    Episode& episode = *episode_;
    episode.is_answered = true;
    const int64_t passed = response.time_ns - episode.start_ns;
    episode.was_late = round_trip.IsTooSoon(passed);
    // A responder that keeps packets acknowledges them with those that it missed.
    const wire::Psn end = una.Since(episode.until) < 0 ? una : episode.until;
    episode.was_ack = end.Since(episode.last) > 1 && selective_frame_ == 0;
  }
  for (std::optional<Episode>* const one : {&episode_, &settling_}) {
    if (!*one || una.Since((*one)->start_end) <= 0) continue;
    (*one)->took_next |= round_trip.IsTooSoon(response.time_ns - (*one)->start_ns);
  }
  if (nak_ && una.Since(nak_->psn) > 0) {
    // The packet came after all, before it was sent again.
    if (!nak_->was_resent) {
      nak_->is_stale = una.Since(nak_->psn) > 1 && selective_frame_ == 0;
      late_cause_ = ReportNakAlone(*nak_);
      late_until_ = response.number;
    }
    nak_.reset();
  }
  if (rnr_round_ && una.Since(rnr_round_->end) > 0) rnr_round_.reset();
  if (settling_ && una.Since(settling_->until) > 0) Settle();
  if (episode_ && una.Since(episode_->until) >= 0) Close();
}

void Recovery::OnRepeatedAck(wire::Psn psn) {
  for (std::optional<Episode>* const one : {&episode_, &settling_}) {
    if (!*one || !(*one)->is_answered) continue;
    if (psn.Since((*one)->start) >= -1 && psn.Since((*one)->until) < 0) (*one)->repeated_ack = psn;
  }
}

}  // namespace uroce::tools::analyze
