// SPDX-License-Identifier: Apache-2.0
// How the daemon's threads lose what only its start needs. Each test runs in its own process, which
// has capabilities where root runs the tests.
#include "nic/privileges.h"

#include <gtest/gtest.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <thread>

namespace uroce::nic {
namespace {

using std::chrono::milliseconds;

/// The exit status of a child that runs `body`.
template <typename Body>
int InChild(Body&& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// A thread that handles no signal for `time`, as on a busy machine, and then runs `rest`.
template <typename Rest>
std::thread DeafThread(milliseconds time, Rest rest) {
  std::promise<void> is_deaf;
  std::future<void> began = is_deaf.get_future();
  std::thread thread([time, rest, is_deaf = std::move(is_deaf)]() mutable {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    is_deaf.set_value();
    std::this_thread::sleep_for(time);
    rest();
  });
  began.wait();
  return thread;
}

/// Of the calling thread.
bool HasCapabilities() {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {};
  if (syscall(SYS_capget, &header, sets) != 0) return true;
  return ((sets[0].permitted | sets[1].permitted) | (sets[0].effective | sets[1].effective)) != 0;
}

TEST(PrivilegesTest, AThreadThatDoesNotRunForSecondsLosesItsCapabilities) {
  EXPECT_EQ(InChild([] {
              std::promise<bool> has_none;
              std::thread thread = DeafThread(milliseconds(2500), [&has_none] {
                sigset_t all;
                sigfillset(&all);
                pthread_sigmask(SIG_UNBLOCK, &all, nullptr);
                has_none.set_value(!HasCapabilities());
              });
              if (!LimitPrivileges(0).ok()) return 1;
              const bool is_right = has_none.get_future().get();
              thread.join();
              return is_right ? 0 : 2;
            }),
            0);
}

TEST(PrivilegesTest, AThreadThatEndsIsNotWaitedFor) {
  EXPECT_EQ(InChild([] {
              std::thread thread = DeafThread(milliseconds(100), [] {});
              const bool is_right = LimitPrivileges(0).ok();
              thread.join();
              return is_right ? 0 : 1;
            }),
            0);
}

}  // namespace
}  // namespace uroce::nic
