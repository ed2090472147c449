// SPDX-License-Identifier: Apache-2.0
// Packet histories of queue pairs as pcapng files; one is written for each queue pair that enters
// the error state by itself.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "nic/base/event_loop.h"
#include "nic/base/user_limits.h"
#include "nic/objects/nic.h"
#include "pipeline/capture/pcapng_writer.h"
#include "pipeline/datapath/capture/packet_records.h"
#include "pipeline/shm/abi/uroce_capture.h"

namespace uroce::nic {

/// Says why a queue pair failed: "qp 0x000123 failed: RETRY_EXC_ERR at psn 1040", or "... refused
/// psn 1042, NAK remote access error".
std::string FailureComment(const datapath::FailedQueuePair& failed);

/// A pcapng file of `packets`, seen at `interface`, made in pieces. `comment` is attached to the
/// section and to the last packet; it may be "". Packets have their whole length, because Wireshark
/// takes cut ones for malformed: zeros stand for what was not kept, and the section says so.
class HistoryFile {
 public:
  HistoryFile(std::vector<datapath::HistoryPacket> packets, uroce_capture_interface interface,
              std::string comment);

  /// Appends the next piece: some tens of kilobytes. Returns false after the last one.
  bool Append(std::string& text);

 private:
  const std::vector<datapath::HistoryPacket> packets_;
  const std::string comment_;
  capture::PcapngWriter writer_;
  size_t next_ = 0;
};

/// A name like "uroce0-qp0x000123-20240131T235959.123456789Z.pcapng"; the time is in UTC.
std::string HistoryFileName(const std::string& device, Qpn qpn, Nanos time);

/// Writes a packet history file for each queue pair that enters the error state by itself. Control
/// thread; background tasks write and remove files, one at a time, so that a file system that does
/// not answer holds up no other thread. --history-files files of this daemon are kept; a new one
/// replaces the oldest file of the user that has most, and so with those that wait to be written.
/// Each user's lines in the log are limited. Without --history-dir the recorder does nothing.
class HistoryRecorder {
 public:
  HistoryRecorder(EventLoop& loop, BackgroundTasks& background_tasks, Nic& nic,
                  LogBudget& log_budget);
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
  void OnWritten(uid_t uid, const std::string& path, const std::string& comment, Qpn qpn,
                 int error);
  void GoOn();
  /// The user of the queue pair's program. Queue pairs that no program has any more are those of
  /// one user, who does not exist.
  uid_t UserOf(Qpn qpn) const;

  EventLoop& loop_;
  BackgroundTasks& tasks_;
  Nic& nic_;
  LogBudget& log_budget_;
  EventLoop::Id watch_ = 0;
  BackgroundTasks::Id writing_ = 0;
  bool busy_ = false;
  SharedQueue<datapath::FailedQueuePair> waiting_;
  struct File {
    std::string path;
    Qpn qpn;
  };
  SharedQueue<File> files_;
  Counts counts_;
};

}  // namespace uroce::nic
