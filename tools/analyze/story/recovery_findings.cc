// SPDX-License-Identifier: Apache-2.0
// What the recovery of one requester has to tell: which packets were lost or late, and what
// followed.
#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tools/analyze/story/recovery.h"
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

std::string Recovery::LostText(const Lost& lost) const {
  const std::string at = lost.frame != 0 ? absl::StrCat(" (", Frame(lost.frame), ")") : "";
  if (lost.skipped_by != 0) {
    return absl::StrCat(Packets(lost.packets), " from psn ", lost.psn.value(),
                        " on did not reach the capture point when sent again: lost ",
                        SideText(lost.side));
  }
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
                        lost.may_be_late ? "or came late, " : "", SideText(lost.side));
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
    // A requester also probes for an answer that only came late.
    if (episode.trigger == Trigger::kProbe) one.may_be_late |= one.what == LostWhat::kResponse;
  }
  if (!is_timeout || lost.empty() || lost[0].what != LostWhat::kNone) return lost;
  const auto lose_answer = [&] {
    lost[0].what = LostWhat::kResponse;
    lost[0].side = LostSide::kUnknown;
  };
  // It is sent again because an older packet has no answer: nothing tells of this one. Or all that
  // asked for an answer came to the responder out of turn: nothing was lost.
  if (!episode.is_oldest || episode.is_useless) {
    lost.erase(lost.begin());
    return lost;
  }
  // No packet that was seen asks for an answer: one behind them did not reach the point.
  if (!episode.waits && episode.hears_responses) {
    lost[0] = {.psn = episode.until, .what = LostWhat::kRequest, .side = LostSide::kRequester};
    return lost;
  }
  if (episode.rnr_round) {
    lost[0].psn = episode.rnr_round->psn;
    lost[0].frame = episode.rnr_round->frame;
    lost[0].time_ns = episode.rnr_round->time_ns;
    lost[0].may_be_late = true;
  }
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
         round_trip_.IsTooSoon(lost.arrived_ns - lost.resent_ns);
}

/// Neighbours that were not seen are one.
std::vector<Recovery::Lost> Recovery::Joined(const std::vector<Lost>& lost) {
  std::vector<Lost> joined;
  for (const Lost& one : lost) {
    Lost* const last = joined.empty() ? nullptr : &joined.back();
    const bool continues = last != nullptr && last->frame == 0 && one.frame == 0 &&
                           last->what == one.what && last->side == one.side && last->among == 0 &&
                           last->skipped_by == one.skipped_by && one.among == 0 &&
                           one.psn == last->psn + last->packets;
    continues ? static_cast<void>(last->packets += one.packets) : joined.push_back(one);
  }
  return joined;
}

uint32_t Recovery::ReportLost(const Episode& episode, uint64_t& count) {
  uint32_t cause = 0;
  for (const Lost& lost : Joined(LostIn(episode))) {
    if (lost.cause != 0 || lost.was_dropped) {
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
    finding.AddFrame(lost.skipped_by != 0 ? lost.skipped_by : episode.first_frame);
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

uint32_t Recovery::ReportSentAgain(const CapturedPacket& packet, const ResendFacts& facts) {
  Finding late = sink_.Make(FindingKind::kReordering, facts.original->time_ns, facts.psn);
  late.side = LostSide::kRequester;
  late.what = LostWhat::kRequest;
  late.AddFrame(facts.original->frame);
  late.text = absl::StrCat(PacketName(facts.opcode), " psn ", facts.psn.value(), " (",
                           Frame(facts.original->frame), ") came behind later packets, and was ",
                           "sent again (", Frame(packet.number), ")");
  return sink_.Add(std::move(late));
}

void Recovery::ReportLateIn(Episode& episode) {
  std::erase_if(episode.lost, [&](const Lost& lost) {
    if (lost.frame != 0 || lost.packets != 1 || lost.side != LostSide::kRequester) return false;
    ReportLateRepeat(lost);
    return true;
  });
}

void Recovery::ReportLateRepeat(const Lost& lost) {
  Finding late = sink_.Make(FindingKind::kReordering, lost.resent_ns, lost.psn);
  late.side = LostSide::kRequester;
  late.what = LostWhat::kRequest;
  late.AddFrame(lost.resent_frame);
  late.text = absl::StrCat(PacketName(lost.opcode), " psn ", lost.psn.value(), " (",
                           Frame(lost.resent_frame), ") came behind later packets");
  sink_.Add(std::move(late));
}

uint32_t Recovery::ReportNakAlone(const Nak& nak) {
  uint32_t cause = 0;
  if (nak.original && nak.original->cause != 0) cause = nak.original->cause;
  if (nak.cause != 0) cause = nak.cause;
  if (cause == 0 && nak.original && !nak.was_dropped && !nak.is_stale) {
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
  uint64_t lost = 0;
  if (episode.trigger == Trigger::kRnr) {
    ReportLost(episode, lost);
    return;
  }
  if (episode.trigger == Trigger::kTimeout && !episode.hears_responses && !episode.is_answered) {
    episode.trigger = attempts_ > 1 ? Trigger::kTimeout : Trigger::kUnknown;
  }
  uint32_t cause = ReportLost(episode, lost);
  if (episode.was_late && episode.nak && episode.nak->original && cause == 0) {
    episode.nak->is_stale = episode.took_next && selective_frame_ == 0;
    ReportNakAlone(*episode.nak);
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
  if (nak_ && !nak_->was_resent) ReportNakAlone(*nak_);
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
