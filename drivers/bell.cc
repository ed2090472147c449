// SPDX-License-Identifier: Apache-2.0
#include "drivers/bell.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

namespace uroce::drivers {

Bell::Bell() : event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void Bell::Ring() {
  if (!asleep_.exchange(false, std::memory_order_acq_rel)) return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(event_.get(), &one, sizeof(one));
}

void Bell::TakeBack() {
  asleep_.store(false, std::memory_order_relaxed);
  uint64_t rings = 0;
  [[maybe_unused]] const ssize_t got = read(event_.get(), &rings, sizeof(rings));
}

}  // namespace uroce::drivers
