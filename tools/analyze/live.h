// SPDX-License-Identifier: Apache-2.0
// A capture of a running daemon that is analyzed while it goes on: a child process captures into a
// pipe, which is read as a file.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/os/fd.h"
#include "tools/capture/command.h"

namespace uroce::tools::analyze {

/// One at a time. SIGINT, SIGTERM and SIGHUP to this process end the capture, and with it the file;
/// the process itself goes on.
class LiveCapture {
 public:
  /// What stands for the pipe in reports.
  static constexpr char kName[] = "live";

  /// Captures what `options` say, except for the file.
  static absl::StatusOr<std::unique_ptr<LiveCapture>> Start(const std::string& socket_path,
                                                            CaptureOptions options);
  /// Ends the capture, if it goes on.
  ~LiveCapture();
  LiveCapture(const LiveCapture&) = delete;
  LiveCapture& operator=(const LiveCapture&) = delete;

  /// A file name by which the pipe can be opened once.
  std::string path() const;
  /// Waits for the end of the capture, and says why it failed if it did.
  absl::Status Wait();

 private:
  LiveCapture(pid_t child, Fd frames, Fd errors);

  pid_t child_;
  Fd frames_;
  Fd errors_;  // What the child says when it fails.
};

}  // namespace uroce::tools::analyze
