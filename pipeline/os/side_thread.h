// SPDX-License-Identifier: Apache-2.0
// A thread for work that takes long or never ends. Unmapping a gigabyte takes 60 ms; closing a
// socket of an untrusted process can block without limit.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <utility>

namespace uroce {

/// A thread that does one work after the other, and ends when it has been idle for a while. No
/// other thread waits for it: work that is left when this object is destroyed is still done. A
/// thread that the system refused is asked for again when work comes and when any of these objects
/// is destroyed.
class SideThread {
 public:
  /// `held` is released once this object is destroyed and all work is done.
  explicit SideThread(std::shared_ptr<void> held = nullptr);
  ~SideThread();
  SideThread(const SideThread&) = delete;
  SideThread& operator=(const SideThread&) = delete;

  /// `work` runs and is destroyed on the thread. False: the system refuses a thread; the work is
  /// kept for the next call of Do or Launch. Any thread.
  bool Do(std::function<void()> work);
  /// Starts the thread if there is work and no thread. False: the system refuses it. Any thread.
  bool Launch();
  /// Destroys `last` on the thread. There is no other holder, and its destructor touches nothing
  /// that another thread owns. Any thread.
  void End(std::shared_ptr<void> last);

  /// Makes an object that `thread` destroys, whichever thread releases it last.
  template <typename T>
  static std::shared_ptr<T> MakeEndingOn(std::shared_ptr<SideThread> thread, T object) {
    return {new T(std::move(object)),
            [thread = std::move(thread)](T* last) { thread->End(std::shared_ptr<T>(last)); }};
  }

  /// Asks the system again for the threads that destroyed objects still need. Any thread.
  static void LaunchStranded();

  /// Waits until all work is done and the threads of all destroyed objects have ended. False:
  /// after `limit` that is not so.
  static bool AwaitAll(std::chrono::milliseconds limit);

 private:
  struct State;
  struct Stranded;
  static bool LaunchIfNeeded(const std::shared_ptr<State>& state);
  static void Run(const std::shared_ptr<State>& state);

  std::shared_ptr<State> state_;
};

}  // namespace uroce
