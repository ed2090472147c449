// SPDX-License-Identifier: Apache-2.0
// Writes a capture packet by packet, at stated times, and analyzes it.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "pipeline/wire/packet.h"
#include "tests/wire/reencode.h"
#include "tools/analyze/input/packet_reader.h"
#include "tools/analyze/story/analysis.h"

namespace uroce::tools::analyze {

inline Gid ScriptAddress(uint8_t host) {
  Gid gid;
  gid.bytes[10] = gid.bytes[11] = 0xff;
  gid.bytes[12] = 10;
  gid.bytes[15] = host;
  return gid;
}

/// A connection of requester 10.0.0.1, queue pair 0x11, and responder 10.0.0.2, queue pair 0x22,
/// with a path MTU of 1024. Frames are numbered from 1; times are microseconds.
class StoryScript {
 public:
  static constexpr uint32_t kMtu = 1024;

  StoryScript() : analysis_(AnalysisOptions{}) {}
  /// Begins with messages that are answered 20 us later: identifications and round trips are known
  /// after them. Each has two frames and one PSN, from 1 on.
  explicit StoryScript(uint32_t messages, bool has_identifications = true) : StoryScript() {
    has_identifications_ = has_identifications;
    for (uint32_t psn = 1; psn <= messages; ++psn) {
      At(psn * 40).Send(psn).At(psn * 40 + 20).Ack(psn);
    }
  }
  StoryScript(const StoryScript&) = delete;
  StoryScript& operator=(const StoryScript&) = delete;

  /// The time of the frames that follow.
  StoryScript& At(int64_t micros) {
    time_ns_ = micros * 1000;
    return *this;
  }
  /// The identification of the next frame; otherwise each sender counts.
  StoryScript& WithIdentification(uint16_t identification) {
    identification_ = identification;
    has_identification_ = true;
    return *this;
  }
  /// The frames that follow are marked, or not.
  StoryScript& Marked(bool is_marked) {
    traffic_class_ = is_marked ? 3 : 2;
    return *this;
  }
  /// The frames that follow are of the first connection, 0, or of another one between the two.
  StoryScript& OnConnection(uint32_t connection) {
    connection_ = connection;
    return *this;
  }
  StoryScript& AtPoint(uint32_t point) {
    point_ = point;
    return *this;
  }
  StoryScript& Request(wire::Opcode opcode, uint32_t psn, uint32_t payload_bytes,
                       uint32_t message_bytes = 0) {
    wire::TransportHeader header;
    header.opcode = opcode;
    header.psn = wire::Psn(psn);
    header.reth = {.va = 0x1000, .rkey = Rkey(7), .length_bytes = message_bytes};
    const wire::OpcodeInfo& info = wire::InfoOf(opcode);
    header.ack_request = info.Has(wire::OpcodeInfo::kLast);
    Put(1, 2, 0x22, header, payload_bytes);
    return *this;
  }
  StoryScript& Send(uint32_t psn) { return Request(wire::Opcode::kSendOnly, psn, 64); }
  /// A WRITE of whole packets.
  StoryScript& WriteFirst(uint32_t psn, uint32_t packets) {
    return Request(wire::Opcode::kWriteFirst, psn, kMtu, packets * kMtu);
  }
  StoryScript& WriteMiddle(uint32_t psn) { return Request(wire::Opcode::kWriteMiddle, psn, kMtu); }
  StoryScript& WriteLast(uint32_t psn) { return Request(wire::Opcode::kWriteLast, psn, kMtu); }
  StoryScript& Read(uint32_t psn, uint32_t packets) {
    return Request(wire::Opcode::kReadRequest, psn, 0, packets * kMtu);
  }
  StoryScript& Response(wire::Opcode opcode, uint32_t psn, uint32_t payload_bytes,
                        uint8_t syndrome = 0x1f) {
    wire::TransportHeader header;
    header.opcode = opcode;
    header.psn = wire::Psn(psn);
    header.aeth.syndrome = syndrome;
    Put(2, 1, 0x11, header, payload_bytes);
    return *this;
  }
  StoryScript& Ack(uint32_t psn) { return Response(wire::Opcode::kAcknowledge, psn, 0); }
  StoryScript& Nak(uint32_t psn, uint8_t syndrome = wire::kNakSequence) {
    return Response(wire::Opcode::kAcknowledge, psn, 0, syndrome);
  }
  StoryScript& Cnp() {
    wire::TransportHeader header;
    header.opcode = wire::Opcode::kCnp;
    Put(2, 1, 0x11, header, 16);
    return *this;
  }
  /// The last frame comes once more: the same bytes.
  StoryScript& Again() {
    Deliver();
    return *this;
  }
  /// As Again, but `bits` of the byte at `offset` are changed, from the end if negative.
  StoryScript& Damaged(int offset, uint8_t bits) {
    const size_t at = offset < 0 ? frame_.size() + static_cast<size_t>(offset) : offset;
    frame_[at] ^= bits;
    Deliver();
    frame_[at] ^= bits;
    return *this;
  }
  /// The next frame is not captured.
  StoryScript& Unseen() {
    is_unseen_ = true;
    return *this;
  }
  /// The next frame has only so many bytes in the capture.
  StoryScript& Cut(uint32_t bytes) {
    cut_bytes_ = bytes;
    return *this;
  }
  /// Ends the capture.
  const Analysis& Finish() {
    analysis_.Finish();
    return analysis_;
  }

 private:
  void Put(uint8_t from, uint8_t to, uint32_t qpn, const wire::TransportHeader& header,
           uint32_t payload_bytes) {
    wire::HeaderTemplateConfig config;
    config.source = ScriptAddress(from);
    config.destination = ScriptAddress(to);
    config.dest_qpn = Qpn(qpn + connection_);
    config.traffic_class = traffic_class_;
    config.udp_source_port =
        wire::UdpSourcePort(0, Qpn(0x11 + connection_), Qpn(0x22 + connection_));
    const std::vector<uint8_t> payload(payload_bytes, 0);
    uint16_t identification = has_identifications_ ? ++identifications_[from] : 0;
    if (has_identification_) identification = identification_;
    has_identification_ = false;
    frame_ = wire::EncodeFrame(config, header, payload, identification);
    Deliver();
  }
  void Deliver() {
    const uint32_t held = std::exchange(cut_bytes_, 0);
    if (std::exchange(is_unseen_, false)) return;
    const std::span<const uint8_t> bytes(frame_);
    FileFrame frame{.number = ++number_,
                    .time_ns = time_ns_,
                    .link_type = 1,
                    .wire_bytes = static_cast<uint32_t>(frame_.size()),
                    .bytes = held == 0 ? bytes : bytes.first(held)};
    CapturedPacket packet;
    reader_.Read(frame, packet);
    packet.point = point_;
    analysis_.OnPacket(packet);
    time_ns_ += 1000;
  }

  Analysis analysis_;
  PacketReader reader_;
  std::vector<uint8_t> frame_;
  uint64_t number_ = 0;
  int64_t time_ns_ = 0;
  uint32_t point_ = 0;
  uint32_t connection_ = 0;
  uint8_t traffic_class_ = 2;
  uint16_t identifications_[3] = {0, 100, 5000};
  uint16_t identification_ = 0;
  bool has_identification_ = false;  // Of the next frame.
  bool has_identifications_ = true;
  bool is_unseen_ = false;
  uint32_t cut_bytes_ = 0;
};

/// "loss psn=5 frame=3 side=responder", one for each finding in order of time and kind.
inline std::vector<std::string> Brief(const Analysis& analysis) {
  constexpr const char* kSides[] = {"", " side=requester", " side=responder", " side=between"};
  constexpr const char* kWhats[] = {"", " request", " response"};
  std::vector<std::string> lines;
  for (const Finding& finding : analysis.log().Sorted()) {
    std::string line(InfoOf(finding.kind).name);
    line += kWhats[static_cast<size_t>(finding.what)];
    line += " psn=" + std::to_string(finding.psn);
    line += " frame=" + std::to_string(finding.frames[0]);
    line += kSides[static_cast<size_t>(finding.side)];
    if (finding.count != 1) line += " count=" + std::to_string(finding.count);
    lines.push_back(line);
  }
  return lines;
}

/// The first finding of a kind.
inline Finding FirstOf(const Analysis& analysis, FindingKind kind) {
  for (const Finding& finding : analysis.log().Sorted()) {
    if (finding.kind == kind) return finding;
  }
  ADD_FAILURE() << "there is no " << std::string(InfoOf(kind).name);
  return {};
}

}  // namespace uroce::tools::analyze
