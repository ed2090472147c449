// SPDX-License-Identifier: Apache-2.0
// The bytes of a capture: a file, a pipe or stdin, unpacked if gzip or zstd packed it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace uroce::tools::analyze {

/// Yields bytes in order, once.
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  /// Fills the front of `out`. Returns the number of bytes, 0 at the end. Errors: kDataLoss when
  /// the bytes cannot be read or unpacked.
  virtual absl::StatusOr<size_t> Read(std::span<uint8_t> out) = 0;
};

/// `path` "-" is stdin. The first bytes decide whether the stream is packed. Errors: kNotFound and
/// others of open(2), with the path.
absl::StatusOr<std::unique_ptr<ByteStream>> OpenStream(const std::string& path);

/// A window on a stream, in which a reader sees as many bytes as it needs side by side.
class ByteWindow {
 public:
  explicit ByteWindow(std::unique_ptr<ByteStream> stream);

  /// The next `count` bytes, which stay the next ones until Skip. Less than `count`: the stream
  /// ends, or status() is an error. Valid until the next call.
  std::span<const uint8_t> Look(size_t count) {
    if (end_ - begin_ < count) Fill(count);
    return {buffer_.data() + begin_, end_ - begin_ < count ? end_ - begin_ : count};
  }
  /// Passes over bytes that Look has returned.
  void Skip(size_t count) {
    begin_ += count;
    offset_ += count;
  }
  /// Where in the unpacked stream the next byte stands.
  uint64_t offset() const { return offset_; }
  const absl::Status& status() const { return status_; }

 private:
  void Fill(size_t count);

  std::unique_ptr<ByteStream> stream_;
  std::vector<uint8_t> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
  uint64_t offset_ = 0;
  bool at_end_ = false;
  absl::Status status_;
};

}  // namespace uroce::tools::analyze
