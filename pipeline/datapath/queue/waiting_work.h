// SPDX-License-Identifier: Apache-2.0
// A queue pair that waits for its session's helper: its current job, and the packets behind it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "pipeline/datapath/memory/copy_helper.h"
#include "pipeline/datapath/memory/memory_keys.h"
#include "pipeline/datapath/queue/queue_pair_config.h"
#include "pipeline/shm/abi/uroce_arena.h"
#include "pipeline/transport/effect.h"
#include "pipeline/wire/packet.h"
#include "pipeline/wire/psn.h"

struct rte_mbuf;

namespace uroce::datapath {

/// Bytes on their way between memory and a frame, and how far they have come.
struct Transfer {
  uroce_sge remote{};  ///< A remote range as a list of one entry, for `walker`.
  PieceWalker walker;
  uint8_t* bytes = nullptr;  ///< Where `walker` stands in the frame or the job.

  /// Continues at the position of `other`, which may end then.
  void Continue(const Transfer& other) {
    *this = other;
    if (walker.list().data() == &other.remote) walker.set_list({&remote, 1});
  }
};

/// A position in the bytes that a message moves: in one list of entries, or under one key.
struct MessagePlace {
  uint32_t key = 0;       ///< Slot of the work, or rkey.
  uint64_t position = 0;  ///< Offset in its list, or address.

  bool operator==(const MessagePlace&) const = default;
};

/// Payload of waiting packets that the copy job of an earlier packet has placed. The transport has
/// not seen these packets yet. They are consecutive packets of one message.
struct BatchedPlacements {
  transport::Effect::Kind kind = transport::Effect::Kind::kNone;
  MessagePlace place;  ///< Where the first of them begins.
  wire::Psn psn;       ///< Its number.
  uint32_t packets = 0;
};

/// Payload of the packets that one message sends next, read by the copy job of an earlier
/// packet.
struct PrefetchedPayload {
  MessagePlace place;  ///< Where the first of them begins.
  wire::Psn psn;       ///< Its number.
  uint32_t next = 0;
  uint32_t end = 0;
  std::array<rte_mbuf*, CopyJob::kMaxBatched> frames;  ///< [next, end): each a packet's payload.

  bool empty() const { return next == end; }
};

/// Accessed only while the queue pair waits, so that it takes no cache lines otherwise.
struct WaitingWork {
  /// Attributes that came during the wait, and apply when it is over.
  struct Modification {
    transport::QpState state;
    Attributes attributes;
  };

  transport::Effect effect;
  wire::Opcode effect_opcode = wire::Opcode::kAcknowledge;  ///< Of the packet with the effect.
  wire::Psn effect_psn;
  transport::TxPacket packet;
  Transfer transfer;
  uint32_t crc_before_payload = 0;  ///< kGather.
  CopyJob* in_flight = nullptr;
  std::unique_ptr<CopyJob> job = std::make_unique<CopyJob>();
  std::optional<Modification> modification;

  // Packets that arrived during the wait, linked by rte_mbuf::next.
  rte_mbuf* oldest = nullptr;
  rte_mbuf* newest = nullptr;
  uint32_t packets = 0;
  bool gate_closed = false;  ///< Peers in the daemon must wait.

  // Jobs for this side's requests and for its answers take turns: there is one slot for both.
  BatchedPlacements placed_requests;
  BatchedPlacements placed_responses;
  PrefetchedPayload prefetched_requests;
  PrefetchedPayload prefetched_responses;
};

}  // namespace uroce::datapath
