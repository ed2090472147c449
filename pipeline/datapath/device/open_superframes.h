// SPDX-License-Identifier: Apache-2.0
// The superframes that a worker is filling, for ports that take them.
#pragma once

#include <rte_mbuf.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "pipeline/port/superframes.h"

namespace uroce::datapath {

class QueuePair;

/// The superframes that a worker is filling for one port. Each has packets of one queue pair, which
/// lie behind each other as the kernel takes them: it reads one part in place of one for each
/// packet. One thread.
class OpenSuperframes {
 public:
  struct Open {
    const QueuePair* queue_pair = nullptr;
    rte_mbuf* frame = nullptr;
    uint16_t headers_bytes = 0;  ///< Before the UDP payload.
    uint16_t segment_bytes = 0;  ///< UDP payload of the first packet.
    uint16_t identification = 0;
    uint16_t segments = 1;
  };

  /// That of `qp`, if a packet with as many bytes of UDP payload fits behind the others. Else null;
  /// one that is open then is closed, since packets of a queue pair keep their order.
  Open* Find(const QueuePair& qp, uint32_t payload_bytes) {
    if (count_ == 0) return nullptr;
    return FindOpen(qp, payload_bytes);
  }
  /// Whether that of `qp` has room for a packet as long as the others.
  bool HasRoom(const QueuePair& qp) const;
  /// Closes that of `qp`: a frame of `qp` follows.
  void Close(const QueuePair& qp) {
    if (count_ != 0) static_cast<void>(FindOpen(qp, UINT32_MAX));
  }
  /// More packets of the last queue pair follow in the next turn.
  void set_goes_on(bool goes_on) { goes_on_ = goes_on; }
  /// At the end of a turn: closes all but `last`, which stays open if it goes on. Returns whether
  /// it does.
  bool EndTurn(const rte_mbuf* last);
  /// Lends `frame` a buffer for a superframe. False: there is none.
  bool Lend(rte_mbuf& frame) {
    if (!buffers_) buffers_ = std::make_unique<drivers::LongBuffers>(kBuffers);
    return count_ != kMost && buffers_->Lend(frame);
  }
  static bool IsLent(const rte_mbuf& frame) { return drivers::LongBuffers::IsLent(frame); }
  /// Opens one, where there is a place for one more, with `frame`: it has borrowed a buffer and
  /// holds the first packet, with `headers_bytes` before its UDP payload.
  void Add(const QueuePair& qp, rte_mbuf* frame, size_t headers_bytes);
  /// How many packets of `payload_bytes` of UDP payload each are in one at most.
  static uint32_t MostIn(size_t headers_bytes, uint32_t payload_bytes);
  /// How many packets as long as the first one fit behind the others.
  static uint32_t RoomIn(const Open& open);
  /// Packets with as many bytes of UDP payload each have been written behind the others.
  void Extend(Open& open, uint32_t payload_bytes, uint32_t packets = 1);

 private:
  static constexpr uint32_t kMost = 8;
  static constexpr size_t kBuffers = 12;

  Open* FindOpen(const QueuePair& qp, uint32_t payload_bytes);

  const drivers::SuperframeMark mark_;
  std::unique_ptr<drivers::LongBuffers> buffers_;
  std::array<Open, kMost> open_{};
  uint32_t count_ = 0;
  bool goes_on_ = false;
};

}  // namespace uroce::datapath
