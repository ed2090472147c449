// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/queue/pollers.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

#include "pipeline/datapath/queue/wake_pace.h"

namespace uroce::datapath {
namespace {

// The word lies in memory of this daemon, which the program shares: the kernel waits for nobody.
bool WakeSleepers(uint32_t& word, uint32_t bits) {
  return syscall(SYS_futex, &word, FUTEX_WAKE_BITSET, INT_MAX, nullptr, nullptr, bits) >= 0;
}

}  // namespace

void Pollers::Wake() const {
  if (!rings::TakePollers(*word, bit)) return;
  if (pace == nullptr) {
    WakeSleepers(word->value, bit);
  } else {
    (void)pace->Run([this] { return WakeSleepers(word->value, bit); });
  }
}

}  // namespace uroce::datapath
