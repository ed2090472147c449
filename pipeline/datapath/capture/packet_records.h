// SPDX-License-Identifier: Apache-2.0
// Records of packets: the ring in which a worker leaves frames for a capture, and the newest
// packets of each queue pair.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "pipeline/base/streaming_store.h"
#include "pipeline/base/types.h"
#include "pipeline/capture/note.h"
#include "pipeline/shm/abi/uroce_arena.h"
#include "pipeline/shm/abi/uroce_capture.h"
#include "pipeline/transport/work.h"

namespace uroce::datapath {

// Records are written past the cache, by non-temporal stores: the ring is larger than the cache,
// and the worker needs the cache for other data.

inline constexpr uint64_t kRecordLine = UROCE_CAPTURE_ALIGNMENT;
static_assert(sizeof(uroce_capture_record) == kRecordLine, "the frame starts at its own line");

/// Bytes of a record in the ring.
constexpr uint64_t RecordBytes(uint32_t captured_length) {
  return (sizeof(uroce_capture_record) + captured_length + kRecordLine - 1) & ~(kRecordLine - 1);
}

inline void StreamLine(uint8_t* line, const uint8_t* bytes) {
  for (uint64_t i = 0; i < kRecordLine; i += 16) cpu::StreamSixteen(line + i, bytes + i);
}

/// Writes the bytes of a frame, padded with zeros to whole lines.
inline void StreamFrame(uint8_t* lines, const uint8_t* bytes, uint64_t length_bytes) {
  for (; length_bytes >= kRecordLine; length_bytes -= kRecordLine) {
    StreamLine(lines, bytes);
    lines += kRecordLine;
    bytes += kRecordLine;
  }
  if (length_bytes == 0) return;
  uint8_t last[kRecordLine] = {};
  std::memcpy(last, bytes, length_bytes);
  StreamLine(lines, last);
}

inline void StreamWord(uint8_t* line, size_t offset, uint64_t word) {
  cpu::StreamEight(line + offset, word);
}

/// Writes the record's first line, with `note` in place of the record's own. The words go from
/// registers one by one: a line put together in memory and read back in larger pieces than it was
/// written in would wait until each piece had reached the cache.
inline void StreamHead(uint8_t* line, const uroce_capture_record& record,
                       const uroce_capture_note& note) {
  using Record = uroce_capture_record;
  static_assert(offsetof(Record, captured_length) == offsetof(Record, size) + 4);
  static_assert(offsetof(Record, interface_index) == offsetof(Record, wire_length) + 4);
  static_assert(offsetof(Record, direction) == offsetof(Record, wire_length) + 6);
  const auto join = [](uint32_t low, uint32_t high) { return low | uint64_t{high} << 32; };
  const uint32_t where = record.interface_index | uint32_t{record.direction} << 16;
  StreamWord(line, offsetof(Record, size), join(record.size, record.captured_length));
  StreamWord(line, offsetof(Record, wire_length), join(record.wire_length, where));
  StreamWord(line, offsetof(Record, time_ns), record.time_ns);
  std::array<uint64_t, sizeof(note) / sizeof(uint64_t)> words;
  std::memcpy(words.data(), &note, sizeof(note));
  size_t offset = offsetof(Record, note);
  for (const uint64_t word : words) {
    StreamWord(line, offset, word);
    offset += sizeof(word);
  }
  for (; offset < sizeof(Record); offset += sizeof(uint64_t)) StreamWord(line, offset, 0);
}

/// Which frames a capture takes, and how much of each.
struct TapConfig {
  uint32_t snap_bytes = 65535;  ///< Bytes taken of each frame, at most.
  uint32_t only = 0;            ///< Mask of UROCE_CAPTURE_DROPPED and others; 0: all frames.
  /// For each device that is captured, at its index modulo UROCE_MAX_DEVICES: the interface that
  /// its frames are recorded of.
  static constexpr uint8_t kNotCaptured = 0xff;
  using Interfaces = std::array<uint8_t, UROCE_MAX_DEVICES>;
  Interfaces interfaces = Numbered();
  /// Device i is interface i.
  static constexpr Interfaces Numbered() {
    Interfaces interfaces{};
    for (uint8_t i = 0; i < UROCE_MAX_DEVICES; ++i) interfaces[i] = i;
    return interfaces;
  }
};

/// One worker's part of a capture; uroce_capture.h has the layout. The worker writes the ring past
/// the cache, and publishes records one turn later: see Publish. The worker checks the tool's
/// `consumed` on every use: an impossible value only loses packets.
class CaptureTap {
 public:
  /// `ring` is aligned to 64 bytes and has `ring_bytes`, a power of two. `page` starts as zeros.
  CaptureTap(uroce_capture_page* page, uint8_t* ring, uint64_t ring_bytes, const TapConfig& config);
  /// Copies one frame, or counts it as lost. The tool sees the copy after the next Publish.
  /// `direction` is UROCE_CAPTURE_*. `time` counts from 1970.
  void Add(uint32_t device_index, uint16_t direction, const uint8_t* frame, uint32_t length_bytes,
           Nanos time, const uroce_capture_note& note);
  /// Shows the tool the added records, and promises that no record older than `reached` follows.
  /// Waits until the written lines are in memory: call it when they have had time to get there.
  void Publish(Nanos reached);
  /// Leaves out a device that was removed: another one may get its place.
  void Forget(uint32_t device_index) {
    config_.interfaces[device_index % UROCE_MAX_DEVICES] = TapConfig::kNotCaptured;
  }

 private:
  /// Reads how far the tool has consumed, and skips the ring's end where a record of `size` bytes
  /// would not fit before it. False: the ring has no room.
  bool MakeRoom(uint64_t size);
  void CountLost(uint32_t interface_index, uint16_t direction);

  uroce_capture_page* page_;
  uint8_t* ring_;
  uint64_t ring_bytes_;
  TapConfig config_;
  uint64_t produced_ = 0;
  uint64_t published_ = 0;
  /// Up to here records fit one after the other, as far as known. The tool's cache line is read
  /// only when a record would end behind this place.
  uint64_t room_end_ = 0;
  std::array<uroce_capture_lost, UROCE_MAX_DEVICES> lost_{};
};

inline void CaptureTap::Add(uint32_t device_index, uint16_t direction, const uint8_t* frame,
                            uint32_t length_bytes, Nanos time, const uroce_capture_note& note) {
  const uint8_t interface_index = config_.interfaces[device_index % UROCE_MAX_DEVICES];
  if (interface_index == TapConfig::kNotCaptured) return;
  if (config_.only != 0 && (capture::KindsOf(note) & config_.only) == 0) return;
  const uint32_t captured = std::min(length_bytes, config_.snap_bytes);
  const uint64_t size = RecordBytes(captured);
  if (produced_ + size > room_end_ && !MakeRoom(size)) return CountLost(interface_index, direction);
  uint8_t* const place = ring_ + (produced_ & (ring_bytes_ - 1));
  const uroce_capture_record head{.size = static_cast<uint32_t>(size),
                                  .captured_length = captured,
                                  .wire_length = length_bytes,
                                  .interface_index = interface_index,
                                  .direction = direction,
                                  .time_ns = static_cast<uint64_t>(time.count())};
  StreamHead(place, head, note);
  StreamFrame(place + sizeof(head), frame, captured);
  produced_ += size;
}

// Keeps the newest packets of one queue pair in memory, and hands them over when the queue pair
// fails: the worker's part of the packet history.

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
