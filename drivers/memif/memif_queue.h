// SPDX-License-Identifier: Apache-2.0
// The two directions of a memif: frames are copied between mbufs and buffers in shared memory. The
// peer may write anything there at any time: each word is read once and checked, and an impossible
// value ends the connection.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "drivers/memif/memif_protocol.h"
#include "nic/base/event_signal.h"

struct rte_mbuf;
struct rte_mempool;

namespace uroce::drivers {

/// The regions that both ends map, indexed by the region number in descriptors.
using MemifRegions = std::vector<std::span<uint8_t>>;

/// A ring and its buffers. In the client, buffer i lies at i * `buffer_bytes` of `buffers`. In the
/// server `buffers` is empty, and the descriptors say where the buffers are.
struct MemifRing {
  memif::RingHeader* header = nullptr;
  uint32_t slots = 0;  ///< A power of two, at most 2^kMaxLog2RingSlots.
  const MemifRegions* regions = nullptr;
  std::span<uint8_t> buffers;
  uint32_t buffers_offset = 0;  ///< The offset of `buffers` in region 0.
  uint32_t buffer_bytes = 0;
  int event_fd = -1;  ///< Wakes the ring's receiver.

  bool is_clients() const { return !buffers.empty(); }
  memif::Descriptor& At(uint16_t index) const {
    return reinterpret_cast<memif::Descriptor*>(header + 1)[index & (slots - 1)];
  }
  /// A slot's buffer, whole or as its descriptor says; empty when the descriptor is impossible.
  std::span<uint8_t> Buffer(uint16_t index, const memif::Descriptor& descriptor) const;
};

/// Sends on one ring. Worker thread.
class MemifSender {
 public:
  /// `signal` wakes the receiver.
  MemifSender(const MemifRing& ring, EventSignal* signal);

  /// Copies the first n frames, frees them and returns n: as many as there is room for.
  [[nodiscard]] uint16_t Send(rte_mbuf** frames, uint16_t count);
  /// Slots that are free, or any number above `enough`: the peer's index is read only when at most
  /// `enough` were left.
  uint16_t Room(uint16_t enough);
  /// Free slots as of the last look.
  uint16_t room() const { return room_; }
  /// Whether the peer wrote an impossible value.
  bool is_corrupt() const { return is_corrupt_; }

 private:
  uint16_t Put(const rte_mbuf& frame);
  void Publish();

  const MemifRing ring_;
  EventSignal* const signal_;
  uint16_t next_ = 0;
  uint16_t room_ = 0;
  bool is_corrupt_ = false;
};

/// Receives on one ring. Worker thread.
class MemifReceiver {
 public:
  /// Frames go into mbufs of `pool`.
  MemifReceiver(const MemifRing& ring, rte_mempool* pool);

  uint16_t Receive(rte_mbuf** frames, uint16_t count);
  /// Asks the sender to write the ring's eventfd for each frame from now on. False: frames are
  /// there already. A sender without a fence between its frame and its look at our flag may still
  /// miss the change; our next look at the ring, a moment later, finds that frame.
  bool AskForWake();
  /// Asks the sender to write the eventfd no more. Receive does so too when it finds frames.
  void StopWake();
  bool is_wake_asked() const { return is_wake_asked_; }
  /// Frames dropped since the last call because they were longer than an mbuf.
  uint64_t TakeTooLong() { return std::exchange(too_long_, 0); }
  bool is_corrupt() const { return is_corrupt_; }

 private:
  enum class Taken : uint8_t { kFrame, kTooLong, kIncomplete, kImpossible };
  uint16_t Available();
  Taken Take(rte_mbuf& frame, uint16_t available, uint16_t& used);
  void GiveBack(uint16_t used);

  const MemifRing ring_;
  rte_mempool* const pool_;
  uint16_t next_ = 0;
  bool is_wake_asked_ = false;
  bool is_corrupt_ = false;
  uint64_t too_long_ = 0;
};

}  // namespace uroce::drivers
