// SPDX-License-Identifier: Apache-2.0
#include "tests/tools/analyze/known_network.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "pipeline/wire/decode.h"
#include "pipeline/wire/icrc.h"
#include "pipeline/wire/to_string.h"

namespace uroce::tools::analyze {
namespace {

using Info = wire::OpcodeInfo;

bool IsReliable(const wire::Packet& packet) {
  const wire::Service service = wire::ServiceOf(packet.header.opcode);
  return service == wire::Service::kRc || service == wire::Service::kXrc;
}

bool IsAcknowledge(const wire::Packet& packet) {
  const Info& info = wire::InfoOf(packet.header.opcode);
  return info.Has(Info::kResponse) && !info.Has(Info::kRead) && !info.Has(Info::kAtomic);
}

bool IsNak(const wire::Packet& packet) {
  return IsAcknowledge(packet) && !wire::InfoOf(packet.header.opcode).Has(Info::kKeptMap) &&
         (packet.header.aeth.syndrome & wire::kSyndromeKindMask) != wire::kSyndromeAck;
}

LostWhat WhatOf(const wire::Packet& packet) {
  return wire::InfoOf(packet.header.opcode).Has(Info::kResponse) ? LostWhat::kResponse
                                                                 : LostWhat::kRequest;
}

KnownFault FaultOf(const wire::Packet& packet, uint32_t from, uint32_t to, uint64_t number,
                   Nanos now) {
  return {.what = WhatOf(packet),
          .from = from,
          .to = to,
          .dest_qpn = packet.header.dest_qpn,
          .psn = packet.header.psn,
          .opcode = packet.header.opcode,
          .number = number,
          .time = now};
}

/// The other queue pair of its connection.
Qpn PartnerOf(Qpn qpn) { return Qpn(qpn.value() ^ 1); }

/// False: it is no RoCE packet.
bool Decode(std::span<const uint8_t> frame, wire::Packet& packet, bool& is_right) {
  wire::FrameView view;
  if (wire::Decode(frame, packet, view) != wire::DecodeResult::kOk) return false;
  is_right = wire::IcrcIsRight(frame, view);
  return true;
}

}  // namespace

KnownNetwork::KnownNetwork(uint32_t hosts, bool keeps_lines) : keeps_lines_(keeps_lines) {
  for (uint32_t i = 0; i < hosts; ++i) points_.push_back(std::make_unique<Point>());
}

void KnownNetwork::Capture(uint32_t host, std::span<const uint8_t> frame, Direction direction,
                           Nanos now) {
  Point& point = *points_[host];
  const FileFrame file_frame{.number = ++point.frames,
                             .time_ns = now.count() + 1,
                             .link_type = 1,
                             .direction = direction,
                             .wire_bytes = static_cast<uint32_t>(frame.size()),
                             .bytes = frame};
  CapturedPacket packet;
  point.reader.Read(file_frame, packet);
  packet.direction = direction;
  point.analysis.OnPacket(packet);
}

void KnownNetwork::Keep(uint32_t host, uint32_t peer, std::span<const uint8_t> frame,
                        const char* mark, Nanos now) {
  if (!keeps_lines_) return;
  wire::Packet packet;
  wire::FrameView view;
  if (wire::Decode(frame, packet, view) != wire::DecodeResult::kOk) return;
  const wire::TransportHeader& header = packet.header;
  Point& point = *points_[host];
  const bool has_aeth = wire::InfoOf(header.opcode).Has(Info::kAeth);
  point.lines.push_back(
      {now, peer, header.dest_qpn.value() / 2,
       absl::StrCat(point.frames, " ", now.count(), "ns ", mark, " ",
                    wire::OpcodeName(header.opcode), " psn ", header.psn.value(), " qp ",
                    header.dest_qpn.value(), " of ", packet.payload.size(),
                    has_aeth ? absl::StrCat(" syndrome ", header.aeth.syndrome) : "",
                    header.ack_request ? " A" : "")});
}

KnownNetwork::Flow& KnownNetwork::FlowOf(uint32_t from, uint32_t to, Qpn qpn, LostWhat what) {
  Flow& flow = flows_[{from, to, qpn.value(), what}];
  flow.from = from;
  flow.to = to;
  flow.dest_qpn = qpn;
  flow.what = what;
  return flow;
}

/// A READ may be sent again from a PSN of its answer on.
std::optional<size_t> KnownNetwork::PlaceOf(const Flow& flow, wire::Psn psn) {
  if (flow.what == LostWhat::kResponse) {
    const auto found = flow.places.find(psn.value());
    return found == flow.places.end() ? std::nullopt : std::optional(found->second);
  }
  const auto behind = std::ranges::upper_bound(
      flow.order, psn, [](wire::Psn a, wire::Psn b) { return a.Since(b) < 0; });
  if (behind == flow.order.begin()) return std::nullopt;
  return static_cast<size_t>(behind - flow.order.begin()) - 1;
}

bool KnownNetwork::NoteSent(Flow& flow, const wire::Packet& packet) {
  const wire::Psn psn = packet.header.psn;
  const bool is_request = flow.what == LostWhat::kRequest;
  const bool is_new = is_request ? flow.order.empty() || psn.Since(flow.order.back()) > 0
                                 : !flow.places.contains(psn.value());
  const wire::Reth& reth = packet.header.reth;
  const bool is_read = is_request && wire::InfoOf(packet.header.opcode).Has(Info::kRead);
  // The rest of the newest READ.
  const bool is_rest = is_new && is_read && reth.length_bytes < flow.read_bytes &&
                       reth.va + reth.length_bytes == flow.read_end;
  if (is_new && !is_rest) {
    flow.read_bytes = is_read ? reth.length_bytes : 0;
    flow.read_end = reth.va + reth.length_bytes;
    flow.newest_place = flow.order.size();
    flow.places[psn.value()] = flow.order.size();
    flow.order.push_back(psn);
    flow.has_arrived.push_back(false);
    flow.newest_arrival.push_back(0);
    return false;
  }
  if (!is_request) return true;
  const size_t place = PlaceOf(flow, psn).value_or(0);
  // A packet that is sent again before an older one without an answer asks for that answer.
  NoteResend(flow, packet, place <= flow.newest_place && place <= flow.answered);
  flow.newest_place = place;
  return true;
}

/// The number of the frame that last brought the PSN on its way.
uint64_t KnownNetwork::NewestOf(const Flow& flow, wire::Psn psn) {
  const auto found = flow.newest_sent.find(psn.value());
  return found == flow.newest_sent.end() ? 0 : found->second;
}

void KnownNetwork::NameRequest(const Flow& flow, wire::Psn psn) {
  for (KnownFault& fault : faults_) {
    const bool is_of_flow = fault.from == flow.from && fault.to == flow.to &&
                            fault.dest_qpn == flow.dest_qpn && fault.what == LostWhat::kRequest;
    const bool is_newest = fault.psn == psn && fault.number == NewestOf(flow, psn);
    if (is_of_flow && fault.kind == FindingKind::kLoss && is_newest) fault.is_named = true;
  }
}

/// The requester sends again: it did not get the answer to the first packet that it sends again.
void KnownNetwork::NoteResend(const Flow& flow, const wire::Packet& packet, bool is_first) {
  if (!is_first) return;
  const wire::Psn psn = packet.header.psn;
  const auto is_answer = [&](const KnownFault& fault) {
    return fault.from == flow.to && fault.to == flow.from &&
           fault.dest_qpn == PartnerOf(flow.dest_qpn);
  };
  const Flow& answers = FlowOf(flow.to, flow.from, PartnerOf(flow.dest_qpn), LostWhat::kResponse);
  const Info& info = wire::InfoOf(packet.header.opcode);
  if (!info.Has(Info::kRead) && !info.Has(Info::kAtomic)) {
    std::erase_if(lost_acks_, [&](size_t index) {
      KnownFault& fault = faults_[index];
      if (!is_answer(fault) || fault.psn.Since(psn) < 0) return false;
      fault.is_needed = true;
      return true;
    });
  }
  for (KnownFault& fault : faults_) {
    const bool is_lost_answer =
        fault.kind == FindingKind::kLoss && fault.what == LostWhat::kResponse;
    const bool is_newest = fault.psn == psn && fault.number == NewestOf(answers, psn);
    if (is_lost_answer && is_answer(fault) && is_newest) fault.is_named = true;
  }
  NameRequest(flow, psn);
  const std::optional<size_t> place = PlaceOf(answers, psn);
  const bool is_read = info.Has(Info::kRead) || info.Has(Info::kAtomic);
  if (is_read && place && answers.has_arrived[*place]) NoteNotKept(answers, psn);
}

void KnownNetwork::OnSent(uint64_t number, uint32_t from, uint32_t to,
                          std::span<const uint8_t> frame, sim::Fate fate, Nanos now) {
  Resolve(now);
  wire::Packet packet;
  bool is_right = false;
  const bool is_known = Decode(frame, packet, is_right);
  KnownFault fault = FaultOf(packet, from, to, number, now);
  if (is_known && !IsReliable(packet) && fate == sim::Fate::kSpoilt) {
    fault.kind = FindingKind::kMalformed;
    faults_.push_back(fault);
  }
  if (is_known && IsReliable(packet)) {
    const LostWhat what = WhatOf(packet);
    Flow& flow = FlowOf(from, to, packet.header.dest_qpn, what);
    fault.is_repeat = NoteSent(flow, packet);
    if (fault.is_repeat) flow.repeats.insert(number);
    flow.newest_sent[packet.header.psn.value()] = number;
    if (IsAcknowledge(packet)) NoteAnswer(from, to, packet);
    if (fate != sim::Fate::kIntact) {
      fault.kind = FindingKind::kLoss;
      fault.sent_frame = points_[from]->frames + 1;
      fault.is_needed = !IsAcknowledge(packet);
      faults_.push_back(fault);
      if (!IsAcknowledge(packet)) {
        missing_.push_back({now + sim::Network::kLatency, faults_.size() - 1});
        FlowOf(from, to, packet.header.dest_qpn, what).open.push_back(faults_.size() - 1);
      } else if (!IsNak(packet) && !wire::InfoOf(fault.opcode).Has(Info::kKeptMap)) {
        lost_acks_.push_back(faults_.size() - 1);
      }
    }
  }
  Capture(from, frame, Direction::kOutbound, now);
  Keep(from, to, frame, fate == sim::Fate::kIntact ? ">" : "> LOST", now);
  if (fate == sim::Fate::kLost) Keep(to, from, frame, "< LOST (not seen)", now);
}

/// The requester gets an answer.
void KnownNetwork::NoteAnswered(uint32_t from, uint32_t to, const wire::Packet& packet) {
  Flow& flow = FlowOf(to, from, PartnerOf(packet.header.dest_qpn), LostWhat::kRequest);
  const std::optional<size_t> place = PlaceOf(flow, packet.header.psn);
  if (!place) return;
  const Info& info = wire::InfoOf(packet.header.opcode);
  const bool is_behind = !IsNak(packet) && !info.Has(Info::kKeptMap) && info.Has(Info::kAeth);
  flow.answered = std::max(flow.answered, *place + (is_behind ? 1 : 0));
}

/// What a responder tells of the PSN that it waits for.
void KnownNetwork::NoteAnswer(uint32_t from, uint32_t to, const wire::Packet& packet) {
  Flow& flow = FlowOf(to, from, PartnerOf(packet.header.dest_qpn), LostWhat::kRequest);
  const std::optional<size_t> place = PlaceOf(flow, packet.header.psn);
  if (!place) return;
  if (wire::InfoOf(packet.header.opcode).Has(Info::kKeptMap)) NoteMap(flow, packet);
  if (!IsNak(packet)) return;
  NameRequest(flow, packet.header.psn);
  flow.expected = *place;
  if (flow.has_arrived[*place]) NoteNotKept(flow, packet.header.psn);
  const bool is_rnr =
      (packet.header.aeth.syndrome & wire::kSyndromeKindMask) == wire::kSyndromeRnrNak;
  if (is_rnr) DropBehind(flow, *place);
}

/// Packets that have arrived and that the map does not show: the responder had no room for them.
void KnownNetwork::NoteMap(Flow& flow, const wire::Packet& packet) {
  flow.keeps = true;
  wire::KeptMap map;
  if (!map.Parse(packet.payload)) return;
  for (uint32_t i = 0; i < map.packets(); ++i) {
    if ((map.Kept(i & ~63u) >> (i & 63) & 1) != 0) continue;
    const wire::Psn psn = packet.header.psn + i;
    NameRequest(flow, psn);
    const auto found = flow.places.find(psn.value());
    if (found == flow.places.end() || !flow.has_arrived[found->second]) continue;
    flow.has_arrived[found->second] = false;
    NoteNotKept(flow, psn);
  }
}

/// It has arrived, and its receiver asks for it again.
void KnownNetwork::NoteNotKept(const Flow& flow, wire::Psn psn) {
  faults_.push_back({.kind = FindingKind::kNotCaptured,
                     .what = flow.what,
                     .from = flow.from,
                     .to = flow.to,
                     .dest_qpn = flow.dest_qpn,
                     .psn = psn});
}

/// The responder was not ready for the packet: it drops those that were sent behind it, whether
/// they arrive or not.
void KnownNetwork::DropBehind(const Flow& flow, size_t place) {
  for (KnownFault& fault : faults_) {
    if (fault.kind != FindingKind::kLoss || fault.what != LostWhat::kRequest) continue;
    if (fault.from != flow.from || fault.to != flow.to) continue;
    if (fault.number < flow.newest_arrival[place]) continue;
    if (fault.dest_qpn != flow.dest_qpn) continue;
    const std::optional<size_t> of_fault = PlaceOf(flow, fault.psn);
    if (!of_fault || *of_fault <= place) continue;
    fault.is_needed = false;
  }
}

void KnownNetwork::NoteArrival(Flow& flow, const wire::Packet& packet, uint64_t number) {
  const std::optional<size_t> place = PlaceOf(flow, packet.header.psn);
  if (!place) return;
  flow.has_arrived[*place] = true;
  flow.newest_arrival[*place] = number;
  if (flow.what == LostWhat::kResponse) return;
  if (*place == flow.expected) ++flow.expected;
  while (flow.keeps && flow.expected < flow.order.size() && flow.has_arrived[flow.expected]) {
    ++flow.expected;
  }
}

bool KnownNetwork::IsNeeded(const KnownFault& fault) {
  const Flow& flow = FlowOf(fault.from, fault.to, fault.dest_qpn, fault.what);
  const size_t place = PlaceOf(flow, fault.psn).value_or(0);
  if (fault.what == LostWhat::kResponse || flow.keeps) return !flow.has_arrived[place];
  return place == flow.expected;
}

void KnownNetwork::Resolve(Nanos now) {
  std::erase_if(missing_, [&](const Missing& one) {
    if (one.time > now) return false;
    faults_[one.fault].is_needed = IsNeeded(faults_[one.fault]);
    return true;
  });
}

void KnownNetwork::OnArrived(uint64_t number, uint32_t from, uint32_t to,
                             std::span<const uint8_t> frame, Nanos now) {
  Resolve(now);
  Capture(to, frame, Direction::kInbound, now);
  Keep(to, from, frame, "<", now);
  const uint64_t at = points_[to]->frames;
  wire::Packet packet;
  bool is_right = false;
  const bool is_known = Decode(frame, packet, is_right);
  const auto damaged = std::ranges::find_if(
      faults_, [&](const KnownFault& fault) { return fault.number == number && fault.frame == 0; });
  if (damaged != faults_.end() && is_right) {
    damaged->kind = FindingKind::kMalformed;  // No damage that the ICRC covers: it was taken.
    damaged->frame = at;
  } else if (damaged != faults_.end()) {
    KnownFault error = *damaged;
    damaged->frame = at;
    error.kind = FindingKind::kIcrcError;
    error.frame = at;
    error.is_needed = is_known;  // Otherwise it is no RoCE packet any more, or one of another kind.
    faults_.push_back(error);
    return;
  }
  if (!is_known || !IsReliable(packet)) return;
  Flow& flow = FlowOf(from, to, packet.header.dest_qpn, WhatOf(packet));
  if (flow.what == LostWhat::kResponse) NoteAnswered(from, to, packet);
  KnownFault fault = FaultOf(packet, from, to, number, now);
  fault.frame = at;
  if (++flow.arrivals[number] > 1) {
    fault.kind = FindingKind::kDuplicate;
    faults_.push_back(fault);
  } else if (number < flow.newest && !IsAcknowledge(packet)) {
    fault.kind = FindingKind::kReordering;
    // A late packet that has come before looks like one that is sent again.
    const std::optional<size_t> place = PlaceOf(flow, packet.header.psn);
    fault.is_needed = place && !flow.has_arrived[*place];
    faults_.push_back(fault);
  }
  const bool is_repeat = flow.repeats.contains(number);
  if (!IsAcknowledge(packet)) {
    std::erase_if(flow.open, [&](size_t index) {
      KnownFault& lost = faults_[index];
      if (lost.number > number) return false;
      lost.leaves_gap = packet.header.psn.Since(lost.psn) > 0 && (!lost.is_repeat || is_repeat) &&
                        !flow.has_arrived[PlaceOf(flow, lost.psn).value_or(0)];
      return true;
    });
  }
  flow.newest = std::max(flow.newest, number);
  NoteArrival(flow, packet, number);
  if (IsAcknowledge(packet) && !IsNak(packet)) {
    std::erase_if(lost_acks_, [&](size_t index) {
      const KnownFault& lost = faults_[index];
      return lost.from == from && lost.to == to && lost.dest_qpn == packet.header.dest_qpn &&
             packet.header.psn.Since(lost.psn) >= 0;
    });
  }
}

void KnownNetwork::Finish() {
  Resolve(kNever);
  for (const auto& point : points_) point->analysis.Finish();
}

std::string KnownNetwork::Excerpt(uint32_t host, uint32_t peer, Qpn qpn, Nanos time,
                                  size_t around) const {
  std::vector<const Line*> lines;
  for (const Line& line : points_[host]->lines) {
    if (line.peer == peer && line.pair == qpn.value() / 2) lines.push_back(&line);
  }
  const auto at =
      static_cast<size_t>(std::ranges::lower_bound(lines, time, {}, &Line::time) - lines.begin());
  std::string text;
  for (size_t i = at - std::min(at, around); i < std::min(lines.size(), at + around); ++i) {
    absl::StrAppend(&text, "    ", lines[i]->text, "\n");
  }
  return text;
}

}  // namespace uroce::tools::analyze
