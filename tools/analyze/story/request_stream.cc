// SPDX-License-Identifier: Apache-2.0
#include "tools/analyze/story/request_stream.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pipeline/transport/loss_recovery.h"
#include "pipeline/wire/to_string.h"
#include "tools/analyze/story/words.h"

namespace uroce::tools::analyze {
namespace {

using Info = wire::OpcodeInfo;

constexpr int32_t kMostJump = 65536;    // PSNs; behind more, the connection is another one.
constexpr int64_t kLateNs = 1'000'000;  // A packet that is later was sent again.
constexpr uint64_t kUnreliableGap = 64;
constexpr uint32_t kLeastMtu = 256;
constexpr uint32_t kMostMtu = 4096;

uint32_t PacketsOf(uint32_t bytes, uint32_t mtu) {
  return bytes == 0 ? 1 : static_cast<uint32_t>((uint64_t{bytes} + mtu - 1) / mtu);
}

Operation OperationOf(const Info& info) {
  if (info.Has(Info::kAtomic)) return Operation::kAtomic;
  if (info.Has(Info::kRead)) return Operation::kRead;
  return info.Has(Info::kWrite) ? Operation::kWrite : Operation::kSend;
}

}  // namespace

absl::string_view NameOf(Operation operation) {
  constexpr std::array<absl::string_view, kOperationCount> kNames = {"SEND", "WRITE", "READ",
                                                                     "ATOMIC"};
  return kNames[static_cast<size_t>(operation)];
}

RequestStream::RequestStream(FindingSink sink, bool is_reliable, size_t most_plot_points)
    : recovery_(sink), is_reliable_(is_reliable), plot_(most_plot_points) {}

void RequestStream::Fill(PacketMark& mark, const CapturedPacket& packet) {
  mark.frame = static_cast<uint32_t>(packet.number);
  mark.time_ns = packet.time_ns;
  mark.psn = packet.packet.header.psn.value();
  mark.icrc = packet.icrc_bytes;
  mark.identification = packet.identification;
  mark.payload_bytes = static_cast<uint16_t>(packet.packet.payload.size());
  mark.opcode = packet.packet.header.opcode;
  if (mark.sends < UINT8_MAX) ++mark.sends;
}

bool RequestStream::IsAnsweredByPackets(const Info& info) {
  return info.Has(Info::kRead) || info.Has(Info::kAtomic);
}

void RequestStream::SetFirstPsn(wire::Psn psn) {
  if (is_synced_) return;
  Start(psn);
}

void RequestStream::Start(wire::Psn psn) {
  is_synced_ = true;
  first_ = next_ = una_ = highest_answer_ = psn;
}

bool RequestStream::Expects(wire::Psn psn) const {
  constexpr int32_t kLately = 64;
  return is_synced_ && psn.Since(next_) < 0 && psn.Since(una_) >= -kLately &&
         psn.Since(first_) >= 0;
}

void RequestStream::Draw(const CapturedPacket& packet, PlotKind kind, wire::Psn psn) {
  if (!plot_.is_on()) return;
  plot_.Add({.time_ns = packet.time_ns,
             .frame = packet.number,
             .offset = static_cast<uint32_t>(std::max(0, psn.Since(first_))),
             .kind = kind});
}

// ---- Requests ----

/// How many PSNs the request has. Without the path MTU, the least that a READ may have.
uint32_t RequestStream::SpanOf(const wire::TransportHeader& header) {
  unsure_packets_ = 0;
  if (!wire::InfoOf(header.opcode).Has(Info::kRead)) return 1;
  const uint32_t bytes = header.reth.length_bytes;
  if (mtu_bytes_ != 0) return PacketsOf(bytes, mtu_bytes_);
  unsure_packets_ = PacketsOf(bytes, kLeastMtu) - PacketsOf(bytes, kMostMtu);
  return PacketsOf(bytes, kMostMtu);
}

/// The request behind a READ tells how many PSNs the READ has, if no request between was lost.
void RequestStream::ResolveSpan(wire::Psn psn) {
  OutstandingRead* const read = reads_.Newest();
  for (uint32_t mtu = kMostMtu; read != nullptr && mtu >= kLeastMtu; mtu /= 2) {
    if (read->first + PacketsOf(read->bytes, mtu) != psn) continue;
    read->packets = PacketsOf(read->bytes, mtu);
    next_ = psn;
    break;
  }
  unsure_packets_ = 0;
}

bool RequestStream::IsRestart(int32_t ahead) const {
  return ahead > kMostJump || ahead < -kMostJump;
}

void RequestStream::OnRequest(const CapturedPacket& packet) {
  const wire::TransportHeader& header = packet.packet.header;
  ++amounts_.requests;
  amounts_.marked_requests += packet.packet.congestion_experienced;
  if (packet.packet.congestion_experienced) {
    ++amounts_.timeline.At(packet.time_ns).marked;
    if (amounts_.first_marked == 0) amounts_.first_marked = packet.number;
  }
  if (!is_synced_) Start(header.psn);
  int32_t ahead = header.psn.Since(next_);
  if (ahead > 0 && static_cast<uint32_t>(ahead) <= unsure_packets_) {
    ResolveSpan(header.psn);
    ahead = header.psn.Since(next_);
  }
  if (IsRestart(ahead) && reads_.Find(header.psn) == nullptr) {
    order_.Lose();
    Start(header.psn);
    ahead = 0;
  }
  if (ahead > 0) OpenGap(next_, packet);
  ahead >= 0 ? TakeNew(packet) : TakeOld(packet);
  request_ids_.Add(packet.identification);
  last_request_ = packet.number;
  if (early_) ResolveEarlyAnswer(false);
}

void RequestStream::TakeNew(const CapturedPacket& packet) {
  const wire::TransportHeader& header = packet.packet.header;
  const Info& info = wire::InfoOf(header.opcode);
  const uint32_t payload_bytes = static_cast<uint32_t>(packet.packet.payload.size());
  recovery_.OnNewRequest();
  if (mtu_bytes_ == 0 && info.Has(Info::kFullPayload)) mtu_bytes_ = payload_bytes;
  if (std::optional<Violation> broken = order_.OnRequest(header, payload_bytes, mtu_bytes_)) {
    ReportViolation(packet, *broken);
  }
  const uint32_t span = SpanOf(header);
  next_ = header.psn + span;
  IsAnsweredByPackets(info) ? AddRead(packet, span) : static_cast<void>(Mark(packet));
  AddMessage(packet, info);
  amounts_.request_bytes += payload_bytes;
  amounts_.most_in_flight = std::max(amounts_.most_in_flight, in_flight());
  Interval& interval = amounts_.timeline.At(packet.time_ns);
  interval.request_bytes += payload_bytes;
  interval.most_in_flight = std::max(interval.most_in_flight, in_flight());
  Draw(packet, PlotKind::kSent, header.psn);
}

PacketMark& RequestStream::Mark(const CapturedPacket& packet) {
  PacketMark& mark =
      requests_.Put(packet.packet.header.psn, std::min(in_flight(), kMostMarked / 2));
  Fill(mark, packet);
  return mark;
}

void RequestStream::AddRead(const CapturedPacket& packet, uint32_t span) {
  const wire::TransportHeader& header = packet.packet.header;
  const Info& info = wire::InfoOf(header.opcode);
  OutstandingRead read{.first = header.psn,
                       .packets = span,
                       .bytes = info.Has(Info::kRead) ? header.reth.length_bytes : 8,
                       .is_atomic = info.Has(Info::kAtomic),
                       .time_ns = packet.time_ns,
                       .expected = header.psn,
                       .round = header.psn};
  Fill(read.request, packet);
  reads_.Add(read);
  const uint32_t outstanding = reads_.Outstanding(una_);
  amounts_.most_reads = std::max(amounts_.most_reads, outstanding);
}

void RequestStream::AddMessage(const CapturedPacket& packet, const Info& info) {
  const wire::TransportHeader& header = packet.packet.header;
  if (info.Has(Info::kFirst)) open_ = {.start_ns = packet.time_ns, .bytes = 0};
  open_.bytes += packet.packet.payload.size();
  if (!info.Has(Info::kLast)) return;
  const Operation operation = OperationOf(info);
  uint64_t bytes = open_.bytes;
  if (operation == Operation::kRead) bytes = header.reth.length_bytes;
  if (operation == Operation::kAtomic) bytes = 8;
  amounts_.messages[static_cast<size_t>(operation)].Add(bytes);
  if (IsAnsweredByPackets(info) || !is_reliable_ || open_.start_ns == 0) return;
  if (waiting_.size() == kMostWaiting) waiting_.pop_front();
  waiting_.push_back({.last = header.psn,
                      .operation = operation,
                      .start_ns = open_.start_ns,
                      .last_sent_ns = packet.time_ns});
}

// ---- Requests that do not come in order ----

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
  const wire::Psn psn = packet.packet.header.psn;
  const Info& info = wire::InfoOf(packet.packet.header.opcode);
  if (IsAnsweredByPackets(info)) {
    if (OutstandingRead* const read = reads_.Find(psn)) return TakeReadAgain(packet, *read);
  }
  if (const PacketMark* const mark = requests_.Find(psn)) {
    was_repeated_ = true;
    // No requester sends one packet twice in a row.
    const bool may_be_copy =
        request_ids_.rises() || !recovery_.IsRepairing(psn) || mark->frame == last_request_;
    if (may_be_copy && IsCopy(*mark, packet, request_ids_, LeastResend(*mark))) {
      return ReportDuplicate(packet, mark->frame, LostWhat::kRequest);
    }
    if (!is_reliable_) return;
    ResendFacts facts = FactsOf(packet);
    facts.original = *mark;
    facts.last_event_ns = std::max(last_progress_ns_, mark->time_ns);
    if (una_.Since(psn) > 0) facts.ack_frame = progress_frame_;
    facts.ack_psn = una_ - 1;
    Resend(packet, facts);
    Mark(packet).cause = 0;
    return;
  }
  if (GapOf(psn) != nullptr) TakeInGap(packet);
}

/// Sooner than this after it was sent, the packet was not sent again: no answer has told of
/// anything missing lately, and requesters wait longer for one before they probe.
int64_t RequestStream::LeastResend(const PacketMark& mark) const {
  const bool is_quiet = mark.frame == last_request_ ||
                        (has_answers_ && mark.time_ns - last_trouble_ns_ > kLeastTimeoutNs);
  const int64_t least = amounts_.least_round_trip_ns;
  const bool has_identification = mark.identification != 0 && !request_ids_.is_constant();
  if (least == 0 && has_identification) return 0;  // See IsCopy.
  return std::max(is_quiet ? kLeastProbeNs : 0, least);
}

/// The packet was not seen before, and later ones were: it is late, or sent again.
void RequestStream::TakeInGap(const CapturedPacket& packet) {
  const wire::Psn psn = packet.packet.header.psn;
  const Gap gap = *GapOf(psn);
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
    facts.gap = gap.packets - static_cast<uint32_t>(psn.Since(gap.first));
    if (IsAnsweredByPackets(wire::InfoOf(facts.opcode))) facts.gap = 1;  // PSNs of its answer.
    if (una_.Since(psn) > 0) facts.ack_frame = progress_frame_;
    facts.ack_psn = una_ - 1;
    Resend(packet, facts);
  }
  if (IsAnsweredByPackets(wire::InfoOf(packet.packet.header.opcode))) {
    const uint32_t unsure = unsure_packets_;
    const uint32_t span = SpanOf(packet.packet.header);
    unsure_packets_ = unsure;
    for (uint32_t i = 0; i < span && GapOf(psn + i) != nullptr; ++i) FillGap(psn + i);
    AddRead(packet, span);
    return;
  }
  FillGap(psn);
  if (!is_late) Mark(packet);
}

/// A packet behind a gap is late if it was sent before the packet that showed the gap. Without
/// identifications, it is late if it comes before its sender can know of the gap.
bool RequestStream::IsLate(const CapturedPacket& packet, uint16_t overtaker_id,
                           int64_t overtaker_ns) const {
  if (request_ids_.rises()) return IsBefore(packet.identification, overtaker_id);
  const int64_t passed = packet.time_ns - overtaker_ns;
  const int64_t least = amounts_.least_round_trip_ns;
  if (recovery_.IsRepairing(packet.packet.header.psn)) return passed < least;
  return passed < (has_answers_ ? std::max(least, kLeastTimeoutNs) : kLateNs);
}

ResendFacts RequestStream::FactsOf(const CapturedPacket& packet) const {
  ResendFacts facts;
  facts.psn = packet.packet.header.psn;
  facts.payload_bytes = static_cast<uint32_t>(packet.packet.payload.size());
  facts.opcode = packet.packet.header.opcode;
  facts.next = next_;
  facts.is_last = facts.psn + 1 == next_;
  facts.hears_responses = has_answers_;
  return facts;
}

void RequestStream::TakeReadAgain(const CapturedPacket& packet, OutstandingRead& read) {
  const wire::Psn psn = packet.packet.header.psn;
  was_repeated_ = true;
  if (psn == read.first && IsCopy(read.request, packet, request_ids_, LeastResend(read.request))) {
    return ReportDuplicate(packet, read.request.frame, LostWhat::kRequest);
  }
  ResendFacts facts = FactsOf(packet);
  facts.original = read.request;
  facts.is_read = true;
  const PacketMark* const response = responses_.Find(psn);
  if (response != nullptr && response->time_ns >= read.time_ns) facts.response = *response;
  facts.later_response = read.overtaker.valid() || highest_answer_.Since(psn) > 1;
  if (!facts.response && mtu_bytes_ != 0) {
    // Answers that later ones have overtaken, of those that are asked for now.
    constexpr uint32_t kMostLookedAt = 1024;
    const uint32_t asked = PacketsOf(packet.packet.header.reth.length_bytes, mtu_bytes_);
    for (uint32_t i = 0; i < std::min(asked, kMostLookedAt); ++i) {
      const PacketMark* const seen = responses_.Find(psn + i);
      const bool is_there = seen != nullptr && seen->time_ns >= read.time_ns;
      facts.gap += !is_there && highest_answer_.Since(psn + i) > 1;
    }
  }
  facts.last_event_ns = std::max(last_progress_ns_, read.request.time_ns);
  Resend(packet, facts);
  read.request.cause = 0;
  Fill(read.request, packet);
  read.round = psn;
  read.passed_over = std::exchange(read.overtaker, {});
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
  recovery_.OnResend(packet, facts);
}

void RequestStream::ReportViolation(const CapturedPacket& packet, const Violation& violation) {
  Finding finding = sink().Make(FindingKind::kViolation, packet.time_ns, packet.packet.header.psn);
  finding.AddFrame(packet.number);
  finding.rule = violation.rule;
  finding.text = absl::StrCat(violation.text, " (frame ", packet.number, ")");
  sink().Add(std::move(finding));
}

/// How the rate changed: the mean of some intervals before the first CNP and behind it.
std::string RequestStream::RateChange() const {
  constexpr size_t kMostIntervals = 8;
  const std::vector<Interval>& intervals = amounts_.timeline.intervals();
  const auto at = static_cast<size_t>((amounts_.first_cnp_ns - amounts_.timeline.start_ns()) /
                                      amounts_.timeline.interval_ns());
  const auto mean = [&](size_t begin, size_t end) {
    uint64_t bytes = 0;
    for (size_t i = begin; i < end; ++i) {
      bytes += intervals[i].request_bytes + intervals[i].resent_bytes;
    }
    const auto nanos = static_cast<double>(amounts_.timeline.interval_ns()) *
                       static_cast<double>(std::max<size_t>(1, end - begin));
    return RateText(static_cast<double>(bytes) * 8e9 / nanos);
  };
  if (amounts_.first_cnp_ns == 0 || at == 0 || at + 2 >= intervals.size()) return "";
  const size_t begin = at > kMostIntervals ? at - kMostIntervals : 0;
  return absl::StrCat("; the rate was ", mean(begin, at), " before the first CNP and ",
                      mean(at + 1, std::min(intervals.size(), at + 1 + kMostIntervals)),
                      " behind it");
}

void RequestStream::ReportCongestion(int64_t end_ns) {
  const uint64_t marked = amounts_.marked_requests + amounts_.marked_responses;
  if (marked + amounts_.cnps == 0) return;
  Finding finding = sink().Make(FindingKind::kCongestion,
                                amounts_.first_cnp_ns != 0 ? amounts_.first_cnp_ns : end_ns, next_);
  finding.count = marked + amounts_.cnps;
  if (amounts_.first_marked != 0) finding.AddFrame(amounts_.first_marked);
  if (amounts_.first_cnp != 0) finding.AddFrame(amounts_.first_cnp);
  finding.text = absl::StrCat(
      amounts_.marked_requests, " of ", amounts_.requests, " requests and ",
      amounts_.marked_responses, " of ", amounts_.responses, " answers had a mark (CE); ",
      amounts_.cnps, amounts_.cnps == 1 ? " CNP" : " CNPs", " went to the requester", RateChange());
  sink().Add(std::move(finding));
}

// ---- Other events ----

void RequestStream::OnCnp(const CapturedPacket& packet) {
  ++amounts_.cnps;
  ++amounts_.timeline.At(packet.time_ns).cnps;
  if (amounts_.first_cnp == 0) {
    amounts_.first_cnp = packet.number;
    amounts_.first_cnp_ns = packet.time_ns;
  }
  Draw(packet, PlotKind::kCnp, next_);
}

void RequestStream::OnDamaged(const CapturedPacket& packet, uint32_t finding) {
  const wire::TransportHeader& header = packet.packet.header;
  const Info& info = wire::InfoOf(header.opcode);
  if (info.Has(Info::kResponse)) {
    recovery_.OnDamagedResponse(header.psn, finding);
    return;
  }
  if (!is_synced_) Start(header.psn);
  const int32_t ahead = header.psn.Since(next_);
  if (ahead == 0) {
    TakeNew(packet);
  } else if (ahead > 0 || requests_.Find(header.psn) == nullptr) {
    return;
  } else {
    TakeOld(packet);
  }
  if (OutstandingRead* const read = reads_.Find(header.psn)) read->request.cause = finding;
  if (PacketMark* const mark = requests_.Find(header.psn)) mark->cause = finding;
}

void RequestStream::Finish(int64_t end_ns) {
  constexpr int64_t kSettledNs = 1'000'000;
  if (!is_synced_) return;
  if (early_ && end_ns - early_->time_ns > kSettledNs) ResolveEarlyAnswer(true);
  if (!is_reliable_) {
    for (const Gap& gap : gaps_) LoseGap(gap);
  }
  recovery_.Finish(was_refused_ ? next_ : una_, next_, end_ns);
  ReportCongestion(end_ns);
}

}  // namespace uroce::tools::analyze
