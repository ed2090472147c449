// SPDX-License-Identifier: Apache-2.0
// What a simulated network did, as a capture at each of its hosts could show it, and the analysis
// of these captures.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "pipeline/wire/packet.h"
#include "tests/sim/network.h"
#include "tools/analyze/input/packet_reader.h"
#include "tools/analyze/story/analysis.h"

namespace uroce::tools::analyze {

/// One thing that the network did to a packet of a reliable connection.
struct KnownFault {
  FindingKind kind{};  ///< kNotCaptured: its receiver did not keep it.
  LostWhat what{};
  uint32_t from = 0;
  uint32_t to = 0;
  Qpn dest_qpn;
  wire::Psn psn;
  wire::Opcode opcode{};
  uint64_t number = 0;  ///< Of the frame, in the order in which frames leave.
  Nanos time;
  uint64_t sent_frame = 0;  ///< In the capture of the host that sent it, from 1.
  uint64_t frame = 0;  ///< In the capture of the host that it arrived at, from 1; 0: it did not.
  /// The receiver of a lost packet was to take it: something had to be sent again for it. The
  /// others leave no trace: packets behind another gap, repeated ones, ACKs that later ones cover.
  bool is_needed = true;
  /// The next packet of its flow to arrive was a later one: its receiver's capture shows a gap.
  bool leaves_gap = false;
  bool is_repeat = false;  ///< It was sent before.
  /// The requester sent the packet again first of all, or asked again for the lost answer and for
  /// none before it, or the responder told that it missed it. Behind such a packet, what go-back-N
  /// sends again may have been lost or not.
  bool is_named = false;
  bool is_found = false;
};

/// Watches a network and feeds an analysis for each host.
class KnownNetwork final : public sim::Witness {
 public:
  /// `keeps_lines`: for Excerpt.
  KnownNetwork(uint32_t hosts, bool keeps_lines);

  void OnSent(uint64_t number, uint32_t from, uint32_t to, std::span<const uint8_t> frame,
              sim::Fate fate, Nanos now) override;
  void OnArrived(uint64_t number, uint32_t from, uint32_t to, std::span<const uint8_t> frame,
                 Nanos now) override;
  /// Ends the captures.
  void Finish();

  uint32_t hosts() const { return static_cast<uint32_t>(points_.size()); }
  const Analysis& analysis(uint32_t host) const { return points_[host]->analysis; }
  std::vector<KnownFault>& faults() { return faults_; }
  /// The frames of one connection in a host's capture around a time, a line each, and the frames
  /// that did not reach the host.
  std::string Excerpt(uint32_t host, uint32_t peer, Qpn qpn, Nanos time, size_t around) const;

 private:
  struct Line {
    Nanos time;
    uint32_t peer = 0;
    uint32_t pair = 0;  // The queue pairs of one connection have numbers of one pair.
    std::string text;
  };
  struct Point {
    Analysis analysis{AnalysisOptions{}};
    PacketReader reader;
    uint64_t frames = 0;
    std::vector<Line> lines;  // If they are asked for.
  };
  /// Packets of one direction to one queue pair: requests, or answers.
  struct Flow {
    uint32_t from = 0;
    uint32_t to = 0;
    Qpn dest_qpn;
    LostWhat what{};
    std::vector<wire::Psn> order;       // Of first transmissions.
    std::map<uint32_t, size_t> places;  // In `order`, by PSN.
    std::vector<bool> has_arrived;
    std::vector<uint64_t> newest_arrival;      // The number of the frame.
    std::map<uint32_t, uint64_t> newest_sent;  // As well, by PSN.
    size_t answered = 0;                       // The place of the oldest packet without an answer.
    size_t newest_place = 0;                   // Of the packet that was sent last.
    uint64_t read_end = 0;  // The address behind the newest READ, and its length.
    uint32_t read_bytes = 0;
    size_t expected = 0;                    // The place of the PSN that the receiver waits for.
    bool keeps = false;                     // The receiver keeps what arrives behind a gap.
    std::set<uint64_t> repeats;             // The numbers of frames whose packets were sent before.
    std::map<uint64_t, uint32_t> arrivals;  // Of each frame by number.
    std::vector<size_t> open;               // Lost packets that nothing has arrived behind.
    uint64_t newest = 0;                    // The frame sent last of those that have arrived.
  };
  /// A frame that did not reach its receiver, until the time when it would have.
  struct Missing {
    Nanos time;
    size_t fault = 0;
  };
  using FlowKey = std::tuple<uint32_t, uint32_t, uint32_t, LostWhat>;

  void Capture(uint32_t host, std::span<const uint8_t> frame, Direction direction, Nanos now);
  void Keep(uint32_t host, uint32_t peer, std::span<const uint8_t> frame, const char* mark,
            Nanos now);
  Flow& FlowOf(uint32_t from, uint32_t to, Qpn qpn, LostWhat what);
  /// True: it is sent again.
  bool NoteSent(Flow& flow, const wire::Packet& packet);
  static uint64_t NewestOf(const Flow& flow, wire::Psn psn);
  void NameRequest(const Flow& flow, wire::Psn psn);
  void NoteAnswered(uint32_t from, uint32_t to, const wire::Packet& packet);
  void NoteAnswer(uint32_t from, uint32_t to, const wire::Packet& packet);
  static std::optional<size_t> PlaceOf(const Flow& flow, wire::Psn psn);
  void NoteNotKept(const Flow& flow, wire::Psn psn);
  void NoteMap(Flow& flow, const wire::Packet& packet);
  void DropBehind(const Flow& flow, size_t place);
  void NoteResend(const Flow& flow, const wire::Packet& packet, bool is_first);
  void NoteArrival(Flow& flow, const wire::Packet& packet, uint64_t number);
  void Resolve(Nanos now);
  bool IsNeeded(const KnownFault& fault);

  bool keeps_lines_;
  std::vector<std::unique_ptr<Point>> points_;
  std::vector<KnownFault> faults_;
  std::map<FlowKey, Flow> flows_;
  std::vector<Missing> missing_;
  std::vector<size_t> lost_acks_;  // Faults whose consequences are not known yet.
};

}  // namespace uroce::tools::analyze
