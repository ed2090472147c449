// SPDX-License-Identifier: Apache-2.0
// The counters of all devices for readers that ask often, and the files that show them while a
// program has them open.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "nic/base/event_loop.h"
#include "nic/control/device_tree.h"
#include "nic/dumps/dump_stream.h"
#include "nic/metrics/open_metrics.h"
#include "nic/objects/client.h"
#include "pipeline/base/types.h"
#include "pipeline/os/fd.h"

namespace uroce::nic {

class Nic;
class NicDevice;
class StatWalk;

/// The counters of all devices for readers that ask often. Looks at the counters when a reader
/// asks, and only then. Questions that come while it looks get one answer together. An answer is
/// kept for 10 ms, and for 50 times the CPU time that it took: untrusted clients that ask without
/// end take 2 % of the control thread at most. Control thread.
class Statistics {
 public:
  using Answer = std::function<void(const std::shared_ptr<const Snapshot>& snapshot)>;

  explicit Statistics(const DumpContext& context);
  ~Statistics();
  Statistics(const Statistics&) = delete;
  Statistics& operator=(const Statistics&) = delete;

  /// Calls `answer` at once or later, unless this object ends first.
  void Ask(Answer answer);

  /// What is known is out of date: a device has come or gone.
  void Forget();

  static constexpr Nanos kLifespan{10'000'000};
  static constexpr int64_t kRestPerWork = 50;

 private:
  void Continue();
  void Finish();

  const DumpContext& context_;
  const Client self_;
  std::unique_ptr<StatWalk> walk_;
  Nanos spent_{0};
  Nanos fresh_until_{0};
  std::shared_ptr<const Snapshot> newest_;
  std::vector<Answer> waiting_;
  EventLoop::Id next_ = 0;
};

/// Files of counters that are fresh when they are read, below ports/1 of each device of the tree
/// (nic/devices/device_files.h).
///
/// Each file has a write lease (fcntl(2), F_SETLEASE): a process that opens it waits in the kernel
/// until this object has written the file again and gives the lease up. So files that no process
/// opens cost nothing. Leases are taken again after the time that an answer of Statistics is fresh.
/// A file that a process keeps open, and every file where the file system has no leases, is written
/// at first every few milliseconds, later once a second; then a reader may see a number between two
/// looks.
/// There are none when they would be more than half of the files that the daemon may have open.
/// Control thread, which blocks SIGIO once it has leases.
class LiveCounters {
 public:
  /// Makes the files of all devices. References outlive this object.
  LiveCounters(EventLoop& loop, const Nic& nic, Statistics& statistics, OwnTree& tree);
  ~LiveCounters();
  LiveCounters(const LiveCounters&) = delete;
  LiveCounters& operator=(const LiveCounters&) = delete;

  /// A device has come, and has no queue pair yet: makes its files.
  void OnAdded(const NicDevice& device);
  /// A device is about to go: nothing is written to its files any more.
  void OnRemoved(const std::string& name);

 private:
  struct File {
    std::string name;  ///< Below ports/1.
    Fd fd;
    std::string text;
  };

  void OnOpened();
  void Refresh();
  void Write(const Snapshot& snapshot);
  void MakeFiles(const NicDevice& device);
  absl::Status TryToMakeFiles(const NicDevice& device);
  void GiveUp(const absl::Status& status);
  void TakeLeases();

  EventLoop& loop_;
  const Nic& nic_;
  Statistics& statistics_;
  OwnTree& tree_;
  Fd signals_;  ///< SIGIO: a process opens a file.
  EventLoop::Id watch_ = 0;
  EventLoop::Id next_ = 0;
  Nanos without_lease_{0};  ///< How long a file without its lease is left as it is.
  bool is_refreshing_ = false;
  bool has_given_up_ = false;
  std::map<std::string, std::vector<File>> files_;  ///< By the name of the device.
};

}  // namespace uroce::nic
