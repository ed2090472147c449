// SPDX-License-Identifier: Apache-2.0
#include "drivers/dpdk/driver_loading.h"

#include <dlfcn.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace uroce::drivers {
namespace {

thread_local DriverLoading* loading = nullptr;

}  // namespace

DriverLoading::DriverLoading() { loading = this; }

DriverLoading::~DriverLoading() { loading = nullptr; }

bool DriverLoading::LeaveOut(const char* path) {
  const absl::string_view whole = path == nullptr ? "" : path;
  const absl::string_view name = whole.substr(whole.rfind('/') + 1);
  if (!absl::StartsWith(name, "librte_")) return false;
  const char* const reason = dlerror();
  std::string line = absl::StrCat(name, ": ", reason == nullptr ? "no reason" : reason);
  // DPDK loads a file once for each of its links.
  if (std::ranges::find(left_out_, line) == left_out_.end()) left_out_.push_back(std::move(line));
  return true;
}

}  // namespace uroce::drivers

/// Stands before the C library's: DPDK has no setting that chooses its drivers.
extern "C" __attribute__((visibility("default"))) void* dlopen(const char* path,
                                                               int flags) noexcept {
  static const auto load =
      reinterpret_cast<void* (*)(const char*, int)>(dlsym(RTLD_NEXT, "dlopen"));
  void* const handle = load(path, flags);
  uroce::drivers::DriverLoading* const its = uroce::drivers::loading;
  // The program stands for the driver: DPDK asks nothing of a handle.
  return handle == nullptr && its != nullptr && its->LeaveOut(path) ? load(nullptr, flags) : handle;
}
