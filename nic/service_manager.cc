// SPDX-License-Identifier: Apache-2.0
#include "nic/service_manager.h"

#include <systemd/sd-daemon.h>
#include <time.h>

#include "absl/strings/str_cat.h"

namespace uroce::nic {
namespace {

constexpr int kKeepEnvironment = 0;
constexpr int64_t kNanosPerMicrosecond = 1000;

}  // namespace

ServiceManager::ServiceManager(EventLoop& loop) : loop_(loop) {
  uint64_t watchdog_us = 0;
  if (sd_watchdog_enabled(kKeepEnvironment, &watchdog_us) <= 0) return;
  interval_ = Nanos{static_cast<int64_t>(watchdog_us) * kNanosPerMicrosecond / 2};
  TellAlive();
}

ServiceManager::~ServiceManager() {
  if (timer_ != 0) loop_.Cancel(timer_);
}

void ServiceManager::TellReady(const std::string& status) {
  sd_notify(kKeepEnvironment, absl::StrCat("READY=1\nSTATUS=", status).c_str());
}

void ServiceManager::TellReloading() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const int64_t now_us =
      int64_t{now.tv_sec} * 1'000'000 + int64_t{now.tv_nsec} / kNanosPerMicrosecond;
  sd_notify(kKeepEnvironment, absl::StrCat("RELOADING=1\nMONOTONIC_USEC=", now_us).c_str());
}

void ServiceManager::TellStopping() { sd_notify(kKeepEnvironment, "STOPPING=1"); }

void ServiceManager::TellAlive() {
  sd_notify(kKeepEnvironment, "WATCHDOG=1");
  timer_ = loop_.After(interval_, [this] { TellAlive(); });
}

}  // namespace uroce::nic
