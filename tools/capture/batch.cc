// SPDX-License-Identifier: Apache-2.0
#include "tools/capture/batch.h"

namespace uroce::tools {
namespace {

// From this size on, a copy costs more than one more part in writev.
constexpr size_t kLargeFrameBytes = 1024;

}  // namespace

void CaptureBatch::AddFrame(const capture::CapturedFrame& frame) {
  if (frame.bytes.size() < kLargeFrameBytes) return writer_.AddFrame(frame);
  writer_.AddFrameHead(frame);
  borrowed_.push_back({writer_.bytes().size(), frame.bytes});
  borrowed_bytes_ += frame.bytes.size();
  writer_.AddFrameTail(frame);
}

std::vector<std::span<const uint8_t>> CaptureBatch::Parts() const {
  std::vector<std::span<const uint8_t>> parts;
  parts.reserve(2 * borrowed_.size() + 1);
  const std::span<const uint8_t> own = writer_.bytes();
  size_t position = 0;
  for (const Borrowed& borrowed : borrowed_) {
    parts.push_back(own.subspan(position, borrowed.position - position));
    parts.push_back(borrowed.bytes);
    position = borrowed.position;
  }
  parts.push_back(own.subspan(position));
  return parts;
}

void CaptureBatch::Clear() {
  writer_.Clear();
  borrowed_.clear();
  borrowed_bytes_ = 0;
}

}  // namespace uroce::tools
