// SPDX-License-Identifier: Apache-2.0
// Hands out what each has one holder at a time: numbers that others must not guess, and ranges of
// an arena.
#include "nic/base/allocators.h"

#include <sys/random.h>

#include <cerrno>
#include <cstdlib>
#include <iterator>

namespace uroce {

Extents::Extents(uint64_t begin, uint64_t end, uint64_t grain)
    : grain_(grain), free_bytes_(end - begin) {
  free_.emplace(begin, end - begin);
}

std::optional<uint64_t> Extents::Take(uint64_t length) {
  if (length == 0 || length > free_bytes_) return std::nullopt;
  const uint64_t wanted = RoundUp(length);
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    const auto [offset, available] = *it;
    if (available < wanted) continue;
    free_.erase(it);
    if (available > wanted) free_.emplace(offset + wanted, available - wanted);
    free_bytes_ -= wanted;
    return offset;
  }
  return std::nullopt;
}

void Extents::Give(uint64_t offset, uint64_t length) {
  uint64_t end = offset + RoundUp(length);
  free_bytes_ += end - offset;
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && next->first == end) {
    end += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == offset) {
      previous->second = end - previous->first;
      return;
    }
  }
  free_.emplace(offset, end - offset);
}

namespace {

constexpr int kMaxDraws = 1024;

}  // namespace

// getrandom of so few bytes fails only before the kernel's pool is ready. It waits then.
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

uint32_t NumberPool::Take(Nanos now, const Range& range) {
  EndRests(now);
  const uint64_t all = uint64_t{mask_} + 1;
  if (taken_.size() >= (all >> group_bits_) / 2) return 0;
  // Where at most half of the range is taken, at least every second draw succeeds.
  for (int draw = 0; draw < kMaxDraws; ++draw) {
    const uint64_t share = (random_() & mask_) * (range.end - range.first) / all;
    const auto number = static_cast<uint32_t>(range.first + share);
    if (number <= 1 || number == mask_ || (group_bits_ != 0 && number >> group_bits_ == 0))
      continue;
    if (taken_.insert(number >> group_bits_).second) return number;
  }
  return 0;
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

}  // namespace uroce
