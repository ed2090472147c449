// SPDX-License-Identifier: Apache-2.0
// Writes captured frames as pcapng, the format of draft-ietf-opsawg-pcapng.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/capture/frame.h"
#include "pipeline/shm/abi/uroce_capture.h"

namespace uroce::capture {

/// What a file says of one interface at its end. Frames, both directions together.
struct InterfaceStatistics {
  uint64_t received_frames = 0;  ///< Sent and received by the interface while captured.
  uint64_t matching_frames = 0;  ///< Of those, taken by the capture and passed by its filter.
  uint64_t lost_frames = 0;      ///< Of those, not taken for want of room.
  std::string comment;
};

/// Encodes blocks into a byte buffer that the caller writes out and clears. libpcap reads pcapng
/// but cannot write it, and the blocks needed are four. Order: section, interfaces, frames,
/// statistics. A file may hold several sections.
class PcapngWriter {
 public:
  /// `comment` may be "".
  void AddSection(std::string_view application, std::string_view comment = {});
  /// `snap_length_bytes` 0 means no limit. Interfaces are numbered in the order of these calls.
  void AddInterface(const uroce_capture_interface& interface, uint32_t snap_length_bytes);
  /// A frame with the text of its note, and `comment` behind it.
  void AddFrame(const CapturedFrame& frame, std::string_view comment = {});
  /// The same in two parts, between which the caller puts frame.bytes into the file itself: what
  /// is large need not be copied into the buffer. The tail begins with the pad.
  void AddFrameHead(const CapturedFrame& frame);
  void AddFrameTail(const CapturedFrame& frame);
  /// At the end of the capture. `time_ns` since 1970.
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
