// SPDX-License-Identifier: Apache-2.0
// A fault that single packets have: which packets, by their numbers, and what becomes of them.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "pipeline/base/types.h"
#include "pipeline/wire/packet.h"

namespace uroce::drivers {

enum class FaultDirection : uint8_t { kBoth, kReceive, kTransmit };
/// "both", "rx", "tx".
absl::string_view NameOf(FaultDirection direction);
std::optional<FaultDirection> ParseDirection(absl::string_view name);

/// The packets that it matches are numbered from 1, those of all queues and of both directions
/// together. It acts on number `nth`, and on each `every`-th from there on, `count` times.
struct FaultRule {
  enum class Action : uint8_t { kDrop, kDuplicate, kCorrupt, kMark, kDelay, kReorder };
  static constexpr uint64_t kNoEnd = std::numeric_limits<uint64_t>::max();

  Action action = Action::kDrop;
  FaultDirection direction = FaultDirection::kBoth;
  std::optional<Qpn> qpn;  ///< The destination in the packet; of sent packets one of the peer's.
  std::optional<wire::Opcode> opcode;
  uint64_t nth = 1;
  uint64_t every = 1;
  uint64_t count = kNoEnd;
  Nanos delay{0};        ///< Of kDelay: the packet alone comes this much later.
  uint32_t passing = 1;  ///< Of kReorder: how many later frames pass the packet.

  bool Matches(const wire::TransportHeader& header) const {
    return (!qpn || *qpn == header.dest_qpn) && (!opcode || *opcode == header.opcode);
  }
  bool ActsOn(uint64_t number) const {
    if (number < nth) return false;
    const uint64_t behind = number - nth;
    return behind % every == 0 && behind / every < count;
  }
};

/// Collects the keys of one rule, "rule=ACTION" first.
class FaultRuleReader {
 public:
  /// `text`: drop, duplicate, corrupt, mark, delay:TIME, reorder or reorder:FRAMES. Errors: one
  /// line that names the key, the value and what would be right.
  absl::Status Begin(const std::string& text);
  /// qpn, opcode, dir, nth, every and count. Errors: as Begin.
  absl::Status Set(const std::string& key, const std::string& value);
  /// The rule. With `nth` alone it acts once.
  FaultRule Take() const;

 private:
  FaultRule rule_;
  bool has_nth_ = false;
  bool has_every_ = false;
  bool has_count_ = false;
};

/// The rule as it can be given, such as "rule=drop,opcode=WRITE_LAST,dir=tx,nth=3,count=1".
std::string FormatRule(const FaultRule& rule);

/// A rule of a port with its counts. The workers of all queues count; any thread may read.
struct ActiveFaultRule {
  explicit ActiveFaultRule(const FaultRule& its) : rule(its) {}
  const FaultRule rule;
  std::atomic<uint64_t> matched{0};
  std::atomic<uint64_t> acted{0};
};

}  // namespace uroce::drivers
