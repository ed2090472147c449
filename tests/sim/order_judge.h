// SPDX-License-Identifier: Apache-2.0
// Compares what a responder does to memory, packet by packet, with the plan of its peer.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "pipeline/transport/work.h"
#include "pipeline/wire/packet.h"
#include "tests/sim/parties/workload.h"

namespace uroce::sim {

/// A reader that looks at the target's memory between any two packets must find a state that
/// execution in order could leave there. So the executed packets must be those of the planned
/// works, each once, in order, with its own bytes at its own place. Then the memory is right at any
/// moment, and is not compared further. Works without effect, such as an empty message, are not
/// seen.
/// Source: docs/protocol/congestion.md, section 10.4.
///
/// Each finding is a text; "" means that all is well.
class OrderJudge {
 public:
  /// `plan` is the peer's plan, whose first request has the PSN `first`.
  OrderJudge(const Workload& plan, wire::Psn first, uint32_t path_mtu);

  /// Bytes of a packet were written to the memory that the peer names.
  std::string OnPlaceRemote(const transport::RemoteRange& range, const wire::Packet& packet);
  /// Bytes of a packet, or none, went to the receive work `local.slot`.
  std::string OnPlaceReceive(const transport::LocalRange& local, const wire::Packet& packet);
  /// An atomic was executed; `original` is the value before it.
  std::string OnAtomic(const transport::RemoteRange& range, uint64_t original,
                       const wire::Packet& packet);
  /// A range was found readable: a READ is executed, or is to be answered again.
  std::string OnRead(const wire::Packet& packet);
  /// The responder sends a packet.
  std::string OnAnswer(const transport::TxPacket& packet) const;
  /// Whether the work `index` is executed completely.
  bool HasExecuted(uint32_t index) const { return work_ > index; }

 private:
  /// The packets of a work.
  struct Run {
    uint32_t first = 0;  ///< Its first PSN, counted from the first of all.
    uint32_t packets = 0;
    bool silent = false;  ///< The packets have no visible effect.
  };

  uint32_t IndexOf(wire::Psn psn) const;
  /// The work that the packet at `index` belongs to.
  uint32_t WorkOf(uint32_t index) const;
  /// Checks that the packet at `index` is the next one.
  std::string CheckTurn(uint32_t index) const;
  /// Checks the same of a packet of a message, and that its bytes are those of the plan.
  std::string CheckMessage(uint32_t index, std::span<const uint8_t> payload) const;
  std::string CheckAnswerTo(uint32_t index, const transport::TxPacket& packet) const;
  const PlannedWork& work() const { return plan_.works[work_]; }
  uint32_t OffsetInWork(uint32_t index) const { return mtu_.OffsetOf(index - runs_[work_].first); }
  /// Counts `packets` more as executed.
  void Advance(uint32_t packets);

  const Workload& plan_;
  const wire::Psn first_;
  const transport::PathMtu mtu_;
  std::vector<Run> runs_;      ///< Of each work.
  uint32_t next_ = 0;          ///< How many packets are executed.
  uint32_t work_ = 0;          ///< The work of the next packet.
  uint32_t receive_slot_ = 0;  ///< Of the SEND that arrives now.
};

}  // namespace uroce::sim
