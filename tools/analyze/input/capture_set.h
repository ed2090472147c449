// SPDX-License-Identifier: Apache-2.0
// The frames of several captures of one moment, merged by time, and the points of the network at
// which they were captured.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/analyze/input/capture_file.h"

namespace uroce::tools::analyze {

/// A frame, and the file that has it.
struct SetFrame {
  FileFrame frame;
  uint32_t file = 0;
};

/// Owns its files. Frames of one file keep their order; of all files, the frame with the earliest
/// time comes next.
class CaptureSet {
 public:
  /// Errors: those of CaptureFile::Open.
  static absl::StatusOr<CaptureSet> Open(const std::vector<std::string>& paths);
  /// One file, which reports call `name`.
  static absl::StatusOr<CaptureSet> OpenAs(const std::string& path, const std::string& name);

  /// False: the end, or an error.
  bool Next(SetFrame& next);

  const std::vector<std::unique_ptr<CaptureFile>>& files() const { return files_; }
  /// The first error of a file.
  absl::Status status() const;

 private:
  void Add(std::unique_ptr<CaptureFile> file);

  std::vector<std::unique_ptr<CaptureFile>> files_;
  std::vector<FileFrame> heads_;  // The next frame of each file.
  std::vector<bool> has_head_;
  size_t taken_ = SIZE_MAX;  // The file whose frame was returned last.
};

/// Numbers the places where frames were captured: an interface of a file. On all interfaces at once
/// ("any"), a frame says which interface it passed.
class CapturePoints {
 public:
  static constexpr size_t kMost = 256;

  /// The number of the point. `inner`: the interface in a frame of "any", otherwise 0.
  uint32_t NumberOf(uint32_t file, uint32_t interface_index, uint32_t inner);
  size_t size() const { return keys_.size(); }
  /// "roce.pcapng", "roce.pcapng: uroce0".
  std::string NameOf(uint32_t point, const CaptureSet& set) const;

 private:
  struct Key {
    uint32_t file;
    uint32_t interface_index;
    uint32_t inner;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  std::vector<Key> keys_;
  uint32_t last_ = 0;
};

}  // namespace uroce::tools::analyze
