// SPDX-License-Identifier: Apache-2.0
// Writes capture records past the cache, by non-temporal stores. The ring is larger than the cache,
// and the worker needs the cache for other data.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "pipeline/cpu/streaming_store.h"
#include "pipeline/shm/abi/uroce_capture.h"

namespace uroce::datapath {

inline constexpr uint64_t kRecordLine = UROCE_CAPTURE_ALIGNMENT;
static_assert(sizeof(uroce_capture_record) == kRecordLine, "the frame starts at a line of its own");

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

}  // namespace uroce::datapath
