// SPDX-License-Identifier: Apache-2.0
// Blocks of a pcapng file that wait to be written together.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pipeline/capture/frame.h"
#include "pipeline/capture/pcapng_writer.h"

namespace uroce::tools {

/// Large frames are not copied but written from their place, so that memory must hold them until
/// the batch is cleared.
class CaptureBatch {
 public:
  /// Takes blocks other than frames.
  capture::PcapngWriter& writer() { return writer_; }
  void AddFrame(const capture::CapturedFrame& frame);
  uint64_t bytes() const { return writer_.bytes().size() + borrowed_bytes_; }
  /// All bytes in order. Valid until the batch changes.
  std::vector<std::span<const uint8_t>> Parts() const;
  void Clear();

 private:
  /// Bytes of a frame that follow the first `position` bytes of the writer.
  struct Borrowed {
    size_t position;
    std::span<const uint8_t> bytes;
  };

  capture::PcapngWriter writer_;
  std::vector<Borrowed> borrowed_;
  uint64_t borrowed_bytes_ = 0;
};

}  // namespace uroce::tools
