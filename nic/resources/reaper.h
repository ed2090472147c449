// SPDX-License-Identifier: Apache-2.0
// Where things end whose end takes long: to unmap a gigabyte takes 60 ms, and 160 ms if its pages
// go with it.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

namespace uroce::nic {

/// A thread that destroys what it is given, one after the other. What is given may be used by
/// nobody any more, and its end may touch nothing that another thread owns.
class Reaper {
 public:
  Reaper();
  /// Destroys what it still has.
  ~Reaper();
  Reaper(const Reaper&) = delete;
  Reaper& operator=(const Reaper&) = delete;

  /// Any thread.
  void Take(std::shared_ptr<void> last);

 private:
  void Run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<void>> waiting_;
  bool stopped_ = false;
  std::thread thread_;  // Last: it uses the others.
};

}  // namespace uroce::nic
