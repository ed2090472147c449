// SPDX-License-Identifier: Apache-2.0
// Where the bytes of a capture go: stdout, one file, or a ring of files.
#pragma once

#include <csignal>
#include <cstdint>
#include <ctime>
#include <deque>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "nic/base/fd.h"

namespace uroce::tools {

enum class [[nodiscard]] WriteResult : uint8_t{
    kOk,
    kReaderGone,  ///< The pipe has no reader any more.
    kStuck,       ///< The capture was to end, and its pipe's reader takes nothing.
    kFailed,      ///< errno says why. Nothing of the bytes stays in the file.
};

/// Name of file `number` (from 1) of a ring, as dumpcap names them: roce.pcapng becomes
/// roce_00001_20240131235959.pcapng. `local_time` is when the file began.
std::string RingFileName(const std::string& path, uint64_t number, const tm& local_time);

/// Owns the open file. Writes whole blocks only, so that a file cut short by a full disk is still
/// well formed.
class CaptureOutput {
 public:
  /// `path` "-" is stdout. With `is_ring` files are named by RingFileName, and the oldest ones are
  /// removed when there are more than `kept_files` (0: none is removed).
  /// A new file is readable by its owner only, who is the user that called sudo.
  /// Errors: kInvalidArgument, naming the path.
  static absl::StatusOr<CaptureOutput> Open(const std::string& path, bool is_ring,
                                            uint64_t kept_files);

  /// Writes whole blocks, which lie in `parts`. `stopping` is set by a signal handler when the
  /// capture is to end.
  WriteResult Write(std::span<std::span<const uint8_t>> parts,
                    const volatile sig_atomic_t& stopping);
  /// Ends this file of the ring and begins the next one.
  absl::Status Next();

  int fd() const { return fd_.get(); }
  const std::string& name() const { return name_; }
  /// Files begun so far.
  uint64_t file_count() const { return file_count_; }

 private:
  CaptureOutput(std::string path, bool is_ring, uint64_t kept_files)
      : path_(std::move(path)), is_ring_(is_ring), kept_files_(kept_files) {}
  absl::Status OpenFile();
  /// As write(2), of as many parts as fit one call.
  ssize_t WriteSome(std::span<const std::span<const uint8_t>> parts) const;
  void RemoveOldest();

  std::string path_;
  bool is_ring_;
  uint64_t kept_files_;
  Fd fd_;
  std::string name_;
  uint64_t file_count_ = 0;
  std::deque<std::string> ring_names_;  // Of the files that exist, the oldest first.
};

}  // namespace uroce::tools
