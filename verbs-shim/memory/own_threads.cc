// SPDX-License-Identifier: Apache-2.0
#include "verbs-shim/memory/own_threads.h"

#include <time.h>

#include "verbs-shim/memory/system_call.h"

namespace uroce::memory {
namespace {

constexpr int kTries = 400;
constexpr timespec kBetweenTries{.tv_sec = 0, .tv_nsec = 50'000};

}  // namespace

constinit OwnThreads g_own_threads;

bool OwnThreads::Pause() {
  for (int i = 0; i < kTries && !is_paused_; ++i) {
    is_paused_ = Change(kFree, kPaused);
    if (!is_paused_) SystemCall(SYS_nanosleep, &kBetweenTries, 0);
  }
  return is_paused_;
}

void OwnThreads::Resume() {
  if (is_paused_) Leave();
  is_paused_ = false;
}

void OwnThreads::Forget() {
  count_ = 0;
  is_paused_ = false;
  state_ = kFree;
}

}  // namespace uroce::memory
