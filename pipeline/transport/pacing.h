// SPDX-License-Identifier: Apache-2.0
// How the packets and losses of a queue pair count at the rate of its flow: the shells of all
// queue pairs ask here (docs/protocol/congestion.md, section 8).
#pragma once

#include <algorithm>
#include <cstdint>

#include "pipeline/base/types.h"
#include "pipeline/congestion/dcqcn.h"
#include "pipeline/congestion/flow.h"
#include "pipeline/congestion/settings.h"
#include "pipeline/transport/queue_pair_types.h"
#include "pipeline/transport/work.h"
#include "pipeline/wire/packet.h"

namespace uroce::transport {

/// Bytes of an answer to READ that count as sent at once, at most: the rate grows meanwhile.
inline constexpr uint32_t kMaxAnswerBytes = 1u << 22;

inline bool IsReadRequest(wire::Opcode opcode) {
  return wire::OperationOf(opcode) == wire::Opcode::kReadRequest &&
         wire::ServiceOf(opcode) != wire::Service::kCnp;
}

inline bool IsReadResponse(wire::Opcode opcode) {
  const wire::OpcodeInfo& info = wire::InfoOf(opcode);
  return info.Has(wire::OpcodeInfo::kRead) && info.Has(wire::OpcodeInfo::kResponse);
}

/// What of a queue pair's sending its shell keeps: the rate of the flow, and the rates of all
/// flows of the shell that are limited.
struct PacedFlow {
  congestion::FlowRate& rate;
  congestion::LimitedFlows& limited;

  /// `packet` has left at `now` in a frame of `frame_bytes`. `gap`: RcQueuePair::send_gap.
  /// Packets without data are not charged.
  void Charge(const TxPacket& packet, uint32_t frame_bytes, Nanos gap, Nanos now) const {
    const wire::TransportHeader& header = packet.header;
    if (!congestion::IsNotified(header.opcode)) return;
    const bool reads = IsReadRequest(header.opcode);
    const uint32_t answer = reads ? std::min(header.reth.length_bytes, kMaxAnswerBytes) : 0;
    rate.OnSent(limited, frame_bytes + congestion::kFrameOverheadBytes, answer, now);
    const bool is_request = packet.payload_source != TxPacket::Source::kRemote;
    if (is_request && gap != Nanos(0)) rate.Delay(now, gap);
  }
};

/// What the losses that a queue pair has found mean to the rate of its flow.
enum class LossMeaning : uint8_t {
  kNothing,
  kWindowOnly,  ///< The window of the flow has shrunk already.
  kAsCnp,       ///< They count as a CNP.
};

inline LossMeaning MeaningOf(const Losses& losses, const congestion::Environment& environment) {
  if (!losses.any() || !environment.reacts()) return LossMeaning::kNothing;
  switch (environment.settings.profile) {
    case congestion::Profile::kOff:
      return LossMeaning::kNothing;
    case congestion::Profile::kDcqcn:
    case congestion::Profile::kDcqcnMlx:
      return LossMeaning::kAsCnp;
    case congestion::Profile::kDelay:
      break;
  }
  // The window knows of lost requests; responses have no window.
  return losses.responses ? LossMeaning::kAsCnp : LossMeaning::kWindowOnly;
}

}  // namespace uroce::transport
