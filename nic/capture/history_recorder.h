// SPDX-License-Identifier: Apache-2.0
// Writes a packet history file for each queue pair that enters the error state by itself.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "nic/base/background_tasks.h"
#include "nic/base/event_loop.h"
#include "nic/objects/nic.h"
#include "pipeline/datapath/capture/packet_history.h"

namespace uroce::nic {

/// Control thread; background tasks write the files, one at a time. The newest --flight-files files
/// of this daemon are kept. Without --flight-recorder the recorder does nothing.
class HistoryRecorder {
 public:
  HistoryRecorder(EventLoop& loop, BackgroundTasks& background_tasks, Nic& nic);
  ~HistoryRecorder();
  HistoryRecorder(const HistoryRecorder&) = delete;
  HistoryRecorder& operator=(const HistoryRecorder&) = delete;

  struct Counts {
    uint64_t written = 0;
    uint64_t missed =
        0;  ///< More failed at once than wait to be written, or no file could be made.
  };
  const Counts& counts() const { return counts_; }
  /// The path of the newest file of a queue pair, or "".
  std::string FileOf(Qpn qpn) const;

 private:
  void OnFailures();
  void WriteNext();
  void OnWritten(const std::string& path, const std::string& comment, Qpn qpn, int error);

  EventLoop& loop_;
  BackgroundTasks& tasks_;
  Nic& nic_;
  EventLoop::Id watch_ = 0;
  BackgroundTasks::Id writing_ = 0;
  bool busy_ = false;
  std::deque<datapath::FailedQueuePair> waiting_;
  struct File {
    std::string path;
    Qpn qpn;
  };
  std::deque<File> files_;  ///< Oldest first.
  Counts counts_;
};

}  // namespace uroce::nic
