// SPDX-License-Identifier: Apache-2.0
// One requester of a connection as seen from one capture point: its requests on their way, and the
// answers on their way back.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "pipeline/wire/packet.h"
#include "tools/analyze/input/packet_reader.h"
#include "tools/analyze/story/amounts.h"
#include "tools/analyze/story/finding.h"
#include "tools/analyze/story/message_order.h"
#include "tools/analyze/story/packet_ring.h"
#include "tools/analyze/story/read_list.h"
#include "tools/analyze/story/recovery.h"

namespace uroce::tools::analyze {

enum class Operation : uint8_t { kSend, kWrite, kRead, kAtomic };
inline constexpr size_t kOperationCount = 4;
absl::string_view NameOf(Operation operation);

/// What is counted of one requester.
struct StreamAmounts {
  uint64_t requests = 0;  ///< Packets, those sent again too.
  uint64_t responses = 0;
  uint64_t request_bytes = 0;  ///< Payload, of first transmissions.
  uint64_t response_bytes = 0;
  uint64_t sequence_naks = 0;
  uint64_t rnr_naks = 0;
  uint64_t marked_requests = 0;
  uint64_t marked_responses = 0;
  uint64_t cnps = 0;  ///< To the requester.
  uint32_t most_in_flight = 0;
  uint32_t most_reads = 0;
  RoundTrip round_trip;
  uint8_t credit_code = wire::kCreditsUnlimited;  ///< The newest one.
  uint8_t least_credit_code = wire::kCreditsUnlimited;
  std::array<MessageAmount, kOperationCount> messages;
  Timeline timeline;
  uint64_t first_marked = 0;  ///< The frame.
  uint64_t first_cnp = 0;
  int64_t first_cnp_ns = 0;
};

/// Pure. Events come in the order of the capture.
class RequestStream {
 public:
  explicit RequestStream(FindingSink sink, bool is_reliable, size_t most_plot_points);

  /// `psn`: the first one that the requester will send, as its peer told it.
  void SetFirstPsn(wire::Psn psn);
  void SetMtu(uint32_t mtu_bytes) { mtu_bytes_ = mtu_bytes; }
  /// Round trips between the point and both ends, of all connections between the two.
  void SetRoundTrips(RoundTrip* to_responder, RoundTrip* to_requester) {
    to_responder_ = to_responder;
    recovery_.SetRoundTripToRequester(to_requester);
  }
  void SetMostReads(uint32_t reads) { allowed_reads_ = reads; }

  void OnRequest(const CapturedPacket& packet);
  void OnResponse(const CapturedPacket& packet);
  /// The answers that `other` has got, which were to this one: the two are one connection.
  void TakeAnswersOf(const RequestStream& other);
  void OnCnp(const CapturedPacket& packet);
  /// A packet with a wrong ICRC, which its receiver drops. `finding` says why.
  void OnDamaged(const CapturedPacket& packet, uint32_t finding);
  void Finish(int64_t end_ns);

  /// Whether the answer is one to what was sent lately.
  bool Expects(const wire::TransportHeader& answer);
  bool has_requests() const { return is_synced_; }
  uint32_t mtu_bytes() const { return mtu_bytes_; }
  wire::Psn first_psn() const { return first_; }
  const StreamAmounts& amounts() const { return amounts_; }
  const Recovery& recovery() const { return recovery_; }
  const Plot& plot() const { return plot_; }
  FindingSink& sink() { return recovery_.sink(); }

 private:
  /// PSNs that were not seen.
  struct Gap {
    wire::Psn first;
    uint32_t packets = 0;
    uint64_t frame = 0;  // The packet behind the gap.
    int64_t time_ns = 0;
    uint16_t identification = 0;
    uint32_t reordering = 0;  // The finding, if a packet of it came late.
    bool is_start = false;    // It was sent before the first packet that was seen.
    // Of a skip: the packet behind it, and whether the requester went on behind that one. Otherwise
    // that packet may be a late one of the round before.
    wire::Psn overtaker;
    bool is_sure = true;
  };
  struct OpenMessage {
    int64_t start_ns = 0;
    uint64_t bytes = 0;
  };
  /// A whole message that waits for its ACK.
  struct WaitingMessage {
    wire::Psn last;
    Operation operation{};
    int64_t start_ns = 0;
    int64_t last_sent_ns = 0;
  };
  /// An answer to a PSN that was not sent yet.
  struct EarlyAnswer {
    wire::Psn psn;
    uint64_t frame = 0;
    int64_t time_ns = 0;
    uint64_t requests = 0;  // So many request packets were seen before it.
    wire::Opcode opcode{};
  };

  void Fill(PacketMark& mark, const CapturedPacket& packet) const;
  static bool IsAnsweredByPackets(const wire::OpcodeInfo& info);
  static uint32_t PacketsOf(uint32_t bytes, uint32_t mtu);
  void Start(wire::Psn psn);
  void StartEarlier(wire::Psn psn);
  bool IsRestart(int32_t ahead) const;
  uint32_t SpanOf(const wire::TransportHeader& header);
  void SetNext(wire::Psn end);
  void ResolveSpan(wire::Psn psn);
  void NoteMtu(const CapturedPacket& packet);
  bool IsLate(const CapturedPacket& packet) const;
  bool TakeLate(const CapturedPacket& packet, const PacketMark& before);
  void TakeInTurn(const CapturedPacket& packet);
  void SetExpected(wire::Psn psn);
  void TakeNew(const CapturedPacket& packet);
  void TakeOld(const CapturedPacket& packet);
  void TakeInGap(const CapturedPacket& packet);
  void TakeReadAgain(const CapturedPacket& packet, OutstandingRead& read);
  void Resend(const CapturedPacket& packet, ResendFacts facts);
  void NoteRepeat(const CapturedPacket& packet);
  bool WasSeenSince(wire::Psn psn, int64_t time_ns);
  void Skip(const CapturedPacket& packet, const ResendFacts& facts, uint32_t packets);
  bool IsAlone(uint64_t frame) const;
  int64_t LeastResend(const PacketMark& mark) const;
  bool IsTooSoon(const CapturedPacket& packet, int64_t shown_ns) const;
  bool IsLate(const CapturedPacket& packet, uint16_t overtaker_id, int64_t overtaker_ns) const;
  /// `again`: the packet that is sent again now, and how many PSNs it has.
  void LoseSkipped(const Gap& skip, wire::Psn again = {}, uint32_t span = 1);
  bool WasSkipped(const CapturedPacket& packet);
  ResendFacts FactsOf(const CapturedPacket& packet);
  /// `asked_end`: behind the last answer that is asked for.
  ResendFacts FactsOf(const CapturedPacket& packet, const OutstandingRead& read,
                      wire::Psn asked_end);
  bool IsAnswerTo(const CapturedPacket& packet, const OutstandingRead& read, wire::Psn psn,
                  wire::Psn first);
  std::vector<wire::Psn> MissingAnswers(const CapturedPacket& packet, const OutstandingRead& read,
                                        wire::Psn psn, wire::Psn end);
  bool IsSoonAgain(const CapturedPacket& packet, const OutstandingRead& read) const;
  void AskAgain(const CapturedPacket& packet, const ResendFacts& facts, wire::Psn asked_end,
                OutstandingRead& read);
  PacketMark& Mark(const CapturedPacket& packet);
  void AddRead(const CapturedPacket& packet, uint32_t span);
  void OpenGap(wire::Psn from, const CapturedPacket& packet);
  Gap* GapOf(wire::Psn psn);
  void FillGap(wire::Psn psn);
  void LoseGap(const Gap& gap);
  void AddMessage(const CapturedPacket& packet, const wire::OpcodeInfo& info);
  void Keep(const CapturedPacket& packet);
  /// Of all connections between the two ends.
  const RoundTrip& round_trip() const {
    return to_responder_ != nullptr ? *to_responder_ : amounts_.round_trip;
  }
  void AddRoundTrip(int64_t passed_ns);
  int64_t LeastRepeat(const CapturedPacket& answer);
  void TakeAcknowledge(const CapturedPacket& packet);
  void TakeNak(const CapturedPacket& packet);
  void TakeReadResponse(const CapturedPacket& packet);
  void TakeInRound(const CapturedPacket& packet, OutstandingRead& read, PacketMark& mark);
  static bool BeginsTheRest(const CapturedPacket& packet, const OutstandingRead& read);
  bool IsOfEarlierRound(const CapturedPacket& packet, const OutstandingRead& read) const;
  bool IsTooSoonFor(int64_t time_ns, const OutstandingRead& read) const;
  void TakeInEarlierRound(const CapturedPacket& packet, OutstandingRead& read);
  bool IsRunBehind(const PacketMark& answer);
  bool IsLateAnswer(const CapturedPacket& packet, const OutstandingRead& read) const;
  void CheckReadResponse(const CapturedPacket& packet, const OutstandingRead& read);
  void Acknowledge(const CapturedPacket& packet, wire::Psn una);
  wire::Psn Reached(const CapturedPacket& packet, wire::Psn una);
  void CompleteMessages(const CapturedPacket& packet);
  void ResolveEarlyAnswer(bool at_end);
  void DropAcknowledgedGaps();
  void ReportDuplicate(const CapturedPacket& packet, uint64_t of_frame, LostWhat what);
  /// Several packets that one packet has overtaken are one finding, `known` from the second one on.
  /// Returns its id.
  uint32_t ReportReordering(const CapturedPacket& packet, uint64_t overtaker, uint32_t known,
                            LostWhat what);
  void NoteLate(const CapturedPacket& packet, uint32_t finding);
  void ReportViolation(const CapturedPacket& packet, const Violation& violation);
  std::string RateChange() const;
  void ReportCongestion(int64_t end_ns);
  void Draw(const CapturedPacket& packet, PlotKind kind, wire::Psn psn);
  uint32_t in_flight() const { return static_cast<uint32_t>(std::max(0, next_.Since(una_))); }

  static constexpr int64_t kLongAgo = -1'000'000'000;
  static constexpr int64_t kLateNs = 1'000'000;  // A packet that is later was sent again.
  static constexpr size_t kMostGaps = 32;
  static constexpr size_t kMostSkips = 16;
  static constexpr size_t kMostUnmatched = 16;
  static constexpr uint32_t kMostMarked = 4096;
  static constexpr size_t kMostWaiting = 4096;

  Recovery recovery_;
  RoundTrip* to_responder_ = nullptr;
  bool is_reliable_;
  bool is_synced_ = false;
  bool has_answers_ = false;
  bool was_refused_ = false;
  bool answers_pieces_ = false;  // The responder: READs that ask for some answers again.
  bool knows_first_ = false;     // The connection manager told `first_`.
  wire::Psn first_;
  PacketMark first_seen_;
  wire::Psn next_;
  wire::Psn una_;
  wire::Psn acknowledged_;  // As well, whether or not answers to READs before it are missing.
  wire::Psn asks_until_;    // Behind the newest request that asks for an answer.
  // What a responder that gets the requests as the point sees them waits for, as go-back-N has it,
  // and as `asks_until_`, of what it took.
  wire::Psn expected_;
  wire::Psn taken_until_;
  bool is_in_turn_ = false;  // The newest request: the responder waited for it, or had it.
  uint32_t unsure_packets_ =
      0;  // So many more PSNs may the newest READ have, whose MTU is unknown.
  uint32_t mtu_bytes_ = 0;
  uint32_t allowed_reads_ = 0;
  int64_t last_progress_ns_ = 0;
  PacketRing requests_;
  PacketRing responses_;
  ReadList reads_;
  MessageOrder order_;
  std::vector<Gap> gaps_;
  std::vector<Gap> skips_;   // As well, when they should have been sent again.
  std::optional<Gap> skip_;  // The packet that is sent again now was missed so.
  OpenMessage open_;
  std::deque<WaitingMessage> waiting_;
  std::optional<EarlyAnswer> early_;
  std::vector<CapturedPacket>
      unmatched_;  // The first answers, without payload: no request is seen.
  IdentificationOrder request_ids_;
  IdentificationOrder response_ids_;
  PacketMark last_ack_;
  int64_t last_trouble_ns_ = kLongAgo;  // When an answer last told of something missing.
  int64_t last_repeat_ns_ = kLongAgo;   // When a request last came again.
  int64_t last_resend_ns_ = kLongAgo;   // When it did, and was no copy.
  uint32_t repeats_ = 0;                // Since the last answers.
  PacketMark last_nak_;
  uint8_t last_syndrome_ = 0;    // Of it.
  uint64_t last_rnr_frame_ = 0;  // The newest RNR NAK.
  uint64_t last_request_ = 0;    // The frame, and its time.
  int64_t last_request_ns_ = 0;
  uint64_t late_frame_ = 0;  // The newest one that came late, as a finding says.
  uint64_t progress_frame_ = 0;
  wire::Psn progress_psn_;       // Of that answer.
  wire::Psn highest_answer_;     // Behind the last PSN that was answered, in any order.
  PacketMark highest_mark_;      // That answer.
  bool was_incomplete_ = false;  // Not all packets are in the capture.
  StreamAmounts amounts_;
  Plot plot_;
};

}  // namespace uroce::tools::analyze
