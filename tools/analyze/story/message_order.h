// SPDX-License-Identifier: Apache-2.0
// Checks that the request packets of one requester form messages: the order of opcodes and the
// lengths (docs/protocol/transport.md, section 4.1; docs/protocol/wire-format.md, section 5).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "pipeline/wire/packet.h"

namespace uroce::tools::analyze {

/// A rule that a packet breaks.
struct Violation {
  const char* rule = "";
  std::string text;
};

/// Looks at packets that are new and in order. After a gap the next FIRST or ONLY packet begins
/// again.
class MessageOrder {
 public:
  /// `mtu_bytes` 0: not known.
  std::optional<Violation> OnRequest(const wire::TransportHeader& header, uint32_t payload_bytes,
                                     uint32_t mtu_bytes);
  /// Packets are missing.
  void Lose() { state_ = State::kUnknown; }

 private:
  enum class State : uint8_t { kUnknown, kBetween, kInSend, kInWrite };
  std::optional<Violation> CheckOrder(const wire::TransportHeader& header) const;
  std::optional<Violation> CheckLength(const wire::TransportHeader& header, uint32_t payload_bytes,
                                       uint32_t mtu_bytes) const;

  State state_ = State::kUnknown;
  uint64_t promised_bytes_ = 0;  // Of a WRITE, by its RETH.
  uint64_t sent_bytes_ = 0;
};

}  // namespace uroce::tools::analyze
