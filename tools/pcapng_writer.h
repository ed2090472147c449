// SPDX-License-Identifier: Apache-2.0
// Writes captured frames as pcapng, the format of draft-ietf-opsawg-pcapng.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/capture_ring.h"
#include "verbs-shim/abi/uroce_abi.h"

namespace uroce::tools {

/// Encodes blocks into a byte buffer that the caller writes out and clears. libpcap reads pcapng
/// but cannot write it, and the blocks needed are four. Order: section, interfaces, frames,
/// statistics.
class PcapngWriter {
 public:
  void AddSection(std::string_view application);
  /// `snap_length_bytes` 0 means no limit. Interfaces are numbered in the order of these calls.
  void AddInterface(const uroce_capture_interface& interface, uint32_t snap_length_bytes);
  void AddFrame(const CapturedFrame& frame);
  /// At the end of the capture: what an interface delivered and what was lost of it.
  void AddStatistics(uint32_t interface_index, uint64_t time_ns, uint64_t received_frames,
                     uint64_t lost_frames);

  std::span<const uint8_t> bytes() const { return buffer_; }
  void Clear() { buffer_.clear(); }

 private:
  size_t BeginBlock(uint32_t type);
  void EndBlock(size_t start);
  void PutOption(uint16_t code, std::span<const uint8_t> value);
  void PutOption(uint16_t code, std::string_view value);
  void PutPadded(std::span<const uint8_t> value);
  template <typename Value>
  void Put(Value value);

  std::vector<uint8_t> buffer_;
};

}  // namespace uroce::tools
