// SPDX-License-Identifier: Apache-2.0
#include "nic/resources/number_pool.h"

#include <sys/random.h>

#include <cerrno>
#include <cstdlib>

namespace uroce::nic {

// getrandom of so few bytes fails only before the kernel's pool is ready, and then it waits.
uint32_t SecureRandom() {
  uint32_t value = 0;
  ssize_t got = 0;
  do {
    got = getrandom(&value, sizeof(value), 0);
  } while (got < 0 && errno == EINTR);
  if (got != sizeof(value)) std::abort();
  return value;
}

NumberPool::NumberPool(uint32_t bits, uint32_t group_bits, Random random)
    : mask_(bits == 32 ? ~0u : (1u << bits) - 1), group_bits_(group_bits), random_(random) {}

uint32_t NumberPool::Take(Nanos now) {
  EndRests(now);
  const uint64_t groups = (uint64_t{mask_} + 1) >> group_bits_;
  if (taken_.size() >= groups / 2) return 0;
  for (;;) {  // At least every second draw succeeds: the pool is at most half taken.
    const uint32_t number = random_() & mask_;
    if (number <= 1 || number == mask_ || (group_bits_ != 0 && number >> group_bits_ == 0))
      continue;
    if (taken_.insert(number >> group_bits_).second) return number;
  }
}

void NumberPool::Release(uint32_t number, Nanos now) {
  resting_.push_back({number >> group_bits_, now + kQuarantine});
}

void NumberPool::EndRests(Nanos now) {
  while (!resting_.empty() && resting_.front().until <= now) {
    taken_.erase(resting_.front().group);
    resting_.pop_front();
  }
}

}  // namespace uroce::nic
