// SPDX-License-Identifier: Apache-2.0
// How one requester repairs losses, as seen from a capture point: what made it send again, what was
// lost and where, and how much was sent again for it (docs/protocol/transport.md, sections 3.2 to
// 3.4; docs/protocol/congestion.md, section 10.1).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pipeline/wire/packet.h"
#include "tools/analyze/input/packet_reader.h"
#include "tools/analyze/story/finding.h"
#include "tools/analyze/story/packet_ring.h"

namespace uroce::tools::analyze {

/// Where the findings of one requester go, with what all of them have in common.
class FindingSink {
 public:
  FindingSink(FindingLog& log, uint32_t connection, uint32_t point, uint8_t requester)
      : log_(&log), connection_(connection), point_(point), requester_(requester) {}

  Finding Make(FindingKind kind, int64_t time_ns, wire::Psn psn) const;
  uint32_t Add(Finding finding) { return log_->Add(std::move(finding)); }
  Finding* FindNew(uint32_t id) { return log_->FindNew(id); }
  void Rename(uint32_t connection, uint8_t requester);

 private:
  FindingLog* log_;
  uint32_t connection_;
  uint32_t point_;
  uint8_t requester_;
};

/// The shortest time from a packet that was sent once to its acknowledgement, as the point saw it.
struct RoundTrip {
  int64_t least_ns = 0;  ///< 0: not known.
  uint32_t samples = 0;

  void Add(int64_t passed_ns) {
    if (passed_ns < 0) return;
    if (samples++ == 0 || passed_ns < least_ns) least_ns = std::max<int64_t>(1, passed_ns);
  }
  /// An answer cannot come so soon behind what it answers.
  bool IsTooSoon(int64_t passed_ns) const {
    if (samples >= kMany) return passed_ns < least_ns * 31 / 32;
    return passed_ns < (is_sure() ? least_ns * 28 / 32 : least_ns * 5 / 8);
  }
  bool is_sure() const { return samples >= 4; }
  static constexpr uint32_t kMany = 32;
};

/// What the stream knows of a request that is sent again.
struct ResendFacts {
  wire::Psn psn;
  uint32_t payload_bytes = 0;
  wire::Opcode opcode{};
  std::optional<PacketMark> original;  ///< Nothing: it was not seen before, so a gap was there.
  bool is_read = false;                ///< READs and atomics, whose answers are packets.
  std::optional<PacketMark> response;  ///< The answer from this PSN on, if it was seen.
  bool later_response = false;         ///< An answer behind the one that is asked for was seen.
  bool was_asked_again = false;        ///< It had been sent more than once.
  bool is_passed_over = false;         ///< A later answer was seen, and not the one asked for.
  bool is_piece = false;               ///< It asks for some answers, and for none behind them.
  bool was_ignored = false;      ///< It had asked for a piece, which not all responders answer.
  bool is_hasty = false;         ///< Sooner than the answer to the last time could come.
  uint64_t ack_frame = 0;        ///< The ACK that was seen for it; 0: none.
  wire::Psn ack_psn;             ///< The PSN of that ACK.
  int64_t last_event_ns = 0;     ///< The last progress, or when it was last sent.
  wire::Psn end;                 ///< Behind its PSNs.
  wire::Psn next;                ///< Behind the last PSN that was sent.
  uint32_t gap = 0;              ///< Packets from this one on that were not seen.
  uint32_t gap_span = 0;         ///< They are among so many.
  bool is_last = false;          ///< No later packet was sent yet.
  bool hears_responses = false;  ///< The point sees responses of this stream.
  bool is_oldest = true;         ///< All before it has been answered.
  bool waits = true;             ///< A packet that was seen asks for an answer, and has none yet.
  bool is_useless = false;       ///< As well, but the responder dropped it: it came out of turn.
  bool is_before_start = false;  ///< It was first sent before the first packet seen.
  bool knows_order = false;      ///< Identifications tell late packets from repeated ones.
  uint64_t skipped_by = 0;  ///< The frame before which it should have been sent again; 0: none.
  int64_t skipped_ns = 0;   ///< The time of that frame.
};

/// Requesters time out later; sooner, a NAK was there that was not captured.
inline constexpr int64_t kLeastTimeoutNs = 100'000;
/// Nor do they ask sooner whether the last packet has arrived.
inline constexpr int64_t kLeastProbeNs = 2'000;

class Recovery {
 public:
  explicit Recovery(FindingSink sink) : sink_(sink) {}

  /// The round trip from the point to the requester, as other requests and repairs show it.
  void SetRoundTripToRequester(RoundTrip* round_trip) { to_requester_ = round_trip; }

  void OnSequenceNak(const CapturedPacket& nak, const PacketMark* original);
  /// `timer_ns`: what the NAK tells the requester to wait.
  void OnRnrNak(const CapturedPacket& nak, int64_t timer_ns);
  /// Its map says which packets the responder misses, and which it has.
  void OnSelectiveAck(const CapturedPacket& ack);
  void OnResend(const CapturedPacket& packet, const ResendFacts& facts);
  /// The packet came late, as `finding` says.
  void OnLateRequest(const CapturedPacket& packet, uint32_t finding);
  /// The requester may send the packet again now: it was asked to, or sends all from before it on.
  bool MayBeRepair(wire::Psn psn) const {
    return IsMissed(psn) || IsNext(psn) || (nak_ && psn.Since(nak_->psn) > 0);
  }
  /// It is the very packet that the requester sends again next.
  bool IsInTurn(wire::Psn psn, int64_t now_ns) const {
    return IsNext(psn) && psn == episode_->last_end && now_ns - episode_->last_ns < kLeastTimeoutNs;
  }
  /// What came since then belongs to the round of repeated packets that comes now.
  int64_t RoundBegin(int64_t now_ns) const;
  /// The packet that seemed to be sent again was late, and this one may be sent again.
  bool MayBeSecond(const CapturedPacket& packet) const;
  /// How many PSNs before `psn`, which is sent again, should have been sent again before it.
  uint32_t SkippedBy(wire::Psn psn, int64_t time_ns, wire::Psn acknowledged) const;
  /// New data was sent: what was to be sent again has been.
  void OnNewRequest();
  /// All before `una` is acknowledged.
  void OnProgress(const CapturedPacket& response, wire::Psn una, const RoundTrip& round_trip);
  /// An ACK of what was acknowledged before: the responder got a packet again that it had.
  void OnRepeatedAck(wire::Psn psn);
  /// The request came late, as a finding says, and had been sent again.
  void OnLateOriginal(wire::Psn psn);
  /// An answer that was asked for again had been on its way. False: it was not held for lost.
  bool OnLateAnswer(wire::Psn psn);
  /// The answer did not come, so far.
  bool HoldsForLost(wire::Psn answer) const;
  /// Answers from `psn` on were not seen, which had been asked for again when a later one came.
  void OnMissingAnswers(wire::Psn psn, uint32_t packets);
  /// An answer with a wrong ICRC.
  void OnDamagedResponse(wire::Psn psn, uint32_t finding);
  /// The stream or the capture ends. `next`: behind the last PSN that was sent.
  void Finish(wire::Psn una, wire::Psn next, int64_t end_ns);

  /// Whether packets from `psn` on are to be sent again, or are being sent again.
  bool IsRepairing(wire::Psn psn) const {
    if (nak_ && nak_->psn == psn) return true;
    return episode_ && psn.Since(episode_->start) >= 0 && psn.Since(episode_->until) < 0;
  }
  /// The requester cannot send again so soon behind a NAK.
  bool IsTooSoonToRepair(int64_t passed_ns) const {
    if (to_requester_ != nullptr && to_requester_->samples != 0) {
      return to_requester_->IsTooSoon(passed_ns);
    }
    return passed_ns < kLeastProbeNs;
  }
  /// When the responder first told that it misses `psn`; 0: it did not.
  int64_t RefusalOf(wire::Psn psn) const {
    const auto found = std::ranges::find(missed_, psn, &Missed::psn);
    return found != missed_.end() ? found->time_ns : 0;
  }
  /// The responder has answered by an RNR NAK.
  bool waits_for_receiver() const {
    return rnr_.has_value() || (episode_ && episode_->trigger == Trigger::kRnr);
  }
  uint64_t resent_packets() const { return resent_packets_; }
  uint64_t resent_bytes() const { return resent_bytes_; }
  FindingSink& sink() { return sink_; }

 private:
  // kProbe: the last packet was sent again sooner than a timeout.
  enum class Trigger : uint8_t { kNak, kRnr, kSelective, kImplied, kTimeout, kProbe, kUnknown };
  struct Nak {
    wire::Psn psn;
    uint64_t frame = 0;
    int64_t time_ns = 0;
    std::optional<PacketMark> original;
    bool was_resent = false;   // When the NAK passed the point, the packet had been sent again.
    bool was_dropped = false;  // The packet came in its turn, and the responder waited for another.
    bool is_stale = false;     // A packet that was sent before has drawn it, and came late.
    uint32_t cause = 0;        // The finding that the packet was late.
  };
  struct Rnr {
    wire::Psn psn;
    uint64_t first_frame = 0;
    uint64_t last_frame = 0;
    int64_t first_ns = 0;
    int64_t before_ns = 0;  // Of the NAK before the last one.
    int64_t last_ns = 0;
    int64_t timer_ns = 0;
    uint32_t naks = 0;
    uint32_t resends = 0;
    int64_t resent_ns = 0;  // The last time.
    uint32_t early = 0;     // Resends before the time that the NAK names.
  };
  /// The packets that were sent again behind an RNR NAK, until one behind the first is
  /// acknowledged.
  struct RnrRound {
    wire::Psn psn;
    wire::Psn end;  // Behind the PSNs of the first packet.
    uint64_t frame = 0;
    int64_t time_ns = 0;
  };
  struct Missed {
    wire::Psn psn;
    int64_t time_ns = 0;
  };
  struct Lost {
    wire::Psn psn;
    uint64_t frame = 0;   // 0: it was not seen.
    int64_t time_ns = 0;  // 0: it was not seen.
    LostWhat what = LostWhat::kNone;
    LostSide side = LostSide::kUnknown;
    wire::Opcode opcode{};
    uint32_t cause = 0;  // A finding that explains it.
    uint32_t packets = 1;
    uint32_t among = 0;  // It is one of so many PSNs, from `psn` on.
    bool may_be_late = false;
    bool was_dropped = false;  // It came in its turn, and the responder waited for another.
    uint64_t skipped_by = 0;   // It was sent again before this frame and did not come; 0: not so.
    int64_t resent_ns = 0;
    uint64_t resent_frame = 0;
    bool was_in_run = false;  // It was sent again right behind the packet before it.
    int64_t arrived_ns = 0;   // When the responder first told that it has the packet; 0: never.
  };
  struct Episode {
    Trigger trigger = Trigger::kUnknown;
    wire::Psn start;
    wire::Psn last;
    wire::Psn last_end;  // Behind its PSNs.
    wire::Psn until;     // Behind the last PSN that was sent when it began.
    uint64_t first_frame = 0;
    int64_t start_ns = 0;
    int64_t last_ns = 0;
    int64_t waited_ns = 0;
    uint32_t resent = 0;
    uint64_t bytes = 0;
    std::optional<Nak> nak;
    std::vector<Lost> lost;
    std::vector<Lost> originals;            // The first transmissions of the first packets.
    std::optional<wire::Psn> repeated_ack;  // The last PSN that the responder had all the time.
    bool hears_responses = true;
    bool waits = true;
    // Behind an RNR NAK a late packet draws no NAK: what was sent then, from this packet on.
    std::optional<RnrRound> rnr_round;
    bool is_useless = false;  // What was sent came to the responder out of turn.
    bool is_oldest = true;
    bool is_in_run = false;    // Its first packet came right behind the one before it.
    uint32_t attempt = 1;      // 2: the same packet was sent again before, without progress.
    bool is_answered = false;  // There was progress.
    bool was_late = false;     // The answer came too soon to be one to the resent packet.
    bool was_ack = false;      // The answer acknowledges more than was sent again.
    bool took_next = false;    // It acknowledges what was sent behind the first packet.
    wire::Psn start_end;       // Behind the PSNs of the first packet.
  };

  bool Continues(const ResendFacts& facts) const;
  /// So long behind a NAK the requester sent again.
  void AddReaction(int64_t passed_ns) {
    if (to_requester_ != nullptr) to_requester_->Add(passed_ns);
  }
  void Begin(const CapturedPacket& packet, const ResendFacts& facts, bool is_second);
  Trigger TriggerOf(const ResendFacts& facts, int64_t waited_ns, int64_t now_ns) const;
  bool IsAfterRnr(int64_t now_ns) const;
  Lost LostOf(const ResendFacts& facts, bool is_missed) const;
  bool IsLost(const ResendFacts& facts, bool is_first, bool is_missed) const;
  /// The responder has the packets from `first` on, before `end`.
  void OnArrived(wire::Psn first, wire::Psn end, int64_t time_ns);
  void NoteMissed(wire::Psn psn, int64_t time_ns);
  bool IsMissed(wire::Psn psn) const { return RefusalOf(psn) != 0; }
  bool IsNext(wire::Psn psn) const {
    return episode_ && psn.Since(episode_->last_end) >= 0 && psn.Since(episode_->until) < 0;
  }
  bool WasRefused(wire::Psn psn, int64_t now_ns) const;
  bool TakeMissed(wire::Psn psn);
  bool MayBeOfRoundBefore(wire::Psn psn, int64_t now_ns) const;
  bool TakeLateRefused(const CapturedPacket& packet, const ResendFacts& facts);
  static bool IsOlderOf(const Lost& lost, const CapturedPacket& packet);
  static bool IsFirstOf(const Lost& lost, const CapturedPacket& packet);
  bool WasLate(const Lost& lost) const;
  /// True: what seemed to be sent again was the first transmission, and now it was sent again.
  bool OnSecond(const CapturedPacket& packet, const ResendFacts& facts);
  bool MayStartRoundAt(wire::Psn psn, int64_t now_ns) const;
  /// True: the packet came alone behind its repeated one, and its sender had no reason to send it.
  bool TakeLateSecond(const CapturedPacket& packet, const ResendFacts& facts);
  void OnSkipped(const CapturedPacket& packet, const ResendFacts& facts, bool is_in_run);
  /// The requester had sent nothing again: the first packet of the episode came late, and so did
  /// the others.
  void ReportLateIn(Episode& episode);
  void ReportLateRepeat(const Lost& lost);
  uint32_t ReportLate(const Lost& lost, int64_t time_ns);
  /// The first transmission, which seemed to be a repeated one, was late.
  uint32_t ReportSentAgain(const CapturedPacket& packet, const ResendFacts& facts);
  bool IsInRun(wire::Psn psn, int64_t now_ns) const;
  bool IsUnderWay(wire::Psn psn, int64_t now_ns) const;
  /// Repeated ACKs may still come: the episode is reported when others follow.
  void Close();
  bool Resumes(const ResendFacts& facts, int64_t time_ns) const;
  void Settle();
  std::vector<Lost> LostIn(const Episode& episode) const;
  static std::vector<Lost> Joined(const std::vector<Lost>& lost);
  uint32_t ReportLost(const Episode& episode, uint64_t& count);
  void ReportResent(const Episode& episode, uint32_t cause, uint64_t lost);
  uint32_t ReportTrigger(const Episode& episode, uint32_t cause);
  /// The NAK was not about what was sent again. Returns what caused it.
  uint32_t ReportNakAlone(const Nak& nak);
  void ReportRnr(bool exhausted);
  std::string LostText(const Lost& lost) const;

  static constexpr size_t kMostLost = 256;  // Of one episode.
  static constexpr size_t kMostOriginals = 64;

  FindingSink sink_;
  std::optional<Nak> nak_;
  std::array<Missed, 4> naks_;  // The newest ones.
  size_t next_nak_ = 0;
  std::optional<Rnr> rnr_;
  std::optional<RnrRound> rnr_round_;
  std::optional<Episode> episode_;
  std::optional<Episode> settling_;  // The one before, closed and not yet reported.
  bool may_resume_ = false;          // Nothing new was sent since it was closed.
  uint64_t selective_frame_ = 0;     // The newest selective acknowledgement.
  wire::Psn selective_psn_;          // Of it.
  std::vector<Missed> missed_;       // The responder has said that it misses these.
  RoundTrip round_trip_;
  RoundTrip* to_requester_ = nullptr;
  uint32_t late_cause_ = 0;    // A packet came late: the finding, and when the responder had it.
  uint64_t late_until_ = 0;    // The frame.
  uint64_t repair_frame_ = 0;  // The first one of the newest episode.
  wire::Psn damaged_psn_;
  uint32_t damaged_cause_ = 0;
  wire::Psn attempted_;  // The start of the last episode without progress.
  uint32_t attempts_ = 0;
  int64_t last_attempt_ns_ = 0;
  int64_t last_wait_ns_ = 0;
  uint64_t resent_packets_ = 0;
  uint64_t resent_bytes_ = 0;
};

/// "code 14" or "codes 12 to 14": the ACK timeouts that fit a wait, which the standard allows to be
/// up to four times as long as the code says (docs/protocol/transport.md, section 3.3).
std::string TimeoutCodes(int64_t waited_ns);
}  // namespace uroce::tools::analyze
