// SPDX-License-Identifier: Apache-2.0
// Keeps the newest packets of one queue pair in memory, and hands them over when the queue pair
// fails: the worker's part of the flight recorder.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "pipeline/base/types.h"
#include "pipeline/shm/abi/uroce_capture.h"
#include "pipeline/transport/work.h"

namespace uroce::datapath {

inline constexpr uint32_t kHistorySnapBytes = 128;

/// One packet: its first bytes, and a note of what the worker did with it.
struct HistoryPacket {
  uint64_t time_ns = 0;  ///< Since 1970.
  uint32_t wire_length_bytes = 0;
  uint16_t captured_bytes = 0;
  uint16_t direction = 0;  ///< UROCE_CAPTURE_INBOUND or _OUTBOUND.
  uroce_capture_note note{};
  std::array<uint8_t, kHistorySnapBytes> bytes{};
};

/// The history of one queue pair, which owns it. Worker's thread. Add allocates nothing.
class PacketHistory {
 public:
  /// `packets` > 0 is the capacity. The constructor takes all the memory.
  explicit PacketHistory(uint32_t packets) : packets_(packets) {}
  void Add(uint16_t direction, std::span<const uint8_t> frame, Nanos time,
           const uroce_capture_note& note);
  /// Returns the kept packets, the oldest first.
  std::vector<HistoryPacket> InOrder() const;

 private:
  std::vector<HistoryPacket> packets_;
  uint64_t added_ = 0;
};

/// What put a queue pair in the error state.
enum class FailureCause : uint8_t { kTransport, kCompletionQueue, kSendQueue, kReceiveQueue };

/// Describes a queue pair that went to the error state by itself, not by a command.
struct FailedQueuePair {
  Qpn qpn;
  Qpn remote_qpn;
  uint32_t device_index = 0;
  Nanos time;  ///< Since 1970.
  FailureCause cause = FailureCause::kTransport;
  transport::Failure failure;  ///< Set when `cause` is kTransport.
  std::unique_ptr<PacketHistory> history;
};

/// Takes each queue pair that failed, once, on the worker's thread. Take must not block.
class FailureSink {
 public:
  virtual ~FailureSink() = default;
  virtual void Take(FailedQueuePair failed) = 0;
};

}  // namespace uroce::datapath
