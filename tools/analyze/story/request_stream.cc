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

constexpr int32_t kMostJump = 65536;  // PSNs; behind more, the connection is another one.
constexpr uint64_t kUnreliableGap = 64;
constexpr uint32_t kLeastMtu = 256;
constexpr uint32_t kMostMtu = 4096;

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

void RequestStream::Fill(PacketMark& mark, const CapturedPacket& packet) const {
  mark.frame = static_cast<uint32_t>(packet.number);
  mark.time_ns = packet.time_ns;
  mark.psn = packet.packet.header.psn.value();
  mark.icrc = packet.icrc_bytes;
  mark.identification = packet.identification;
  mark.payload_bytes = static_cast<uint16_t>(packet.packet.payload.size());
  mark.opcode = packet.packet.header.opcode;
  if (mark.sends < UINT8_MAX) ++mark.sends;
}

uint32_t RequestStream::PacketsOf(uint32_t bytes, uint32_t mtu) {
  return bytes == 0 ? 1 : static_cast<uint32_t>((uint64_t{bytes} + mtu - 1) / mtu);
}

bool RequestStream::IsAnsweredByPackets(const Info& info) {
  return info.Has(Info::kRead) || info.Has(Info::kAtomic);
}

void RequestStream::SetFirstPsn(wire::Psn psn) {
  if (is_synced_) return;
  Start(psn);
  knows_first_ = true;
}

void RequestStream::Start(wire::Psn psn) {
  is_synced_ = true;
  first_ = next_ = una_ = acknowledged_ = asks_until_ = highest_answer_ = expected_ = taken_until_ =
      psn;
  first_seen_ = {};
}

/// The responder waits for a packet that was sent before the first one that was seen.
void RequestStream::StartEarlier(wire::Psn psn) {
  gaps_.push_back({.first = psn,
                   .packets = static_cast<uint32_t>(una_.Since(psn)),
                   .frame = first_seen_.frame,
                   .time_ns = first_seen_.time_ns,
                   .identification = first_seen_.identification,
                   .is_start = true});
  una_ = acknowledged_ = highest_answer_ = psn;
}

bool RequestStream::Expects(const wire::TransportHeader& answer) {
  constexpr int32_t kLately = 64;
  const wire::Psn psn = answer.psn;
  if (!is_synced_ || psn.Since(next_) >= 0) return false;
  if (psn.Since(una_) < -kLately || psn.Since(first_) < 0) return false;
  const Info& info = wire::InfoOf(answer.opcode);
  return !IsAnsweredByPackets(info) || reads_.Find(psn) != nullptr;
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

/// The newest READ ends here.
void RequestStream::SetNext(wire::Psn end) {
  for (wire::Psn* const one : {&expected_, &taken_until_, &asks_until_}) {
    if (*one == next_) *one = end;
  }
  next_ = end;
}

/// The request behind a READ tells how many PSNs the READ has, if no request between was lost.
void RequestStream::ResolveSpan(wire::Psn psn) {
  OutstandingRead* const read = reads_.Newest();
  for (uint32_t mtu = kMostMtu; read != nullptr && mtu >= kLeastMtu; mtu /= 2) {
    if (read->first + PacketsOf(read->bytes, mtu) != psn) continue;
    read->packets = PacketsOf(read->bytes, mtu);
    read->asked_end = read->end();
    SetNext(psn);
    break;
  }
  unsure_packets_ = 0;
}

/// The path MTU is known now, if the packet shows it, and so is how many PSNs the newest READ has.
void RequestStream::NoteMtu(const CapturedPacket& packet) {
  const auto payload_bytes = static_cast<uint32_t>(packet.packet.payload.size());
  const bool is_full = wire::InfoOf(packet.packet.header.opcode).Has(Info::kFullPayload);
  if (is_full) mtu_bytes_ = payload_bytes;
  if (payload_bytes > kMostMtu / 2) mtu_bytes_ = kMostMtu;
  if (mtu_bytes_ == 0) return;
  reads_.SetMtu(mtu_bytes_);
  if (unsure_packets_ == 0) return;
  const wire::Psn end = reads_.Newest()->end();
  SetNext(end);
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
  if (mtu_bytes_ == 0) NoteMtu(packet);
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
  if (!first_seen_.valid()) Fill(first_seen_, packet);
  is_in_turn_ = header.psn.Since(expected_) <= 0;
  if (ahead > 0) OpenGap(next_, packet);
  ahead >= 0 ? TakeNew(packet) : TakeOld(packet);
  if (is_in_turn_) TakeInTurn(packet);
  request_ids_.Add(packet.identification);
  last_request_ = packet.number;
  last_request_ns_ = packet.time_ns;
  if (early_) ResolveEarlyAnswer(false);
}

void RequestStream::TakeInTurn(const CapturedPacket& packet) {
  const wire::TransportHeader& header = packet.packet.header;
  const bool is_read = IsAnsweredByPackets(wire::InfoOf(header.opcode));
  const OutstandingRead* const read = is_read ? reads_.Find(header.psn) : nullptr;
  const wire::Psn end = read != nullptr ? read->end() : header.psn + 1;
  if (end.Since(expected_) > 0) expected_ = end;
  const bool asks = header.ack_request || is_read;
  if (asks && end.Since(taken_until_) > 0) taken_until_ = end;
}

/// A NAK: the responder drops what comes before this one.
void RequestStream::SetExpected(wire::Psn psn) {
  expected_ = psn;
  if (taken_until_.Since(psn) > 0) taken_until_ = psn;
}

void RequestStream::TakeNew(const CapturedPacket& packet) {
  const wire::TransportHeader& header = packet.packet.header;
  const Info& info = wire::InfoOf(header.opcode);
  const uint32_t payload_bytes = static_cast<uint32_t>(packet.packet.payload.size());
  recovery_.OnNewRequest();
  if (std::optional<Violation> broken = order_.OnRequest(header, payload_bytes, mtu_bytes_)) {
    ReportViolation(packet, *broken);
  }
  const uint32_t span = SpanOf(header);
  next_ = header.psn + span;
  if (header.ack_request || IsAnsweredByPackets(info)) asks_until_ = next_;
  IsAnsweredByPackets(info) ? AddRead(packet, span) : static_cast<void>(Mark(packet));
  AddMessage(packet, info);
  amounts_.request_bytes += payload_bytes;
  amounts_.most_in_flight = std::max(amounts_.most_in_flight, in_flight());
  Interval& interval = amounts_.timeline.At(packet.time_ns);
  interval.request_bytes += payload_bytes;
  interval.most_in_flight = std::max(interval.most_in_flight, in_flight());
  Draw(packet, PlotKind::kSent, header.psn);
  // What overtook it was sent again, from lower PSNs.
  if (IsLate(packet)) ReportReordering(packet, last_request_, 0, LostWhat::kRequest);
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
                       .first_frame = static_cast<uint32_t>(packet.number),
                       .expected = header.psn,
                       .round = header.psn,
                       .asked = header.psn,
                       .asked_end = header.psn + span,
                       .pieces_end = header.psn,
                       .arrived = header.psn};
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

// ---- Findings ----

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
  is_in_turn_ = header.psn.Since(expected_) <= 0;
  if (ahead == 0) {
    TakeNew(packet);
  } else if (ahead > 0 || requests_.Find(header.psn) == nullptr) {
    return;
  } else {
    TakeOld(packet);
  }
  if (is_in_turn_) TakeInTurn(packet);
  if (OutstandingRead* const read = reads_.Find(header.psn)) read->request.cause = finding;
  if (PacketMark* const mark = requests_.Find(header.psn)) mark->cause = finding;
}

void RequestStream::Finish(int64_t end_ns) {
  constexpr int64_t kSettledNs = 1'000'000;
  if (!is_synced_) return;
  for (const Gap& skip : skips_) LoseSkipped(skip);
  skips_.clear();
  if (early_ && end_ns - early_->time_ns > kSettledNs) ResolveEarlyAnswer(true);
  if (!is_reliable_) {
    for (const Gap& gap : gaps_) LoseGap(gap);
  }
  // Answers that the capture lacks are no silence.
  recovery_.Finish(was_refused_ || was_incomplete_ ? next_ : una_, next_, end_ns);
  ReportCongestion(end_ns);
}

}  // namespace uroce::tools::analyze
