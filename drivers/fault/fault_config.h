// SPDX-License-Identifier: Apache-2.0
// Which faults a port makes, by rates and by rules for single packets, and the text in which users
// write them.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "pipeline/base/types.h"
#include "pipeline/wire/packet.h"

namespace uroce::drivers {

// ---- faults of single packets ----

enum class FaultDirection : uint8_t { kBoth, kReceive, kTransmit };
/// "both", "rx", "tx".
absl::string_view NameOf(FaultDirection direction);

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

/// The rule as it can be given, such as "rule=drop,opcode=WRITE_LAST,dir=tx,nth=3,count=1".
std::string FormatRule(const FaultRule& rule);

/// A rule of a port with its counts. The workers of all queues count; any thread may read.
struct ActiveFaultRule {
  explicit ActiveFaultRule(const FaultRule& its) : rule(its) {}
  const FaultRule rule;
  std::atomic<uint64_t> matched{0};
  std::atomic<uint64_t> acted{0};
};

// ---- faults of a port ----

/// The most rules of a port: each costs time for every packet.
inline constexpr size_t kMaxFaultRules = 16;

/// Rates are probabilities per frame. The same seed and the same frames give the same faults.
struct FaultConfig {
  uint64_t seed = 1;
  double drop = 0;
  double duplicate = 0;
  double reorder = 0;  ///< The frame is held back until one to eight later frames have passed it.
  double corrupt = 0;  ///< One byte is changed.
  double ce_mark = 0;  ///< ECN of IP frames becomes 3, congestion experienced.
  Nanos delay{0};      ///< Every frame is delayed by this time.
  bool link_down = false;  ///< The port has no link: every frame is dropped, in both directions.
  FaultDirection direction = FaultDirection::kBoth;  ///< Of the rates and the delay.
  std::vector<FaultRule> rules;                      ///< Beside them.
  std::string text;                                  ///< As ParseFault has read it, or "".
  /// Whether every frame comes out exactly as it went in, and at once.
  bool is_harmless() const {
    return drop == 0 && duplicate == 0 && reorder == 0 && corrupt == 0 && ce_mark == 0 &&
           delay == Nanos(0) && !link_down && rules.empty();
  }
};

/// Parses "seed=1,drop=0.01,duplicate=0.01,reorder=0.02,delay=10us,corrupt=0.001,ce=0.01,dir=both,
/// link=down", or any of these keys in any order. Behind them rules may follow, each of which
/// begins with "rule=ACTION", of drop, duplicate, corrupt, mark, delay:TIME, reorder or
/// reorder:FRAMES, and goes on with its own keys: qpn, opcode, dir, nth, every, count. With `nth`
/// alone a rule acts once. Errors name the key, the value and what would be right.
absl::StatusOr<FaultConfig> ParseFault(const std::string& text);

}  // namespace uroce::drivers
