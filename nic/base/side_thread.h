// SPDX-License-Identifier: Apache-2.0
// A thread for work that takes long or never ends. To unmap a gigabyte takes 60 ms; to close a
// stranger's socket takes as long as the stranger likes.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <utility>

namespace uroce {

/// A thread that does one thing after the other, and ends when it has been idle for a while. Nobody
/// waits for it: what is left to do when this object goes is done all the same. Where the system
/// refuses a thread, it is asked again when work comes and when any of these objects goes.
class SideThread {
 public:
  /// `held` is let go once this object has gone and all is done.
  explicit SideThread(std::shared_ptr<void> held = nullptr);
  ~SideThread();
  SideThread(const SideThread&) = delete;
  SideThread& operator=(const SideThread&) = delete;

  /// Any thread. `work` runs and is destroyed on the thread. False: the system refuses a thread;
  /// the work is kept for the next call of Do or Launch.
  bool Do(std::function<void()> work);
  /// Any thread. Starts the thread if there is work and none. False: the system refuses it.
  bool Launch();
  /// Any thread. Destroys `last` on the thread. Nobody else may have it, and its end may touch
  /// nothing that another thread owns.
  void End(std::shared_ptr<void> last);

  /// An object that `thread` destroys, whoever lets go of it last.
  template <typename T>
  static std::shared_ptr<T> MakeEndingOn(std::shared_ptr<SideThread> thread, T object) {
    return {new T(std::move(object)),
            [thread = std::move(thread)](T* last) { thread->End(std::shared_ptr<T>(last)); }};
  }

  /// Any thread. Asks the system again for the threads that objects which have gone still need.
  static void LaunchStranded();

  /// Waits until the threads of all objects that have gone are done; false: after `limit` some are
  /// not.
  static bool AwaitAll(std::chrono::milliseconds limit);

 private:
  struct State;
  struct Stranded;
  static bool LaunchIfNeeded(const std::shared_ptr<State>& state);
  static void Run(const std::shared_ptr<State>& state);

  std::shared_ptr<State> state_;
};

}  // namespace uroce
