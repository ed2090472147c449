// SPDX-License-Identifier: Apache-2.0
// The destination of a capture: stdout, one file, or a ring of files.
#pragma once

#include <chrono>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <deque>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "pipeline/os/fd.h"

namespace uroce::tools {

enum class [[nodiscard]] WriteResult : uint8_t{
    kOk,
    kReaderGone,  ///< The pipe has no reader any more.
    kStuck,       ///< The capture is to end, and the pipe's reader takes nothing.
    kFailed,      ///< See errno. None of the bytes stay in the file.
};

/// The name of file `number` (from 1) of a ring, in dumpcap's format: roce.pcapng becomes
/// roce_00001_20240131235959.pcapng. `local_time` is the start of the file.
std::string RingFileName(const std::string& path, uint64_t number, const tm& local_time);

/// Whether poll(2) finds one of `events` within `patience`. Signals do not end the wait.
bool Await(int fd, short events, std::chrono::milliseconds patience);

/// Owns the open file. Writes only whole blocks, so that a file cut short by a full disk is still
/// well formed.
class CaptureOutput {
 public:
  /// `path` "-" is stdout. With `is_ring`, files are named by RingFileName, and when there are
  /// more than `kept_files`, the oldest are removed (0: none is removed). Only its owner may
  /// read a new file; the owner is the user that called sudo. Errors: kInvalidArgument, with the
  /// path.
  static absl::StatusOr<CaptureOutput> Open(const std::string& path, bool is_ring,
                                            uint64_t kept_files);

  /// Writes the whole blocks in `parts`. A signal handler sets `stopping` when the capture is to
  /// end.
  WriteResult Write(std::span<std::span<const uint8_t>> parts,
                    const volatile sig_atomic_t& stopping);
  /// Ends the current file of the ring and begins the next one.
  absl::Status Next();

  int fd() const { return fd_.get(); }
  const std::string& name() const { return name_; }
  /// How many files were begun so far.
  uint64_t file_count() const { return file_count_; }

 private:
  CaptureOutput(std::string path, bool is_ring, uint64_t kept_files)
      : path_(std::move(path)), is_ring_(is_ring), kept_files_(kept_files) {}
  absl::Status OpenFile();
  /// Like write(2), with as many of the parts as fit one call.
  ssize_t WriteSome(std::span<const std::span<const uint8_t>> parts) const;
  void RemoveOldest();

  std::string path_;
  bool is_ring_;
  uint64_t kept_files_;
  Fd fd_;
  std::string name_;
  uint64_t file_count_ = 0;
  std::deque<std::string> ring_names_;  // Of existing files, the oldest first.
};

}  // namespace uroce::tools
