// SPDX-License-Identifier: Apache-2.0
// Requests that do not come in order: gaps, late packets, and what is sent again.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pipeline/wire/to_string.h"
#include "tools/analyze/story/request_stream.h"
#include "tools/analyze/story/words.h"

namespace uroce::tools::analyze {
namespace {

using Info = wire::OpcodeInfo;

}  // namespace

void RequestStream::OpenGap(wire::Psn from, const CapturedPacket& packet) {
  if (gaps_.size() == kMostGaps) {
    LoseGap(gaps_.front());
    gaps_.erase(gaps_.begin());
  }
  gaps_.push_back({.first = from,
                   .packets = static_cast<uint32_t>(packet.packet.header.psn.Since(from)),
                   .frame = packet.number,
                   .time_ns = packet.time_ns,
                   .identification = packet.identification});
  order_.Lose();
  open_ = {};
  Draw(packet, PlotKind::kMissing, from);
}

RequestStream::Gap* RequestStream::GapOf(wire::Psn psn) {
  const auto found = std::ranges::find_if(gaps_, [&](const Gap& gap) {
    const int32_t offset = psn.Since(gap.first);
    return offset >= 0 && offset < static_cast<int32_t>(gap.packets);
  });
  return found == gaps_.end() ? nullptr : &*found;
}

void RequestStream::FillGap(wire::Psn psn) {
  Gap* const gap = GapOf(psn);
  if (gap == nullptr) return;
  const auto before = static_cast<uint32_t>(psn.Since(gap->first));
  Gap behind = *gap;
  behind.first = psn + 1;
  behind.packets = gap->packets - before - 1;
  gap->packets = before;
  if (behind.packets != 0 && gaps_.size() < kMostGaps) gaps_.push_back(behind);
  std::erase_if(gaps_, [](const Gap& one) { return one.packets == 0; });
}

/// The packets of a gap did not come. With a reliable service, they reached the responder.
void RequestStream::LoseGap(const Gap& gap) {
  if (gap.is_start) return;
  Finding finding = sink().Make(is_reliable_ ? FindingKind::kNotCaptured : FindingKind::kLoss,
                                gap.time_ns, gap.first);
  finding.count = gap.packets;
  finding.AddFrame(gap.frame);
  const std::string packets = absl::StrCat(gap.packets, gap.packets == 1 ? " packet" : " packets",
                                           " from psn ", gap.first.value(), " on");
  if (is_reliable_) {
    finding.text = absl::StrCat(packets, " reached the responder and are not in the capture");
    was_incomplete_ = true;
  } else {
    finding.what = LostWhat::kRequest;
    finding.side = LostSide::kRequester;
    finding.text = absl::StrCat(packets, " did not reach the capture point: lost between the ",
                                "sender and the capture point");
  }
  sink().Add(std::move(finding));
}

void RequestStream::DropAcknowledgedGaps() {
  std::erase_if(gaps_, [&](const Gap& gap) {
    if ((gap.first + gap.packets).Since(una_) > 0) return false;
    LoseGap(gap);
    return true;
  });
}

void RequestStream::TakeOld(const CapturedPacket& packet) {
  if (WasSkipped(packet)) return;
  const wire::Psn psn = packet.packet.header.psn;
  const Info& info = wire::InfoOf(packet.packet.header.opcode);
  if (IsAnsweredByPackets(info)) {
    if (OutstandingRead* const read = reads_.Find(psn)) return TakeReadAgain(packet, *read);
  }
  if (const PacketMark* const mark = requests_.Find(psn)) {
    NoteRepeat(packet);
    // The first may be late.
    const bool may_be_copy =
        request_ids_.rises() ||
        (!recovery_.MayBeSecond(packet) && (!recovery_.IsRepairing(psn) || IsAlone(mark->frame)));
    if (may_be_copy && IsCopy(*mark, packet, request_ids_, LeastResend(*mark))) {
      return ReportDuplicate(packet, mark->frame, LostWhat::kRequest);
    }
    if (!is_reliable_) return;
    if (IsLate(packet)) return static_cast<void>(TakeLate(packet, *mark));
    ResendFacts facts = FactsOf(packet);
    facts.original = *mark;
    facts.last_event_ns = std::max(last_progress_ns_, mark->time_ns);
    Resend(packet, facts);
    Mark(packet).cause = 0;
    return;
  }
  if (GapOf(psn) != nullptr) TakeInGap(packet);
}

/// It was sent before one that came before it.
bool RequestStream::IsLate(const CapturedPacket& packet) const {
  return request_ids_.IsLate(packet.identification) && packet.time_ns - last_request_ns_ < kLateNs;
}

/// `before`: the one with its PSN that came sooner. True: that one was sent later.
bool RequestStream::TakeLate(const CapturedPacket& packet, const PacketMark& before) {
  const PacketMark newest = before;
  ReportReordering(packet, last_request_, 0, LostWhat::kRequest);
  recovery_.OnLateOriginal(packet.packet.header.psn);
  const bool is_older = IsBefore(packet.identification, newest.identification);
  if (PacketMark* const mark = requests_.Find(packet.packet.header.psn); mark && is_older) {
    *mark = newest;
  }
  return is_older;
}

void RequestStream::NoteRepeat(const CapturedPacket& packet) {
  last_repeat_ns_ = packet.time_ns;
  ++repeats_;
}

/// Sooner than this after it was sent, the packet was not sent again: no answer has told of
/// anything missing lately, and requesters wait longer for one before they probe.
int64_t RequestStream::LeastResend(const PacketMark& mark) const {
  const bool is_quiet =
      (mark.frame == last_request_ && mark.cause == 0) ||
      (has_answers_ &&
       mark.time_ns - std::max(last_trouble_ns_, last_resend_ns_) > kLeastTimeoutNs);
  const int64_t least = amounts_.round_trip.least_ns;
  const bool has_identification = mark.identification != 0 && !request_ids_.is_constant();
  if (least == 0 && has_identification) return 0;  // See IsCopy.
  return std::max(is_quiet ? kLeastProbeNs : 0, least);
}

/// The packet was not seen before, and later ones were: it is late, or sent again.
void RequestStream::TakeInGap(const CapturedPacket& packet) {
  const wire::Psn psn = packet.packet.header.psn;
  const Gap gap = *GapOf(psn);
  const uint32_t unsure = unsure_packets_;
  const uint32_t span = SpanOf(packet.packet.header);
  unsure_packets_ = unsure;
  const bool is_late = IsLate(packet, gap.identification, gap.time_ns);
  if (is_late || !is_reliable_) {
    const uint32_t id = ReportReordering(packet, gap.frame, gap.reordering, LostWhat::kRequest);
    for (Gap& one : gaps_) {
      if (one.frame == gap.frame) one.reordering = id;
    }
    Draw(packet, PlotKind::kSent, psn);
  } else {
    ResendFacts facts = FactsOf(packet);
    facts.last_event_ns = std::max(last_progress_ns_, gap.time_ns);
    facts.gap = 1;
    facts.is_before_start = gap.is_start;
    facts.end = psn + span;
    Resend(packet, facts);
  }
  if (IsAnsweredByPackets(wire::InfoOf(packet.packet.header.opcode))) {
    for (uint32_t i = 0; i < span && GapOf(psn + i) != nullptr; ++i) FillGap(psn + i);
    AddRead(packet, span);
    const PacketMark* const mark = is_late ? requests_.Find(psn) : nullptr;
    if (mark != nullptr) reads_.Newest()->request.cause = mark->cause;
    return;
  }
  FillGap(psn);
  if (!is_late) Mark(packet);
}

/// A packet behind a gap is late if it was sent before the packet that showed the gap. Without
/// identifications, it is late if it comes before its sender can know of the gap, or if its sender
/// has no reason to send it again.
bool RequestStream::IsLate(const CapturedPacket& packet, uint16_t overtaker_id,
                           int64_t overtaker_ns) const {
  if (request_ids_.rises()) return IsBefore(packet.identification, overtaker_id);
  const wire::Psn psn = packet.packet.header.psn;
  if (recovery_.IsInTurn(psn, packet.time_ns)) return false;
  const bool may_be_repair = psn == una_ || recovery_.MayBeRepair(psn);
  if (has_answers_ && may_be_repair) return IsTooSoon(packet, overtaker_ns);
  return packet.time_ns - overtaker_ns < kLateNs;
}

ResendFacts RequestStream::FactsOf(const CapturedPacket& packet) {
  ResendFacts facts;
  facts.psn = packet.packet.header.psn;
  facts.payload_bytes = static_cast<uint32_t>(packet.packet.payload.size());
  facts.opcode = packet.packet.header.opcode;
  facts.next = next_;
  facts.is_last = facts.psn + 1 == next_;
  facts.hears_responses = has_answers_;
  facts.is_oldest = facts.psn.Since(una_) <= 0;
  facts.waits = asks_until_.Since(una_) > 0;
  facts.is_useless = facts.waits && taken_until_.Since(una_) <= 0;
  facts.knows_order = request_ids_.rises();
  const OutstandingRead* const read = reads_.Find(facts.psn);
  facts.end = read != nullptr ? read->end() : facts.psn + 1;
  if (una_.Since(facts.psn) > 0) facts.ack_frame = progress_frame_;
  facts.ack_psn = progress_psn_;
  return facts;
}

/// Whether the answer is one to the time when it was asked for last, if that can have an answer
/// yet.
bool RequestStream::IsAnswerTo(const CapturedPacket& packet, const OutstandingRead& read,
                               wire::Psn psn, wire::Psn first) {
  const PacketMark* const mark = responses_.Find(psn);
  const bool was_asked = read.WasAskedLast(first) && !IsSoonAgain(packet, read);
  if (mark == nullptr) return false;
  if (mark->frame < (was_asked ? read.request.frame : read.first_frame)) return false;
  return !was_asked || !IsTooSoonFor(mark->time_ns, read);
}

/// Answers from `psn` on, before `end`, that later ones have overtaken.
std::vector<wire::Psn> RequestStream::MissingAnswers(const CapturedPacket& packet,
                                                     const OutstandingRead& read, wire::Psn psn,
                                                     wire::Psn end) {
  constexpr int32_t kMostLookedAt = 1024;
  std::vector<wire::Psn> missing;
  for (int32_t i = 0; i < std::min(end.Since(psn), kMostLookedAt); ++i) {
    const wire::Psn at = psn + static_cast<uint32_t>(i);
    const bool is_passed =
        at.Since(read.arrived) < 0 || (read.request.sends == 1 && highest_answer_.Since(at) > 1);
    if (is_passed && !IsAnswerTo(packet, read, at, psn)) missing.push_back(at);
  }
  return missing;
}

ResendFacts RequestStream::FactsOf(const CapturedPacket& packet, const OutstandingRead& read,
                                   wire::Psn asked_end) {
  const wire::Psn psn = packet.packet.header.psn;
  ResendFacts facts = FactsOf(packet);
  facts.original = read.request;
  facts.is_read = true;
  facts.ack_frame = 0;  // An ACK does not answer a READ.
  if (IsAnswerTo(packet, read, psn, psn)) facts.response = *responses_.Find(psn);
  const bool was_passed =
      read.arrived.Since(psn) > 1 || (read.has_earlier && read.earlier.Since(psn) > 1);
  facts.later_response = read.overtaker.valid() || highest_answer_.Since(psn) > 1 || was_passed;
  const bool is_passed_since = !read.was_piece() && read.arrived.Since(psn) > 0;
  facts.is_piece = asked_end.Since(read.end()) < 0;
  const bool was_asked_piece = facts.is_piece && psn.Since(read.pieces_end) < 0;
  facts.was_asked_again =
      (read.request.sends > 1 && read.WasAskedLast(psn) && !is_passed_since) || was_asked_piece;
  // It cannot be about an answer that left so lately.
  const bool is_crossing =
      facts.response && recovery_.IsTooSoonToRepair(packet.time_ns - facts.response->time_ns);
  facts.is_hasty = is_crossing || (facts.was_asked_again && IsSoonAgain(packet, read));
  facts.is_passed_over = facts.later_response && !facts.response && !facts.was_asked_again;
  facts.was_ignored = facts.was_asked_again && read.was_piece() && !answers_pieces_;
  facts.last_event_ns = std::max(last_progress_ns_, read.request.time_ns);
  return facts;
}

bool RequestStream::IsSoonAgain(const CapturedPacket& packet, const OutstandingRead& read) const {
  return read.request.sends > 1 && packet.time_ns - read.asked_ns < amounts_.round_trip.least_ns;
}

void RequestStream::TakeReadAgain(const CapturedPacket& packet, OutstandingRead& read) {
  const wire::Psn psn = packet.packet.header.psn;
  NoteRepeat(packet);
  const bool may_be_copy =
      request_ids_.rises() || (!recovery_.MayBeSecond(packet) &&
                               (!recovery_.IsRepairing(psn) || IsAlone(read.request.frame)));
  if (psn == read.first && may_be_copy &&
      IsCopy(read.request, packet, request_ids_, LeastResend(read.request))) {
    return ReportDuplicate(packet, read.request.frame, LostWhat::kRequest);
  }
  const bool is_late = IsLate(packet);
  if (is_late && TakeLate(packet, read.request)) return;
  const uint32_t bytes = packet.packet.header.reth.length_bytes;
  const wire::Psn asked_end = mtu_bytes_ == 0 ? read.end() : psn + PacketsOf(bytes, mtu_bytes_);
  ResendFacts facts = FactsOf(packet, read, asked_end);
  const std::vector<wire::Psn> missing = MissingAnswers(packet, read, psn, asked_end);
  if (!facts.response && !missing.empty()) {
    facts.gap = static_cast<uint32_t>(missing.size());
    facts.gap_span = static_cast<uint32_t>(missing.back().Since(psn)) + 1;
  }
  if (!is_late) Resend(packet, facts);
  if (!is_late && facts.response && !facts.was_asked_again) {
    for (const wire::Psn at : missing) recovery_.OnMissingAnswers(at, 1);
  }
  AskAgain(packet, facts, asked_end, read);
}

/// Notes what the READ asks for now, and what may still come of what it asked for before.
void RequestStream::AskAgain(const CapturedPacket& packet, const ResendFacts& facts,
                             wire::Psn asked_end, OutstandingRead& read) {
  const bool is_soon = IsSoonAgain(packet, read);
  read.request.cause = 0;
  read.asks = last_rnr_frame_ > read.request.frame ? 1 : read.asks + 1;
  Fill(read.request, packet);
  // What was asked for before may still come behind what was asked for last.
  const bool has_begun = read.arrived != read.asked;
  if (!read.has_earlier || has_begun) read.earlier = read.arrived;
  read.has_earlier = true;
  if (read.overtaker.valid()) read.earlier_frame = read.overtaker.frame;
  if (!facts.is_piece) read.arrived = facts.psn;
  if (!is_soon || read.request.sends == 2) read.asked_ns = packet.time_ns;
  read.asked = read.round = facts.psn;
  read.asked_end = asked_end;
  read.passed_over = std::exchange(read.overtaker, {});
  if (!read.passed_over.valid() && facts.is_passed_over) read.passed_over = highest_mark_;
  if (facts.is_piece && asked_end.Since(read.pieces_end) > 0) read.pieces_end = asked_end;
}

/// No requester sends one packet twice in a row, unless a NAK makes it begin again.
bool RequestStream::IsAlone(uint64_t frame) const {
  return frame == last_request_ && recovery_.waits_for_receiver();
}

bool RequestStream::WasSeenSince(wire::Psn psn, int64_t time_ns) {
  const OutstandingRead* const read = reads_.Find(psn);
  const PacketMark* const mark = read != nullptr ? &read->request : requests_.Find(psn);
  return mark != nullptr && mark->time_ns > time_ns;
}

void RequestStream::Resend(const CapturedPacket& packet, ResendFacts facts) {
  amounts_.timeline.At(packet.time_ns).resent_bytes += facts.payload_bytes;
  if (facts.original && !facts.is_read && !packet.is_cut &&
      (facts.original->opcode != facts.opcode ||
       facts.original->payload_bytes != facts.payload_bytes)) {
    ReportViolation(
        packet, {"docs/protocol/transport.md, section 3.4",
                 absl::StrCat("psn ", facts.psn.value(), " was sent again as ",
                              wire::OpcodeName(facts.opcode), " of ", facts.payload_bytes,
                              " bytes; it was ", wire::OpcodeName(facts.original->opcode), " of ",
                              facts.original->payload_bytes, " bytes")});
  }
  Draw(packet, PlotKind::kResent, facts.psn);
  last_resend_ns_ = packet.time_ns;
  uint32_t skipped = recovery_.SkippedBy(facts.psn, packet.time_ns, acknowledged_);
  const int64_t begin_ns = recovery_.RoundBegin(packet.time_ns);
  while (skipped != 0 && WasSeenSince(facts.psn - skipped, begin_ns)) --skipped;
  if (skipped != 0 && WasSeenSince(facts.psn - 1, begin_ns)) skipped = 0;
  for (Gap& skip : skips_) skip.is_sure |= facts.psn == skip.overtaker + 1;
  if (const std::optional<Gap> skip = std::exchange(skip_, std::nullopt)) {
    facts.skipped_by = skip->frame;
    facts.skipped_ns = skip->time_ns;
  }
  if (skipped != 0) Skip(packet, facts, skipped);
  recovery_.OnResend(packet, facts);
}

/// The packets before this one were not sent again before it, or did not arrive.
void RequestStream::Skip(const CapturedPacket& packet, const ResendFacts& facts, uint32_t packets) {
  if (skips_.size() == kMostSkips) {
    LoseSkipped(skips_.front());
    skips_.erase(skips_.begin());
  }
  skips_.push_back({.first = facts.psn - packets,
                    .packets = packets,
                    .frame = packet.number,
                    .time_ns = packet.time_ns,
                    .identification = packet.identification,
                    .overtaker = facts.end - 1,
                    .is_sure = facts.knows_order || facts.end == next_});
}

/// A requester sends all again in order: what it has skipped was lost before the point.
void RequestStream::LoseSkipped(const Gap& skip, wire::Psn again, uint32_t span) {
  if (!skip.is_sure) return;
  Finding finding = sink().Make(FindingKind::kLoss, skip.time_ns, skip.first);
  finding.count = 0;
  const wire::Psn end = skip.first + skip.packets;
  for (wire::Psn psn = skip.first; psn.Since(end) < 0; ++finding.count) {
    const OutstandingRead* const read = reads_.Find(psn);
    const uint32_t packets = psn == again ? span : 1;
    psn = read != nullptr ? read->end() : psn + packets;
  }
  if (finding.count != skip.packets) finding.among = skip.packets;
  finding.what = LostWhat::kRequest;
  finding.side = LostSide::kRequester;
  finding.AddFrame(skip.frame);
  finding.text = absl::StrCat(finding.count, finding.count == 1 ? " packet" : " packets",
                              " from psn ", skip.first.value(), " on did not reach the capture ",
                              "point when sent again: lost between the requester and the point");
  const uint32_t id = sink().Add(std::move(finding));
  for (wire::Psn psn = skip.first; psn.Since(end) < 0; psn = psn + 1) {
    if (OutstandingRead* const read = reads_.Find(psn)) read->request.cause = id;
    if (PacketMark* const mark = requests_.Find(psn)) mark->cause = id;
  }
}

/// The requester cannot send the packet again so soon behind the one that showed that it is
/// missing, or behind the NAK.
bool RequestStream::IsTooSoon(const CapturedPacket& packet, int64_t shown_ns) const {
  const int64_t refused_ns = recovery_.RefusalOf(packet.packet.header.psn);
  const int64_t passed = packet.time_ns - std::max(refused_ns, shown_ns);
  return recovery_.IsTooSoonToRepair(passed);
}

/// True: the packet was skipped a moment ago, and is late.
bool RequestStream::WasSkipped(const CapturedPacket& packet) {
  const wire::Psn psn = packet.packet.header.psn;
  const auto found = std::ranges::find_if(skips_, [&](const Gap& skip) {
    return psn.Since(skip.first) >= 0 && psn.Since(skip.first + skip.packets) < 0;
  });
  if (found == skips_.end()) return false;
  const Gap skip = *found;
  skips_.erase(found);
  const bool is_late = IsLate(packet, skip.identification, skip.time_ns);
  if (!is_late && skip.packets == 1) {
    if (skip.is_sure) skip_ = skip;
    return false;
  }
  if (!is_late) {
    const uint32_t unsure = unsure_packets_;
    LoseSkipped(skip, psn, SpanOf(packet.packet.header));
    unsure_packets_ = unsure;
    return false;
  }
  ReportReordering(packet, skip.frame, skip.reordering, LostWhat::kRequest);
  return true;
}

}  // namespace uroce::tools::analyze
