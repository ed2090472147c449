// SPDX-License-Identifier: Apache-2.0
// Writes captured frames as pcapng, the format of draft-ietf-opsawg-pcapng.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/shm/abi/uroce_capture.h"

namespace uroce::capture {

/// One captured frame, as capture writers take it.
/// One frame as a device received or sent it. `bytes` points into memory of the caller, and may be
/// shorter than the frame on the wire.
struct CapturedFrame {
  uint64_t time_ns = 0;  ///< Nanoseconds since 1970.
  uint32_t interface_index = 0;
  uint32_t direction = 0;  ///< UROCE_CAPTURE_INBOUND or _OUTBOUND.
  uint32_t wire_length_bytes = 0;
  uroce_capture_note note{};
  std::span<const uint8_t> bytes;
};

/// The statistics of one interface at the end of a file: frames of both directions together.
struct InterfaceStatistics {
  uint64_t received_frames = 0;  ///< Sent and received by the interface while captured.
  uint64_t matching_frames = 0;  ///< Of received_frames, those that the filter passed.
  uint64_t lost_frames = 0;      ///< Of received_frames, those lost because there was no room.
  std::string comment;
};

/// Encodes blocks into a byte buffer, which the caller writes out and clears. libpcap reads pcapng
/// but cannot write it, and only four kinds of blocks are needed. Order: section, interfaces,
/// frames, statistics. A file may hold several sections.
class PcapngWriter {
 public:
  /// `comment` may be "".
  void AddSection(std::string_view application, std::string_view comment = {});
  /// `snap_length_bytes` 0 means no limit. Interfaces are numbered in the order of these calls.
  void AddInterface(const uroce_capture_interface& interface, uint32_t snap_length_bytes);
  /// Adds a frame. Its comment is the text of its note, followed by `comment`.
  void AddFrame(const CapturedFrame& frame, std::string_view comment = {});
  /// Adds a frame in two parts. The caller writes frame.bytes to the file between them, so that
  /// large frames are not copied into the buffer. The tail begins with the pad.
  void AddFrameHead(const CapturedFrame& frame);
  void AddFrameTail(const CapturedFrame& frame);
  /// Called at the end of the capture. `time_ns`: nanoseconds since 1970.
  void AddStatistics(uint32_t interface_index, uint64_t time_ns,
                     const InterfaceStatistics& statistics);

  std::span<const uint8_t> bytes() const { return buffer_; }
  void Clear() { buffer_.clear(); }

 private:
  void PutPlainFrame(const CapturedFrame& frame);
  void PutFrameHead(const CapturedFrame& frame, size_t comment_bytes);
  void PutFrameTail(const CapturedFrame& frame, std::string_view comment);
  size_t BeginBlock(uint32_t type);
  void EndBlock(size_t start);
  void PutOption(uint16_t code, std::span<const uint8_t> value);
  void PutOption(uint16_t code, std::string_view value);
  void PutComment(std::string_view comment);
  void PutPadded(std::span<const uint8_t> value);
  void Pad(size_t length_bytes);
  template <typename Value>
  void Put(Value value);

  std::vector<uint8_t> buffer_;
};

}  // namespace uroce::capture
