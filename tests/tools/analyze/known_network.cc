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
  const auto service = static_cast<uint8_t>(packet.header.opcode) >> 5;
  return service == 0 || service == 5;  // RC and XRC.
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
  if (!keeps_lines_) return;
  point.lines.push_back(absl::StrCat(
      point.frames, " ", now.count() / 1000, "us ", direction == Direction::kOutbound ? ">" : "<",
      " ", wire::OpcodeName(packet.packet.header.opcode), " psn ", packet.packet.header.psn.value(),
      " qp ", packet.packet.header.dest_qpn.value(), " syn ", packet.packet.header.aeth.syndrome,
      packet.icrc == IcrcState::kWrong ? " DAMAGED" : ""));
}

KnownNetwork::Flow& KnownNetwork::FlowOf(uint32_t from, uint32_t to, Qpn qpn, LostWhat what) {
  Flow& flow = flows_[{from, to, qpn.value(), what}];
  flow.from = from;
  flow.to = to;
  return flow;
}

void KnownNetwork::NoteSent(Flow& flow, const wire::Packet& packet) {
  const wire::Psn psn = packet.header.psn;
  if (flow.places.contains(psn.value())) {
    if (WhatOf(packet) == LostWhat::kRequest) NoteResend(flow.from, flow.to, psn);
    return;
  }
  flow.places[psn.value()] = flow.order.size();
  flow.order.push_back(psn);
  flow.has_arrived.push_back(false);
}

/// The requester sends again: an ACK that it did not get was needed.
void KnownNetwork::NoteResend(uint32_t from, uint32_t to, wire::Psn psn) {
  std::erase_if(lost_acks_, [&](size_t index) {
    KnownFault& fault = faults_[index];
    if (fault.from != to || fault.to != from || fault.psn.Since(psn) < 0) return false;
    fault.is_needed = true;
    return true;
  });
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
    NoteSent(FlowOf(from, to, packet.header.dest_qpn, what), packet);
    if (IsAcknowledge(packet)) NoteAnswer(from, to, packet);
    if (fate != sim::Fate::kIntact) {
      fault.kind = FindingKind::kLoss;
      fault.sent_frame = points_[from]->frames + 1;
      fault.is_needed = !IsAcknowledge(packet);
      faults_.push_back(fault);
      if (!IsAcknowledge(packet)) {
        missing_.push_back({now + sim::Network::kLatency, faults_.size() - 1});
        FlowOf(from, to, packet.header.dest_qpn, what).open.push_back(faults_.size() - 1);
      } else if (!IsNak(packet)) {
        lost_acks_.push_back(faults_.size() - 1);
      }
    }
  }
  Capture(from, frame, Direction::kOutbound, now);
}

/// What a responder tells of the PSN that it waits for.
void KnownNetwork::NoteAnswer(uint32_t from, uint32_t to, const wire::Packet& packet) {
  for (auto& [key, flow] : flows_) {
    if (flow.from != to || flow.to != from || std::get<3>(key) != LostWhat::kRequest) continue;
    const auto place = flow.places.find(packet.header.psn.value());
    if (place == flow.places.end()) continue;
    flow.keeps |= wire::InfoOf(packet.header.opcode).Has(Info::kKeptMap);
    if (IsNak(packet)) flow.expected = place->second;
  }
}

void KnownNetwork::NoteArrival(Flow& flow, const wire::Packet& packet) {
  const auto found = flow.places.find(packet.header.psn.value());
  if (found == flow.places.end()) return;
  flow.has_arrived[found->second] = true;
  if (WhatOf(packet) == LostWhat::kResponse) return;
  if (found->second == flow.expected) ++flow.expected;
  while (flow.keeps && flow.expected < flow.order.size() && flow.has_arrived[flow.expected]) {
    ++flow.expected;
  }
}

bool KnownNetwork::IsNeeded(const KnownFault& fault) {
  const Flow& flow = FlowOf(fault.from, fault.to, fault.dest_qpn, fault.what);
  const size_t place = flow.places.at(fault.psn.value());
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
  KnownFault fault = FaultOf(packet, from, to, number, now);
  fault.frame = at;
  if (++flow.arrivals[number] > 1) {
    fault.kind = FindingKind::kDuplicate;
    faults_.push_back(fault);
  } else if (number < flow.newest && !IsAcknowledge(packet)) {
    fault.kind = FindingKind::kReordering;
    faults_.push_back(fault);
  }
  if (!IsAcknowledge(packet)) {
    std::erase_if(flow.open, [&](size_t index) {
      KnownFault& lost = faults_[index];
      if (lost.number > number) return false;
      lost.leaves_gap = packet.header.psn.Since(lost.psn) > 0 &&
                        !flow.has_arrived[flow.places.at(lost.psn.value())];
      return true;
    });
  }
  flow.newest = std::max(flow.newest, number);
  NoteArrival(flow, packet);
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

std::string KnownNetwork::Excerpt(uint32_t host, uint64_t frame, size_t around) const {
  const std::vector<std::string>& lines = points_[host]->lines;
  std::string text;
  const size_t begin = frame > around ? frame - around : 0;
  for (size_t i = begin; i < std::min<size_t>(lines.size(), frame + around); ++i) {
    absl::StrAppend(&text, "    ", lines[i], "\n");
  }
  return text;
}

}  // namespace uroce::tools::analyze
