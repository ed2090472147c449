// SPDX-License-Identifier: Apache-2.0
#include "verbs-shim/memory/map_budget.h"

#include <fcntl.h>
#include <sys/syscall.h>

#include "verbs-shim/memory/maps.h"
#include "verbs-shim/memory/system_call.h"

namespace uroce::memory {
namespace {

constexpr uint64_t kDefaultLimit = 65530;  // The kernel's default.
constexpr uint64_t kMapsPerSwap = 3;       // It may cut a mapping into three, and keeps one.
constexpr uint64_t kMostSwaps = 1024;
// Refusals until the next count: counting tens of thousands of mappings takes tens of ms.
constexpr uint32_t kRefusals = 256;

uint64_t ReadLimit() {
  const int64_t fd = OpenFile("/proc/sys/vm/max_map_count", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return kDefaultLimit;
  char text[24] = {};
  const int64_t bytes = SystemCall(SYS_read, fd, text, sizeof(text));
  SystemCall(SYS_close, fd);
  uint64_t limit = 0;
  for (int64_t i = 0; i < bytes && text[i] >= '0' && text[i] <= '9'; ++i) {
    limit = limit * 10 + static_cast<uint64_t>(text[i] - '0');
  }
  return limit != 0 ? limit : kDefaultLimit;
}

}  // namespace

uint32_t MapBudget::Share(uint64_t used, uint64_t limit) {
  const uint64_t usable = limit - limit / 8;
  if (used >= usable) return 0;
  const uint64_t swaps = (usable - used) / kMapsPerSwap;
  return static_cast<uint32_t>(swaps < kMostSwaps ? swaps : kMostSwaps);
}

bool MapBudget::Take() {
  if (refusals_ > 0) {
    --refusals_;
    return false;
  }
  if (left_ == 0) {
    uint64_t used = 0;
    if (CountMaps(used) != 0) return false;
    left_ = Share(used, ReadLimit());
  }
  if (left_ == 0) {
    refusals_ = kRefusals;
    return false;
  }
  --left_;
  return true;
}

}  // namespace uroce::memory
