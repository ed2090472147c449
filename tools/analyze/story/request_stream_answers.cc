// SPDX-License-Identifier: Apache-2.0
// The answers to a requester: acknowledgements, NAKs and READ responses.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pipeline/transport/loss_recovery.h"
#include "pipeline/wire/to_string.h"
#include "tools/analyze/story/request_stream.h"
#include "tools/analyze/story/words.h"

namespace uroce::tools::analyze {
namespace {

using Info = wire::OpcodeInfo;

constexpr int64_t kStuckNs = 2'000'000'000;  // Answers that are later were not captured.
constexpr uint64_t kEarlyRequests = 256;
constexpr int32_t kMostBeforeStart = 64;  // PSNs.

}  // namespace

void RequestStream::OnResponse(const CapturedPacket& packet) {
  const wire::TransportHeader& header = packet.packet.header;
  const Info& info = wire::InfoOf(header.opcode);
  ++amounts_.responses;
  amounts_.marked_responses += packet.packet.congestion_experienced;
  // Maps of selective acknowledgements are no data.
  if (info.Has(Info::kRead)) amounts_.response_bytes += packet.packet.payload.size();
  has_answers_ = true;
  const bool is_refusal = info.Has(Info::kAeth) && !info.Has(Info::kRead) &&
                          header.aeth.syndrome > wire::kNakSequence &&
                          (header.aeth.syndrome & wire::kSyndromeKindMask) == wire::kSyndromeNak;
  const bool is_missing = info.Has(Info::kKeptMap) ||
                          (info.Has(Info::kAeth) && header.aeth.syndrome == wire::kNakSequence);
  const int32_t before = is_synced_ ? first_.Since(header.psn) : 0;
  if (is_missing && !knows_first_ && una_ == first_ && before > 0 && before <= kMostBeforeStart) {
    StartEarlier(header.psn);
  }
  if ((!is_synced_ || header.psn.Since(next_) >= static_cast<int32_t>(unsure_packets_)) &&
      !is_refusal) {
    if (!is_synced_) Keep(packet);
    if (is_synced_ && !early_) {
      early_ =
          EarlyAnswer{header.psn, packet.number, packet.time_ns, amounts_.requests, header.opcode};
    }
  } else if (IsAnsweredByPackets(info)) {
    TakeReadResponse(packet);
  } else if (info.Has(Info::kKeptMap)) {
    last_trouble_ns_ = packet.time_ns;
    recovery_.OnSelectiveAck(packet);
    if (header.psn.Since(una_) > 0) Acknowledge(packet, header.psn);
  } else if ((header.aeth.syndrome & wire::kSyndromeKindMask) == wire::kSyndromeAck) {
    TakeAcknowledge(packet);
  } else {
    TakeNak(packet);
  }
  response_ids_.Add(packet.identification);
}

/// Answers come before it is known which requests they belong to.
void RequestStream::Keep(const CapturedPacket& packet) {
  if (unmatched_.size() == kMostUnmatched) return;
  if (wire::InfoOf(packet.packet.header.opcode).Has(Info::kKeptMap)) return;
  unmatched_.push_back(packet);
}

void RequestStream::TakeAnswersOf(const RequestStream& other) {
  for (const CapturedPacket& packet : other.unmatched_) OnResponse(packet);
}

void RequestStream::AddRoundTrip(int64_t passed_ns) {
  amounts_.round_trip.Add(passed_ns);
  if (to_responder_ != nullptr) to_responder_->Add(passed_ns);
}

/// Without identifications, each request that came again lately may have a repeated answer.
int64_t RequestStream::LeastRepeat(const CapturedPacket& answer) {
  if (answer.time_ns - last_repeat_ns_ >= kLeastTimeoutNs) repeats_ = 0;
  if (repeats_ == 0) return kLeastProbeNs;
  // An answer that comes too soon cannot be one to a repeated request.
  if (!round_trip().IsTooSoon(answer.time_ns - last_repeat_ns_)) --repeats_;
  return 0;
}

void RequestStream::TakeAcknowledge(const CapturedPacket& packet) {
  const wire::TransportHeader& header = packet.packet.header;
  const int64_t least_ns = LeastRepeat(packet);
  if (last_ack_.valid() && last_ack_.psn == header.psn.value() &&
      IsCopy(last_ack_, packet, response_ids_, least_ns)) {
    return ReportDuplicate(packet, last_ack_.frame, LostWhat::kResponse);
  }
  Fill(last_ack_, packet);
  amounts_.credit_code = header.aeth.syndrome & wire::kSyndromeValueMask;
  amounts_.least_credit_code = std::min(amounts_.least_credit_code, amounts_.credit_code);
  const PacketMark* const request = requests_.Find(header.psn);
  if (request != nullptr && request->sends == 1 && header.psn.Since(una_) >= 0) {
    AddRoundTrip(packet.time_ns - request->time_ns);
  }
  Draw(packet, PlotKind::kAcknowledged, header.psn);
  if (header.psn.Since(una_) < 0) {
    recovery_.OnRepeatedAck(header.psn);
  } else if (!round_trip().IsTooSoon(packet.time_ns - last_repeat_ns_)) {
    repeats_ = 0;  // It answers what came again.
  }
  Acknowledge(packet, header.psn + 1);
}

/// How far the requester gets by an answer up to `una`: a READ that misses answers holds it.
wire::Psn RequestStream::Reached(const CapturedPacket& packet, wire::Psn una) {
  if (una.Since(acknowledged_) > 0) acknowledged_ = una;
  if (una.Since(highest_answer_) > 0) {
    highest_answer_ = una;
    Fill(highest_mark_, packet);
  }
  const OutstandingRead* const open = reads_.FirstOpen();
  if (open == nullptr || una.Since(open->expected) <= 0) return una;
  if (packet.time_ns - std::max(last_progress_ns_, open->request.time_ns) < kStuckNs) {
    return open->expected;
  }
  was_incomplete_ = true;
  reads_.GiveUpFirstOpen();
  return Reached(packet, una);
}

void RequestStream::Acknowledge(const CapturedPacket& packet, wire::Psn una) {
  una = Reached(packet, una);
  if (una.Since(una_) <= 0) return;
  una_ = una;
  if (una_.Since(expected_) > 0) expected_ = una_;
  last_progress_ns_ = packet.time_ns;
  progress_frame_ = packet.number;
  progress_psn_ = packet.packet.header.psn;
  CompleteMessages(packet);
  recovery_.OnProgress(packet, una_, round_trip());
  if (!gaps_.empty()) DropAcknowledgedGaps();
  reads_.Prune(una_);
}

void RequestStream::CompleteMessages(const CapturedPacket& packet) {
  while (!waiting_.empty() && waiting_.front().last.Since(una_) < 0) {
    const WaitingMessage& message = waiting_.front();
    amounts_.messages[static_cast<size_t>(message.operation)].latency.Add(packet.time_ns -
                                                                          message.start_ns);
    waiting_.pop_front();
  }
}

void RequestStream::TakeNak(const CapturedPacket& packet) {
  const wire::TransportHeader& header = packet.packet.header;
  const uint8_t syndrome = header.aeth.syndrome;
  const OutstandingRead* const read = reads_.Find(header.psn);
  const PacketMark* const request = read != nullptr ? &read->request : requests_.Find(header.psn);
  if (last_nak_.psn != header.psn.value() || last_syndrome_ != syndrome) last_nak_ = {};
  last_syndrome_ = syndrome;
  const bool was_repeated =
      request != nullptr && (request->frame > last_nak_.frame || request->sends > last_nak_.sends);
  if (last_nak_.valid() && last_nak_.psn == header.psn.value() &&
      IsCopy(last_nak_, packet, response_ids_, was_repeated ? 0 : kLeastProbeNs)) {
    return ReportDuplicate(packet, last_nak_.frame, LostWhat::kResponse);
  }
  Fill(last_nak_, packet);
  last_trouble_ns_ = packet.time_ns;
  Acknowledge(packet, header.psn);
  if (header.psn.Since(una_) >= 0) SetExpected(header.psn);
  if (header.psn.Since(highest_answer_) >= 0) {
    highest_answer_ = header.psn + 1;
    Fill(highest_mark_, packet);
  }
  if ((syndrome & wire::kSyndromeKindMask) == wire::kSyndromeRnrNak) {
    ++amounts_.rnr_naks;
    last_rnr_frame_ = packet.number;
    Draw(packet, PlotKind::kRnrNak, header.psn);
    recovery_.OnRnrNak(packet, transport::RnrWait(syndrome & wire::kSyndromeValueMask).count());
  } else if (syndrome == wire::kNakSequence) {
    ++amounts_.sequence_naks;
    Draw(packet, PlotKind::kNak, header.psn);
    recovery_.OnSequenceNak(packet, request);
  } else if ((syndrome & wire::kSyndromeKindMask) == wire::kSyndromeNak) {
    Draw(packet, PlotKind::kNak, header.psn);
    was_refused_ = true;
    Finding finding = sink().Make(FindingKind::kRefused, packet.time_ns, header.psn);
    finding.AddFrame(packet.number);
    if (request != nullptr) finding.AddFrame(request->frame);
    finding.text = RefusalText(syndrome, header.psn, request);
    sink().Add(std::move(finding));
  }
}

void RequestStream::TakeReadResponse(const CapturedPacket& packet) {
  const wire::TransportHeader& header = packet.packet.header;
  if (mtu_bytes_ == 0) NoteMtu(packet);
  OutstandingRead* const read = reads_.Find(header.psn);
  if (read == nullptr) return;
  const PacketMark* const before = responses_.Find(header.psn);
  // Until it is asked for again, an answer comes once.
  const bool was_asked_again = before != nullptr && (read->request.frame > before->frame ||
                                                     IsTooSoonFor(before->time_ns, *read));
  // Without identifications, each time that it was asked for may have an answer.
  const bool may_be_asked =
      !response_ids_.rises() && before != nullptr && before->sends < read->asks;
  if (before != nullptr && !may_be_asked &&
      IsCopy(*before, packet, response_ids_, was_asked_again ? 1 : INT64_MAX)) {
    return ReportDuplicate(packet, before->frame, LostWhat::kResponse);
  }
  CheckReadResponse(packet, *read);
  if (read->request.sends == 1 && header.psn == read->first && before == nullptr) {
    AddRoundTrip(packet.time_ns - read->request.time_ns);
  }
  amounts_.timeline.At(packet.time_ns).response_bytes += packet.packet.payload.size();
  Draw(packet, PlotKind::kResponse, header.psn);
  PacketMark& mark = responses_.Put(header.psn, std::min(in_flight(), kMostMarked / 2));
  mark.cause = 0;
  Fill(mark, packet);
  answers_pieces_ |= read->was_piece() && read->WasAskedLast(header.psn);
  const bool continues =
      read->has_earlier && !read->WasAskedLast(header.psn) && header.psn.Since(read->earlier) >= 0;
  continues || IsOfEarlierRound(packet, *read) ? TakeInEarlierRound(packet, *read)
                                               : TakeInRound(packet, *read, mark);
  if (before == nullptr && response_ids_.IsLate(packet.identification)) {
    ReportReordering(packet, highest_mark_.frame, 0, LostWhat::kResponse);
    recovery_.OnLateAnswer(header.psn);
  }
  Acknowledge(packet, read->is_complete() ? read->end() : read->expected);
}

/// Some responders begin the answer to a READ that asks for the rest by a FIRST or ONLY.
bool RequestStream::BeginsTheRest(const CapturedPacket& packet, const OutstandingRead& read) {
  const wire::Psn psn = packet.packet.header.psn;
  const bool is_first = wire::InfoOf(packet.packet.header.opcode).Has(Info::kFirst);
  return is_first && psn == read.asked && psn != read.first;
}

bool RequestStream::IsOfEarlierRound(const CapturedPacket& packet,
                                     const OutstandingRead& read) const {
  return !BeginsTheRest(packet, read) && IsTooSoonFor(packet.time_ns, read);
}

/// An answer to what was asked for last cannot come so soon.
bool RequestStream::IsTooSoonFor(int64_t time_ns, const OutstandingRead& read) const {
  return read.has_earlier && read.request.sends > 1 && !read.is_atomic &&
         round_trip().IsTooSoon(time_ns - read.asked_ns);
}

/// What is missing in it leaves a gap, and has been asked for again already.
void RequestStream::TakeInEarlierRound(const CapturedPacket& packet, OutstandingRead& read) {
  const wire::Psn psn = packet.packet.header.psn;
  const int32_t ahead = psn.Since(read.earlier);
  if (ahead < 0) {
    // A late packet comes alone. A run of such answers is one to a READ that was sent again between
    // the first time and the last.
    const bool is_run = psn == read.behind_late;
    read.behind_late = psn + 1;
    const PacketMark* const mark = responses_.Find(psn);
    if (is_run || read.earlier_frame == 0 || mark == nullptr || mark->sends > 1) return;
    ReportReordering(packet, read.earlier_frame, 0, LostWhat::kResponse);
    recovery_.OnLateAnswer(psn);
    return;
  }
  if (ahead == 0) {
    const PacketMark* const mark = responses_.Find(psn);
    const bool is_alone = mark != nullptr && mark->sends == 1 && highest_answer_.Since(psn) > 1;
    const bool was_missing = recovery_.OnLateAnswer(psn) && read.passed_over.valid();
    const PacketMark& overtaker = read.passed_over.valid() ? read.passed_over : highest_mark_;
    if (was_missing || is_alone) {
      ReportReordering(packet, overtaker.frame, 0, LostWhat::kResponse);
    }
  }
  if (ahead > 0) {
    recovery_.OnMissingAnswers(read.earlier, static_cast<uint32_t>(ahead));
    read.earlier_frame = static_cast<uint32_t>(packet.number);
  }
  read.earlier = psn + 1;
  if (read.was_piece()) read.arrived = read.earlier;
}

/// Answers come in the order of PSNs, from the one that was asked for last.
void RequestStream::TakeInRound(const CapturedPacket& packet, OutstandingRead& read,
                                PacketMark& mark) {
  const wire::Psn psn = packet.packet.header.psn;
  const int32_t ahead = psn.Since(read.round);
  if (psn.Since(read.arrived) >= 0) read.arrived = psn + 1;
  if (ahead == 0 && IsLateAnswer(packet, read)) {
    ReportReordering(packet, read.passed_over.frame, 0, LostWhat::kResponse);
    recovery_.OnLateAnswer(psn);
    read.passed_over = {};
  }
  // It is one to the time before, which was missing.
  const bool is_too_soon = read.request.sends > 1 && !BeginsTheRest(packet, read) &&
                           round_trip().IsTooSoon(packet.time_ns - read.asked_ns);
  if (ahead == 0 && is_too_soon && highest_mark_.valid() && recovery_.HoldsForLost(psn)) {
    recovery_.OnLateAnswer(psn);
    ReportReordering(packet, highest_mark_.frame, 0, LostWhat::kResponse);
  }
  // Answers come in the order of requests.
  const bool was_overtaken = ahead == 0 && read.request.sends == 1 && !read.overtaker.valid() &&
                             highest_answer_.Since(psn) > 1 &&
                             highest_mark_.frame > read.request.frame;
  if (was_overtaken) ReportReordering(packet, highest_mark_.frame, 0, LostWhat::kResponse);
  if (ahead > 0) last_trouble_ns_ = packet.time_ns;
  if (ahead > 0 && !read.overtaker.valid()) {
    read.overtaker = mark;
    read.reordering = 0;
  }
  if (ahead == 0) {
    const bool is_late =
        response_ids_.rises()
            ? IsBefore(packet.identification, read.overtaker.identification)
            : read.request.sends == 1 || (mark.sends == 1 && IsRunBehind(read.overtaker));
    if (read.overtaker.valid() && is_late) {
      read.reordering =
          ReportReordering(packet, read.overtaker.frame, read.reordering, LostWhat::kResponse);
    }
    const auto is_there = [&](wire::Psn at, uint32_t since_frame) {
      const PacketMark* const seen = responses_.Find(at);
      return seen != nullptr && seen->frame >= since_frame;
    };
    do {
      read.round = read.round + 1;
    } while (read.Has(read.round) && is_there(read.round, read.request.frame));
    if (read.round.Since(wire::Psn(read.overtaker.psn)) > 0) read.overtaker = {};
  }
  const bool was_complete = read.is_complete();
  while (!read.is_complete()) {
    const PacketMark* const seen = responses_.Find(read.expected);
    if (seen == nullptr || seen->frame < read.first_frame) break;
    read.expected = read.expected + 1;
  }
  if (was_complete || !read.is_complete()) return;
  const Operation operation = read.is_atomic ? Operation::kAtomic : Operation::kRead;
  amounts_.messages[static_cast<size_t>(operation)].latency.Add(packet.time_ns - read.time_ns);
}

/// The answer and the one behind it came in order: both are of one round.
bool RequestStream::IsRunBehind(const PacketMark& answer) {
  const PacketMark* const next = responses_.Find(wire::Psn(answer.psn) + 1);
  return next != nullptr && next->frame > answer.frame;
}

/// It answers the READ or atomic before it was asked again: the answer to that cannot come so soon.
bool RequestStream::IsLateAnswer(const CapturedPacket& packet, const OutstandingRead& read) const {
  if (!read.passed_over.valid() || BeginsTheRest(packet, read)) return false;
  if (response_ids_.rises())
    return IsBefore(packet.identification, read.passed_over.identification);
  return round_trip().IsTooSoon(packet.time_ns - read.asked_ns);
}

/// docs/protocol/transport.md, section 3.2: a FIRST or MIDDLE has the path MTU, the last packet
/// the rest.
void RequestStream::CheckReadResponse(const CapturedPacket& packet, const OutstandingRead& read) {
  const Info& info = wire::InfoOf(packet.packet.header.opcode);
  if (!info.Has(Info::kRead) || read.is_atomic || mtu_bytes_ == 0) return;
  const auto bytes = static_cast<uint32_t>(packet.packet.payload.size());
  const auto index = static_cast<uint32_t>(packet.packet.header.psn.Since(read.first));
  const bool is_last = index + 1 == read.packets;
  const uint32_t due = is_last ? read.bytes - index * mtu_bytes_ : mtu_bytes_;
  if (bytes == due) return;
  ReportViolation(packet, {"docs/protocol/transport.md, section 3.2",
                           absl::StrCat(wire::OpcodeName(packet.packet.header.opcode), " psn ",
                                        packet.packet.header.psn.value(), " has ", bytes,
                                        " bytes of payload, not ", due)});
}

void RequestStream::ResolveEarlyAnswer(bool at_end) {
  if (next_.Since(early_->psn) > 0) {
    early_.reset();
    return;
  }
  if (!at_end && amounts_.requests - early_->requests < kEarlyRequests) return;
  const EarlyAnswer early = *std::exchange(early_, std::nullopt);
  if (was_incomplete_) return;
  Finding finding = sink().Make(FindingKind::kViolation, early.time_ns, early.psn);
  finding.AddFrame(early.frame);
  finding.rule = "docs/protocol/transport.md, section 3.2";
  finding.text = absl::StrCat(wire::OpcodeName(early.opcode), " psn ", early.psn.value(),
                              " answers what was not sent");
  sink().Add(std::move(finding));
}

// ---- Findings ----

void RequestStream::ReportDuplicate(const CapturedPacket& packet, uint64_t of_frame,
                                    LostWhat what) {
  const wire::Psn psn = packet.packet.header.psn;
  Finding finding = sink().Make(FindingKind::kDuplicate, packet.time_ns, psn);
  finding.what = what;
  finding.AddFrame(of_frame);
  finding.AddFrame(packet.number);
  finding.text =
      absl::StrCat(PacketName(packet.packet.header), " psn ", psn.value(), " came twice (frames ",
                   of_frame, " and ", packet.number, "): the network made a copy");
  sink().Add(std::move(finding));
}

uint32_t RequestStream::ReportReordering(const CapturedPacket& packet, uint64_t overtaker,
                                         uint32_t known, LostWhat what) {
  const wire::Psn psn = packet.packet.header.psn;
  const IdentificationOrder& ids = what == LostWhat::kRequest ? request_ids_ : response_ids_;
  if (ids.IsInOrder(packet.identification) || late_frame_ == packet.number) return known;
  late_frame_ = packet.number;
  if (Finding* const one = known == 0 ? nullptr : sink().FindNew(known)) {
    ++one->count;
    if (what == LostWhat::kRequest) NoteLate(packet, known);
    return known;
  }
  Finding finding = sink().Make(FindingKind::kReordering, packet.time_ns, psn);
  finding.what = what;
  finding.side = what == LostWhat::kRequest ? LostSide::kRequester : LostSide::kResponder;
  finding.AddFrame(packet.number);
  finding.AddFrame(overtaker);
  finding.text = absl::StrCat(PacketName(packet.packet.header), " psn ", psn.value(), " (frame ",
                              packet.number, ") came behind later packets, of which frame ",
                              overtaker, " was the first");
  const uint32_t id = sink().Add(std::move(finding));
  if (what == LostWhat::kRequest) NoteLate(packet, id);
  return id;
}

void RequestStream::NoteLate(const CapturedPacket& packet, uint32_t finding) {
  OutstandingRead* const read = reads_.Find(packet.packet.header.psn);
  (read != nullptr ? read->request : Mark(packet)).cause = finding;
  recovery_.OnLateRequest(packet, finding);
}

}  // namespace uroce::tools::analyze
