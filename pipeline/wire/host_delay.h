// SPDX-License-Identifier: Apache-2.0
// How long the packet that a response answers may have waited for its receiver's CPU: six bits of
// the BTH, between NICs that agree to it (selective-repeat.md).
#pragma once

#include <bit>
#include <cstdint>

#include "pipeline/base/types.h"

namespace uroce::wire {

/// The six reserved bits beside FECN and BECN. The ICRC does not cover them.
inline constexpr uint8_t kHostDelayMask = 0x3f;
inline constexpr Nanos kHostDelayUnit{8'000};

/// The time of a code: 0 is none; other codes have two bits of fraction and four of exponent, 40 us
/// to 1.8 s.
constexpr Nanos HostDelayOf(uint8_t code) {
  if ((code & kHostDelayMask) == 0) return Nanos(0);
  return Nanos((int64_t{4 + (code & 3)} << (code >> 2 & 15)) * kHostDelayUnit.count());
}

/// The code of the longest time that is not longer than `delay`.
constexpr uint8_t HostDelayCode(Nanos delay) {
  if (delay < HostDelayOf(1)) return 0;
  const auto units = static_cast<uint64_t>(delay.count() / kHostDelayUnit.count());
  const int exponent = static_cast<int>(std::bit_width(units)) - 3;
  if (exponent > 15) return kHostDelayMask;
  return static_cast<uint8_t>(exponent << 2 | static_cast<int>(units >> exponent & 3));
}

static_assert(HostDelayOf(1) == Nanos(40'000) && HostDelayCode(Nanos(40'000)) == 1);
static_assert(HostDelayCode(HostDelayOf(kHostDelayMask)) == kHostDelayMask);

}  // namespace uroce::wire
