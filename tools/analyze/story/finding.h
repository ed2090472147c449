// SPDX-License-Identifier: Apache-2.0
// What the analysis finds: kinds with their severity and rule, and a bounded log in which causes
// and what follows from them are linked.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "pipeline/wire/packet.h"

namespace uroce::tools::analyze {

/// kNote: worth knowing, nothing is wrong. kWarning: repaired, at a cost. kError: work failed, or a
/// rule of the protocol was broken.
enum class Severity : uint8_t { kNote, kWarning, kError };
inline constexpr int kSeverityCount = 3;
absl::string_view NameOf(Severity severity);
std::optional<Severity> SeverityOf(absl::string_view name);

/// In the order of causes before what follows from them, which is that of a report.
enum class FindingKind : uint8_t {
  // Between the two ends.
  kIcrcError,
  kMalformed,
  kLoss,
  kReordering,
  kDuplicate,
  kCongestion,
  kPause,
  // At an end.
  kRnr,
  kRefused,
  kViolation,
  // What follows.
  kSequenceNak,
  kTimeout,
  kGoBackN,
  kSelectiveRepeat,
  kRetriesExhausted,
  kRnrExhausted,
  // Connections.
  kRejected,
  kUnanswered,
  kSetupResent,
  kNoDisconnect,
  // The capture itself.
  kNotCaptured,
};
inline constexpr int kFindingKindCount = static_cast<int>(FindingKind::kNotCaptured) + 1;

struct KindInfo {
  absl::string_view name;   ///< As in JSON: "sequence-nak".
  absl::string_view title;  ///< For people: "sequence NAK".
  Severity severity = Severity::kNote;
  absl::string_view rule;  ///< A section of docs/protocol.
};
const KindInfo& InfoOf(FindingKind kind);

/// The lost packet is a request, or an answer to one.
enum class LostWhat : uint8_t { kNone, kRequest, kResponse };
/// Where a packet was lost: on the side of its requester or of its responder, as seen from the
/// point where it was captured, or between two points.
enum class LostSide : uint8_t { kUnknown, kRequester, kResponder, kBetween };

/// One thing that happened. Frames are those of the point, numbered as Wireshark shows them.
struct Finding {
  static constexpr size_t kMostFrames = 4;
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

  FindingKind kind = FindingKind::kLoss;
  Severity severity = Severity::kNote;
  uint32_t connection = kNone;  ///< An index of the connections, or kNone.
  uint32_t point = 0;
  uint8_t requester = 0;  ///< Of the connection's two ends, whose requests it is about.
  LostWhat what = LostWhat::kNone;
  LostSide side = LostSide::kUnknown;
  int64_t time_ns = 0;
  int64_t duration_ns = 0;
  uint64_t count = 1;        ///< Packets that it is about.
  bool may_be_late = false;  ///< Of a loss: it may have come, behind later packets.
  uint32_t among = 0;  ///< They are among so many PSNs, from `psn` on; 0: they are the first ones.
  uint32_t psn = 0;
  std::array<uint64_t, kMostFrames> frames{};  ///< 0: none.
  std::string rule;
  std::string text;    ///< One sentence without a full stop.
  uint32_t id = 0;     ///< From 1.
  uint32_t cause = 0;  ///< The id of the finding that caused it; 0: none.

  void AddFrame(uint64_t number);
};

/// Holds the first findings of each kind, and counts all.
class FindingLog {
 public:
  static constexpr size_t kMostOfAKind = 2000;

  /// Returns the id, by which later findings name their cause.
  uint32_t Add(Finding finding);
  /// One of the newest findings; nullptr: it is older, or not kept.
  Finding* FindNew(uint32_t id);
  /// Findings in order of time; those of one time in order of kinds.
  std::vector<Finding> Sorted() const;
  uint64_t count(FindingKind kind) const { return counts_[static_cast<size_t>(kind)]; }
  uint64_t count(Severity severity) const;
  /// Findings that were counted and are not kept.
  uint64_t left_out() const { return left_out_; }
  /// After a change of `all`, whose kinds have all their findings.
  void Recount();
  std::vector<Finding>& all() { return findings_; }
  const std::vector<Finding>& all() const { return findings_; }

 private:
  std::vector<Finding> findings_;
  std::array<uint64_t, kFindingKindCount> counts_{};
  std::array<uint64_t, kFindingKindCount> kept_{};
  std::array<uint64_t, kSeverityCount> severities_{};
  uint64_t left_out_ = 0;
  uint32_t next_id_ = 1;
};

}  // namespace uroce::tools::analyze
