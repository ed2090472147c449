// SPDX-License-Identifier: Apache-2.0
#include "tools/analyze/story/recovery.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pipeline/wire/to_string.h"
#include "tools/analyze/story/words.h"

namespace uroce::tools::analyze {
namespace {

constexpr char kReadRule[] = "docs/protocol/transport.md, section 3.2";

std::string Packets(uint64_t count) {
  return absl::StrCat(count, count == 1 ? " packet" : " packets");
}

std::string Frame(uint64_t number) { return absl::StrCat("frame ", number); }

bool IsAnsweredByPackets(wire::Opcode opcode) {
  const wire::OpcodeInfo& info = wire::InfoOf(opcode);
  return info.Has(wire::OpcodeInfo::kRead) || info.Has(wire::OpcodeInfo::kAtomic);
}

absl::string_view SideText(LostSide side) {
  if (side == LostSide::kRequester) return "between the requester and the capture point";
  if (side == LostSide::kResponder) return "between the capture point and the responder";
  return "on the way";
}

}  // namespace

std::string TimeoutCodes(int64_t waited_ns) {
  // Clocks and timers are a little early at times.
  const auto units = static_cast<uint64_t>(waited_ns + waited_ns / 20) / 4096;
  if (units == 0) return "none";
  const int most = std::min(31, static_cast<int>(std::bit_width(units)) - 1);
  const int least = std::max(1, most - 2);
  if (most <= least) return absl::StrCat("code ", least);
  return absl::StrCat("codes ", least, " to ", most);
}

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
  if (nak_ && nak_->psn == psn) return;
  if (nak_) ReportNakAlone(*nak_, 0);
  Nak found{.psn = psn, .frame = nak.number, .time_ns = nak.time_ns};
  if (original != nullptr) found.original = *original;
  // It came in its turn, behind a packet that was late, and was dropped.
  const bool was_dropped = found.original && found.original->frame < late_until_;
  if (was_dropped && found.original->cause == 0) found.original->cause = late_cause_;
  found.was_resent = episode_ && psn.Since(episode_->start) >= 0 && psn.Since(episode_->last) <= 0;
  nak_ = found;
  NoteMissed(psn);
}

void Recovery::NoteMissed(wire::Psn psn) {
  if (missed_.size() == kMostLost) missed_.erase(missed_.begin());
  if (std::ranges::find(missed_, psn) == missed_.end()) missed_.push_back(psn);
}

bool Recovery::TakeMissed(wire::Psn psn) { return std::erase(missed_, psn) != 0; }

void Recovery::OnRnrNak(const CapturedPacket& nak, int64_t timer_ns) {
  const wire::Psn psn = nak.packet.header.psn;
  if (!rnr_ || rnr_->psn != psn) {
    if (rnr_) ReportRnr(false);
    rnr_ = Rnr{.psn = psn, .first_frame = nak.number, .first_ns = nak.time_ns};
  }
  rnr_->last_frame = nak.number;
  rnr_->last_ns = nak.time_ns;
  rnr_->timer_ns = timer_ns;
  ++rnr_->naks;
}

void Recovery::OnSelectiveAck(const CapturedPacket& ack) {
  selective_frame_ = ack.number;
  wire::KeptMap map;
  if (ack.is_cut || !map.Parse(ack.packet.payload)) return;
  const wire::Psn base = ack.packet.header.psn;
  const auto is_kept = [&](uint32_t i) { return (map.Kept(i & ~63u) >> (i & 63) & 1) != 0; };
  for (uint32_t i = 0; i < map.packets();) {
    const uint32_t first = i;
    while (i < map.packets() && is_kept(i)) ++i;
    if (i != first) OnArrived(base + first, base + i, ack.time_ns);
    for (; i < map.packets() && !is_kept(i); ++i) {
      if (!IsUnderWay(base + i, ack.time_ns)) NoteMissed(base + i);
    }
  }
}

/// It was sent again so lately that the responder cannot have told of that yet.
bool Recovery::IsUnderWay(wire::Psn psn, int64_t now_ns) const {
  if (!episode_) return false;
  const auto sent = std::ranges::find(episode_->lost, psn, &Lost::psn);
  return sent != episode_->lost.end() && sent->resent_ns != 0 &&
         now_ns - sent->resent_ns < least_round_trip_ns_;
}

void Recovery::OnArrived(wire::Psn first, wire::Psn end, int64_t time_ns) {
  std::erase_if(missed_,
                [&](wire::Psn psn) { return psn.Since(first) >= 0 && psn.Since(end) < 0; });
  for (std::optional<Episode>* const one : {&episode_, &settling_}) {
    if (!*one) continue;
    for (Lost& lost : (*one)->lost) {
      const bool is_there = lost.psn.Since(first) >= 0 && lost.psn.Since(end) < 0;
      if (is_there && lost.arrived_ns == 0) lost.arrived_ns = time_ns;
    }
  }
}

void Recovery::OnLateAnswer(wire::Psn psn) {
  for (std::optional<Episode>* const one : {&episode_, &settling_}) {
    if (*one) std::erase_if((*one)->lost, [&](const Lost& lost) { return lost.psn == psn; });
  }
}

bool Recovery::IsFirstOf(const Lost& lost, const CapturedPacket& packet) {
  return lost.psn == packet.packet.header.psn && lost.frame == 0 && lost.packets == 1 &&
         lost.what == LostWhat::kRequest && packet.time_ns - lost.resent_ns < kLeastTimeoutNs;
}

bool Recovery::MayBeSecond(const CapturedPacket& packet) const {
  const auto is_in = [&](const std::optional<Episode>& episode) {
    return episode && std::ranges::any_of(
                          episode->lost, [&](const Lost& lost) { return IsFirstOf(lost, packet); });
  };
  return is_in(episode_) || is_in(settling_);
}

void Recovery::OnSecond(const CapturedPacket& packet, const ResendFacts& facts) {
  for (std::optional<Episode>* const one : {&episode_, &settling_}) {
    if (!*one) continue;
    const size_t erased =
        std::erase_if((*one)->lost, [&](const Lost& lost) { return IsFirstOf(lost, packet); });
    if (erased == 0) continue;
    Finding late = sink_.Make(FindingKind::kReordering, facts.original->time_ns, facts.psn);
    late.side = LostSide::kRequester;
    late.what = LostWhat::kRequest;
    late.AddFrame(facts.original->frame);
    late.text = absl::StrCat(PacketName(facts.opcode), " psn ", facts.psn.value(), " (",
                             Frame(facts.original->frame), ") came behind later packets, and was ",
                             "sent again (", Frame(packet.number), ")");
    sink_.Add(std::move(late));
    TakeMissed(facts.psn);
  }
}

void Recovery::OnMissingAnswers(wire::Psn psn, uint32_t packets) {
  for (std::optional<Episode>* const one : {&episode_, &settling_}) {
    if (!*one || psn.Since((*one)->start) < 0 || psn.Since((*one)->until) >= 0) continue;
    for (uint32_t i = 0; i < packets && (*one)->lost.size() < kMostLost; ++i) {
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

Recovery::Trigger Recovery::TriggerOf(const ResendFacts& facts, int64_t waited_ns) const {
  if (rnr_ && facts.psn.Since(rnr_->psn) >= 0) {
    // No NAK has answered the last attempt: it was lost, or the NAK was.
    const bool is_unanswered = rnr_->psn == facts.psn && rnr_->resent_ns > rnr_->last_ns;
    return is_unanswered ? Trigger::kTimeout : Trigger::kRnr;
  }
  if (nak_ && nak_->psn == facts.psn) return Trigger::kNak;
  if (std::ranges::find(missed_, facts.psn) != missed_.end()) return Trigger::kSelective;
  if (facts.is_read && facts.later_response) return Trigger::kImplied;
  if (waited_ns >= kLeastTimeoutNs) return Trigger::kTimeout;
  // What was acknowledged, as the point shows, is sent again for no other reason.
  const bool may_be_probe = (facts.is_last || facts.ack_frame != 0) && facts.hears_responses;
  const int64_t least_ns = facts.ack_frame != 0 ? kLeastTimeoutNs / 2 : least_round_trip_ns_;
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

void Recovery::Begin(const CapturedPacket& packet, const ResendFacts& facts) {
  Close();
  Episode episode;
  episode.waited_ns = packet.time_ns - facts.last_event_ns;
  episode.trigger = TriggerOf(facts, episode.waited_ns);
  episode.start = facts.psn;
  episode.until = facts.next;
  episode.first_frame = packet.number;
  episode.hears_responses = facts.hears_responses;
  episode.start_ns = packet.time_ns;
  if (episode.trigger == Trigger::kNak) episode.nak = std::exchange(nak_, std::nullopt);
  if (attempts_ != 0 && attempted_ == facts.psn) episode.attempt = attempts_ + 1;
  attempted_ = facts.psn;
  attempts_ = episode.attempt;
  last_attempt_ns_ = packet.time_ns;
  last_wait_ns_ = episode.waited_ns;
  if (rnr_ && rnr_->psn == facts.psn) rnr_->resent_ns = packet.time_ns;
  if (episode.trigger == Trigger::kRnr && rnr_->psn == facts.psn) {
    ++rnr_->resends;
    // The NAK passed the point before it reached the requester: the wait seen here is too long.
    rnr_->early += packet.time_ns - rnr_->last_ns < rnr_->timer_ns - rnr_->timer_ns / 20;
  }
  episode_ = std::move(episode);
}

void Recovery::OnResend(const CapturedPacket& packet, const ResendFacts& facts) {
  const bool was_refused = std::ranges::find(missed_, facts.psn) != missed_.end() ||
                           (rnr_ && facts.psn.Since(rnr_->psn) >= 0);
  if (facts.original && !facts.knows_order && !was_refused) OnSecond(packet, facts);
  if (!episode_ && Resumes(facts, packet.time_ns)) episode_ = std::exchange(settling_, {});
  if (!Continues(facts)) Begin(packet, facts);
  Episode& episode = *episode_;
  const bool is_first = episode.resent == 0;
  if (episode.resent == 1 && episode.nak && facts.psn == episode.last_end) {
    const int64_t reaction = std::max<int64_t>(1, episode.start_ns - episode.nak->time_ns);
    if (least_reaction_ns_ == 0 || reaction < least_reaction_ns_) least_reaction_ns_ = reaction;
  }
  episode.last = facts.psn;
  episode.last_end = facts.end;
  episode.last_ns = packet.time_ns;
  ++episode.resent;
  episode.bytes += facts.payload_bytes;
  ++resent_packets_;
  resent_bytes_ += facts.payload_bytes;
  if (episode.trigger == Trigger::kRnr) return;
  const bool is_missed = TakeMissed(facts.psn);
  if (IsLost(facts, is_first, is_missed) && episode.lost.size() < kMostLost) {
    episode.lost.push_back(LostOf(facts, is_missed));
    episode.lost.back().resent_ns = packet.time_ns;
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

uint32_t Recovery::SkippedBy(wire::Psn psn, int64_t time_ns, wire::Psn una) const {
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
  if (expected.Since(una) < 0) expected = una;
  return static_cast<uint32_t>(std::max(0, psn.Since(expected)));
}

void Recovery::OnNewRequest() {
  may_resume_ = false;
  if (episode_ && episode_->is_answered) Close();
}

void Recovery::OnProgress(const CapturedPacket& response, wire::Psn una,
                          int64_t least_round_trip_ns) {
  attempts_ = 0;
  least_round_trip_ns_ = least_round_trip_ns;
  OnArrived(una - wire::kMaxKeptPackets, una, response.time_ns);
  if (rnr_ && una.Since(rnr_->psn) > 0) {
    ReportRnr(false);
    rnr_.reset();
  }
  if (episode_ && una.Since(episode_->start) > 0 && !episode_->is_answered) {
    Episode& episode = *episode_;
    episode.is_answered = true;
    const int64_t passed = response.time_ns - episode.start_ns;
    episode.was_late = least_round_trip_ns != 0 && passed * 2 < least_round_trip_ns;
    // A responder that keeps packets acknowledges them with those that it missed.
    episode.was_ack = una.Since(episode.last) > 1 && selective_frame_ == 0;
  }
  if (nak_ && una.Since(nak_->psn) > 0) {
    // The packet came after all, before it was sent again.
    if (!nak_->was_resent) {
      late_cause_ = ReportNakAlone(*nak_, 0);
      late_until_ = response.number;
    }
    nak_.reset();
  }
  if (settling_ && una.Since(settling_->until) > 0) Settle();
  if (episode_ && una.Since(episode_->until) >= 0) Close();
}

void Recovery::OnRepeatedAck(wire::Psn psn) {
  for (std::optional<Episode>* const one : {&episode_, &settling_}) {
    if (!*one || !(*one)->is_answered) continue;
    if (psn.Since((*one)->start) >= -1 && psn.Since((*one)->until) < 0) (*one)->repeated_ack = psn;
  }
}

// ---- Findings ----

std::string Recovery::LostText(const Lost& lost) const {
  const std::string at = lost.frame != 0 ? absl::StrCat(" (", Frame(lost.frame), ")") : "";
  if (lost.frame == 0 && lost.what == LostWhat::kRequest) {
    return absl::StrCat(Packets(lost.packets), " from psn ", lost.psn.value(),
                        " on did not reach the capture point: lost ", SideText(lost.side));
  }
  if (lost.frame == 0 && lost.among != 0) {
    return absl::StrCat(Packets(lost.packets), " of the answer, of psn ", lost.psn.value(), " to ",
                        (lost.psn + (lost.among - 1)).value(),
                        ", did not reach the capture point: lost ", SideText(lost.side));
  }
  if (lost.frame == 0) {
    return absl::StrCat(lost.packets == 1 ? "the answer" : Packets(lost.packets) + " of the answer",
                        " from psn ", lost.psn.value(),
                        " on did not reach the capture point: lost ", SideText(lost.side));
  }
  if (lost.what == LostWhat::kNone && lost.among > 1) {
    return absl::StrCat("one of the packets from psn ", lost.psn.value(), at, " to psn ",
                        (lost.psn + (lost.among - 1)).value(), ", or an answer to them, was lost ",
                        SideText(lost.side));
  }
  if (lost.what == LostWhat::kResponse && lost.among == 1) {
    return absl::StrCat("the answer to psn ", lost.psn.value(), at, " was lost");
  }
  if (lost.what == LostWhat::kResponse && lost.among > 1) {
    return absl::StrCat("an answer to the packets from psn ", lost.psn.value(), at, " to psn ",
                        (lost.psn + (lost.among - 1)).value(), " was lost");
  }
  const absl::string_view or_answer = lost.what == LostWhat::kNone ? ", or its answer," : "";
  return absl::StrCat(PacketName(lost.opcode), " psn ", lost.psn.value(), at, or_answer,
                      lost.may_be_late ? " was lost, came late or was not kept, " : " was lost ",
                      SideText(lost.side));
}

/// A NAK or a map says what was lost. Behind a timeout, the answers to the resent packets do.
std::vector<Recovery::Lost> Recovery::LostIn(const Episode& episode) const {
  const bool is_timeout =
      episode.trigger == Trigger::kTimeout || episode.trigger == Trigger::kProbe;
  if (episode.trigger == Trigger::kUnknown) return {};
  std::vector<Lost> lost = episode.lost;
  if (episode.was_late && (is_timeout || episode.trigger == Trigger::kNak)) {
    std::erase_if(lost, [](const Lost& one) { return one.frame != 0 && one.cause == 0; });
  }
  for (Lost& one : lost) {
    const bool is_either = is_timeout || episode.trigger == Trigger::kImplied;
    if (one.what == LostWhat::kNone && !is_either) one.what = LostWhat::kRequest;
    // The responder missed it at its turn. It may have come afterwards, as a duplicate.
    one.may_be_late = one.what == LostWhat::kRequest && one.side == LostSide::kResponder;
    // So may an answer that the requester asked for again because a later one came.
    if (episode.trigger == Trigger::kImplied) one.may_be_late = true;
  }
  if (!is_timeout || lost.empty() || lost[0].what != LostWhat::kNone) return lost;
  const auto lose_answer = [&] {
    lost[0].what = LostWhat::kResponse;
    lost[0].side = LostSide::kUnknown;
  };
  lost[0].among = static_cast<uint32_t>(std::max(1, episode.until.Since(lost[0].psn)));
  if (!episode.repeated_ack) {
    if (episode.was_ack) lose_answer();
    return lost;
  }
  // The responder had all up to this PSN before they were sent again.
  const wire::Psn missed = *episode.repeated_ack + 1;
  if (missed.Since(episode.until) < 0) {
    const auto original = std::ranges::find(episode.originals, missed, &Lost::psn);
    if (original != episode.originals.end()) {
      lost = {*original};
      // The answer to a READ or an atomic is the same to a repeated one.
      if (IsAnsweredByPackets(original->opcode)) lost[0].what = LostWhat::kNone;
      return lost;
    }
  } else if (episode.resent == 1) {
    return {};  // One packet was answered twice: it had arrived, and its answer too.
  }
  lose_answer();
  return lost;
}

/// The responder told of it sooner than it could have had what was sent again.
bool Recovery::WasLate(const Lost& lost) const {
  return lost.what == LostWhat::kRequest && lost.frame != 0 && lost.arrived_ns != 0 &&
         (lost.arrived_ns - lost.resent_ns) * 4 < least_round_trip_ns_ * 3;
}

/// Neighbours that were not seen are one.
std::vector<Recovery::Lost> Recovery::Joined(const std::vector<Lost>& lost) {
  std::vector<Lost> joined;
  for (const Lost& one : lost) {
    Lost* const last = joined.empty() ? nullptr : &joined.back();
    const bool continues = last != nullptr && last->frame == 0 && one.frame == 0 &&
                           last->what == one.what && last->side == one.side && last->among == 0 &&
                           one.among == 0 && one.psn == last->psn + last->packets;
    continues ? static_cast<void>(last->packets += one.packets) : joined.push_back(one);
  }
  return joined;
}

uint32_t Recovery::ReportLost(const Episode& episode, uint64_t& count) {
  uint32_t cause = 0;
  for (const Lost& lost : Joined(LostIn(episode))) {
    if (lost.cause != 0) {
      cause = cause == 0 ? lost.cause : cause;
      continue;
    }
    if (WasLate(lost)) {
      const uint32_t late =
          ReportLate({.psn = lost.psn, .frame = lost.frame, .opcode = lost.opcode}, lost.time_ns);
      cause = cause == 0 ? late : cause;
      continue;
    }
    count += lost.packets;
    const int64_t time_ns = lost.time_ns != 0 ? lost.time_ns : episode.start_ns;
    Finding finding = sink_.Make(FindingKind::kLoss, time_ns, lost.psn);
    finding.what = lost.what;
    finding.side = lost.side;
    finding.count = lost.packets;
    finding.among = lost.among;
    finding.may_be_late = lost.may_be_late;
    if (lost.frame != 0) finding.AddFrame(lost.frame);
    finding.AddFrame(episode.first_frame);
    finding.text = LostText(lost);
    const uint32_t id = sink_.Add(std::move(finding));
    cause = cause == 0 ? id : cause;
  }
  return cause;
}

uint32_t Recovery::ReportLate(const Lost& lost, int64_t time_ns) {
  Finding late = sink_.Make(FindingKind::kReordering, time_ns, lost.psn);
  late.side = LostSide::kResponder;
  late.what = LostWhat::kRequest;
  late.AddFrame(lost.frame);
  late.text = absl::StrCat(PacketName(lost.opcode), " psn ", lost.psn.value(), " (",
                           Frame(lost.frame), ") reached the responder behind later packets");
  return sink_.Add(std::move(late));
}

uint32_t Recovery::ReportNakAlone(const Nak& nak, uint32_t cause) {
  if (nak.original && nak.original->cause != 0) cause = nak.original->cause;
  if (cause == 0 && nak.original) {
    cause =
        ReportLate({.psn = nak.psn, .frame = nak.original->frame, .opcode = nak.original->opcode},
                   nak.time_ns);
  }
  Finding finding = sink_.Make(FindingKind::kSequenceNak, nak.time_ns, nak.psn);
  finding.cause = cause;
  finding.AddFrame(nak.frame);
  finding.text = absl::StrCat("the responder missed psn ", nak.psn.value(), " (NAK in ",
                              Frame(nak.frame), ")");
  sink_.Add(std::move(finding));
  return cause;
}

uint32_t Recovery::ReportTrigger(const Episode& episode, uint32_t cause) {
  Finding finding = sink_.Make(FindingKind::kSequenceNak, episode.start_ns, episode.start);
  finding.cause = cause;
  switch (episode.trigger) {
    case Trigger::kNak:
      finding.time_ns = episode.nak->time_ns;
      finding.AddFrame(episode.nak->frame);
      finding.AddFrame(episode.first_frame);
      finding.duration_ns = episode.start_ns - episode.nak->time_ns;
      finding.text =
          absl::StrCat("the responder missed psn ", episode.start.value(), " (NAK in ",
                       Frame(episode.nak->frame), "); sent again ", TimeText(finding.duration_ns),
                       " later (", Frame(episode.first_frame), ")");
      return sink_.Add(std::move(finding));
    case Trigger::kTimeout:
      finding.kind = FindingKind::kTimeout;
      finding.duration_ns = episode.waited_ns;
      finding.AddFrame(episode.first_frame);
      finding.text =
          absl::StrCat("no answer to psn ", episode.start.value(), " for ",
                       TimeText(episode.waited_ns), "; sent again (", Frame(episode.first_frame),
                       episode.attempt > 1 ? absl::StrCat(", attempt ", episode.attempt) : "",
                       "); this fits an ACK timeout of ", TimeoutCodes(episode.waited_ns),
                       episode.was_late ? "; the answer was late, not lost" : "");
      return sink_.Add(std::move(finding));
    default:
      return cause;
  }
}

/// All answers were seen at the point before the requester has sent all that it sends again.
bool Recovery::Resumes(const ResendFacts& facts, int64_t time_ns) const {
  if (!may_resume_ || !settling_ || time_ns - settling_->last_ns >= kLeastTimeoutNs) return false;
  const bool is_next = facts.psn.Since(settling_->last) > 0 &&
                       facts.psn.Since(settling_->until) < 0 && settling_->resent != 0;
  const bool was_refused = (nak_ && nak_->psn == facts.psn) || (rnr_ && rnr_->psn == facts.psn);
  return is_next && !was_refused;
}

void Recovery::Close() {
  if (!episode_) return;
  may_resume_ = true;
  Settle();
  settling_ = std::exchange(episode_, std::nullopt);
}

void Recovery::Settle() {
  if (!settling_) return;
  Episode episode = *std::exchange(settling_, std::nullopt);
  if (episode.trigger == Trigger::kRnr) return;
  if (episode.trigger == Trigger::kTimeout && !episode.hears_responses && !episode.is_answered) {
    episode.trigger = attempts_ > 1 ? Trigger::kTimeout : Trigger::kUnknown;
  }
  uint64_t lost = 0;
  uint32_t cause = ReportLost(episode, lost);
  if (episode.was_late && episode.nak && episode.nak->original && cause == 0) {
    ReportNakAlone(*episode.nak, 0);
  } else {
    cause = ReportTrigger(episode, cause);
  }
  const bool has_trigger = episode.trigger == Trigger::kNak || episode.trigger == Trigger::kTimeout;
  if (episode.resent >= 2 || !has_trigger) ReportResent(episode, cause, lost);
}

void Recovery::ReportResent(const Episode& episode, uint32_t cause, uint64_t lost) {
  const bool is_selective = selective_frame_ != 0;
  Finding finding = sink_.Make(is_selective ? FindingKind::kSelectiveRepeat : FindingKind::kGoBackN,
                               episode.start_ns, episode.start);
  finding.cause = cause;
  finding.count = episode.resent;
  finding.duration_ns = episode.last_ns - episode.start_ns;
  finding.AddFrame(episode.first_frame);
  finding.text =
      absl::StrCat(Packets(episode.resent), " from psn ", episode.start.value(), " on (",
                   Frame(episode.first_frame), "), ", episode.bytes, " bytes, sent again");
  if (episode.trigger == Trigger::kImplied) {
    finding.rule = kReadRule;
    absl::StrAppend(&finding.text, " because an answer was passed over");
  } else if (episode.trigger == Trigger::kUnknown) {
    absl::StrAppend(&finding.text, " ", TimeText(episode.waited_ns),
                    " after the first time; the capture does not show why");
  }
  if (lost != 0) absl::StrAppend(&finding.text, "; ", lost, " of them known to be lost");
  sink_.Add(std::move(finding));
}

void Recovery::ReportRnr(bool exhausted) {
  const Rnr& rnr = *rnr_;
  Finding finding = sink_.Make(FindingKind::kRnr, rnr.first_ns, rnr.psn);
  finding.count = rnr.naks;
  finding.duration_ns = std::max(rnr.last_ns, last_attempt_ns_) - rnr.first_ns;
  finding.AddFrame(rnr.first_frame);
  if (rnr.naks > 1) finding.AddFrame(rnr.last_frame);
  finding.text = absl::StrCat(
      "the receiver had posted no receive for psn ", rnr.psn.value(), ": ", rnr.naks,
      rnr.naks == 1 ? " RNR NAK (frame " : " RNR NAKs (frames ", rnr.first_frame,
      rnr.naks == 1 ? "" : absl::StrCat(" to ", rnr.last_frame), "), each asks for a wait of ",
      TimeText(rnr.timer_ns), ", which took ", TimeText(finding.duration_ns), " in all");
  const uint32_t cause = sink_.Add(std::move(finding));
  if (rnr.early != 0) {
    Finding early = sink_.Make(FindingKind::kViolation, rnr.first_ns, rnr.psn);
    early.cause = cause;
    early.count = rnr.early;
    early.AddFrame(rnr.last_frame);
    early.rule = kReadRule;
    early.text = absl::StrCat("psn ", rnr.psn.value(), " was sent again before the ",
                              TimeText(rnr.timer_ns), " of the RNR NAK had passed");
    sink_.Add(std::move(early));
  }
  if (!exhausted) return;
  Finding end = sink_.Make(FindingKind::kRnrExhausted, rnr.last_ns, rnr.psn);
  end.cause = cause;
  end.AddFrame(rnr.last_frame);
  end.text = absl::StrCat("the requester gave up psn ", rnr.psn.value(), " after ", rnr.naks,
                          " RNR NAKs: RNR_RETRY_EXC_ERR");
  sink_.Add(std::move(end));
}

void Recovery::Finish(wire::Psn una, wire::Psn next, int64_t end_ns) {
  constexpr int64_t kLeastQuietNs = 10'000'000;
  const bool waits = next.Since(una) > 0;
  if (rnr_) {
    const int64_t quiet = end_ns - rnr_->last_ns;
    ReportRnr(waits && quiet > std::max(kLeastQuietNs, 4 * rnr_->timer_ns) &&
              rnr_->last_ns >= last_attempt_ns_);
    rnr_.reset();
  }
  const bool gave_up = waits && attempts_ >= 1 && episode_ && !episode_->is_answered &&
                       episode_->trigger != Trigger::kRnr &&
                       end_ns - last_attempt_ns_ > std::max(kLeastQuietNs, 4 * last_wait_ns_);
  const uint32_t attempts = attempts_;
  const wire::Psn psn = attempted_;
  const uint64_t frame = episode_ ? episode_->first_frame : 0;
  if (nak_ && !nak_->was_resent) ReportNakAlone(*nak_, 0);
  nak_.reset();
  Close();
  Settle();
  if (!gave_up) return;
  Finding finding = sink_.Make(FindingKind::kRetriesExhausted, last_attempt_ns_, psn);
  finding.AddFrame(frame);
  finding.count = attempts;
  finding.text = absl::StrCat("psn ", psn.value(), " was sent ", attempts + 1,
                              " times without an answer, the last time in ", Frame(frame),
                              "; then the requester gave up: RETRY_EXC_ERR");
  sink_.Add(std::move(finding));
}

}  // namespace uroce::tools::analyze
