// SPDX-License-Identifier: Apache-2.0
// Gives a packet to a queue pair of the same worker at once, without a frame.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>
#include <vector>

#include "pipeline/datapath/memory/memory_keys.h"
#include "pipeline/datapath/queue/queue_pair.h"
#include "pipeline/datapath/thread/scheduling.h"
#include "pipeline/datapath/worker/congestion_control.h"
#include "pipeline/datapath/worker/copy_engine.h"
#include "pipeline/datapath/worker/frame.h"
#include "pipeline/port/frames.h"
#include "pipeline/transport/work.h"

namespace uroce::datapath {

class PacketExecutor;

/// The parts of a worker that direct delivery uses.
struct DirectContext {
  const KeyTable& keys;
  const QpnTable& queue_pairs;
  CongestionControl& congestion;
  CopyEngine& copies;
  PacketExecutor& executor;
  FrameRecorder& recorder;
  const TurnTime& time;
};

/// Where a frame would only travel from one queue pair of this worker to another, its headers are
/// neither written nor read, and its payload is copied once, from program to program. Programs,
/// counters and the transports see what they would see of frames. A packet that a capture, a packet
/// history, a fault or another worker has to see goes as a frame. One thread.
class DirectDelivery {
 public:
  explicit DirectDelivery(const DirectContext& context) : context_(context) {}
  ~DirectDelivery() { FreeReferred(); }
  DirectDelivery(const DirectDelivery&) = delete;
  DirectDelivery& operator=(const DirectDelivery&) = delete;

  /// Only between these two calls packets are delivered. Behind Close the worker makes the copies
  /// that are due, and so payload lies where it is for no longer than this turn.
  void Open() {
    FreeReferred();
    is_open_ = true;
  }
  void Close() { is_open_ = false; }

  /// The queue pair that takes the next packet of `qp` without a frame, or null. All that the
  /// receiver checks of a frame's headers was checked here.
  QueuePair* PeerOf(QueuePair& qp);

  enum class Result : uint8_t {
    kDelivered,   ///< `frame` has the length that it would have, and no bytes.
    kKept,        ///< The peer has kept `frame`, which holds the packet now.
    kDenied,      ///< The memory of the payload is not accessible.
    kNeedsFrame,  ///< The packet has to be sent as a frame: a copy has yet to fetch its payload.
  };
  /// Gives `packet` of `qp` to `peer`, which PeerOf returned. `frame` is empty, and the peer may
  /// need its room.
  Result Deliver(QueuePair& qp, QueuePair& peer, transport::TxPacket& packet, rte_mbuf* frame);

 private:
  /// Looks once in each turn of the worker, since the control thread changes what this reads
  /// between turns only.
  QueuePair* FindPeer(const QueuePair& qp) const;
  /// Whether frames of `qp` are still on their way to its peer.
  static bool HasFramesOnTheWay(QueuePair& qp);
  /// Has `packet.payload` show its bytes: where the program has them, or in `frame` behind
  /// `header_bytes`, or in the frame `prefetched`, which the caller frees behind the delivery.
  Result Fetch(QueuePair& qp, transport::TxPacket& packet, rte_mbuf* frame, uint32_t header_bytes,
               rte_mbuf*& prefetched);
  /// Leaves the payload where `bytes` are: `frame` refers to them.
  void Refer(transport::TxPacket& packet, const uint8_t* bytes, rte_mbuf* frame,
             uint32_t header_bytes) const;
  void CountSent(QueuePair& qp, const QueuePair& peer, const transport::TxPacket& packet,
                 const rte_mbuf* frame);
  /// Writes the headers of a packet into the frame that its peer has kept, as it is: with its
  /// payload, or with a reference to it.
  void WriteHeaders(const QueuePair& qp, const transport::TxPacket& packet, uint16_t identification,
                    rte_mbuf* frame) const;

  void FreeReferred();

  const DirectContext context_;
  const drivers::PendingIcrc pending_;
  const PayloadReference references_;
  /// Prefetched payload to which frames refer until the turn ends.
  std::vector<rte_mbuf*> referred_;
  bool is_open_ = false;  ///< Not during a delivery: what the peer sends meanwhile goes as frames.
};

}  // namespace uroce::datapath
