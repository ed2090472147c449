// SPDX-License-Identifier: Apache-2.0
// Properties of an operation that a requester needs, as bits: looked up once when a work is posted,
// and tested by one instruction each time the work is considered.
#pragma once

#include <array>
#include <cstdint>

#include "pipeline/transport/work.h"

namespace uroce::transport {

/// Traits of a work. A WRITE has none but kExecutable.
struct WorkTraits {
  static constexpr uint8_t kRead = 1;
  static constexpr uint8_t kAtomic = 2;
  static constexpr uint8_t kAtomicWrite = 4;
  static constexpr uint8_t kLocal = 8;          ///< Done on this side alone, without a packet.
  static constexpr uint8_t kTakesReceive = 16;  ///< The responder needs a receive work for it.
  static constexpr uint8_t kFence = 32;
  static constexpr uint8_t kExecutable = 64;  ///< Well formed, with a known opcode.
};

namespace internal {

constexpr uint8_t TraitsOf(WorkOpcode opcode) {
  switch (opcode) {
    case WorkOpcode::kWrite:
      return WorkTraits::kExecutable;
    case WorkOpcode::kWriteWithImm:
    case WorkOpcode::kSend:
    case WorkOpcode::kSendWithImm:
    case WorkOpcode::kSendWithInvalidate:
      return WorkTraits::kExecutable | WorkTraits::kTakesReceive;
    case WorkOpcode::kRead:
      return WorkTraits::kExecutable | WorkTraits::kRead;
    case WorkOpcode::kCompareSwap:
    case WorkOpcode::kFetchAdd:
      return WorkTraits::kExecutable | WorkTraits::kAtomic;
    case WorkOpcode::kAtomicWrite:
      return WorkTraits::kExecutable | WorkTraits::kAtomicWrite;
    case WorkOpcode::kLocalInvalidate:
    case WorkOpcode::kBindWindow:
      return WorkTraits::kExecutable | WorkTraits::kLocal;
  }
  return 0;
}

inline constexpr auto kTraits = [] {
  std::array<uint8_t, 256> traits{};
  for (uint32_t i = 0; i < traits.size(); ++i) traits[i] = TraitsOf(WorkOpcode(i));
  return traits;
}();

}  // namespace internal

constexpr uint8_t TraitsOf(const SendWork& work) {
  const uint8_t traits = internal::kTraits[static_cast<uint8_t>(work.opcode)];
  const int fence = work.fence ? WorkTraits::kFence : 0;
  const int malformed = work.malformed ? WorkTraits::kExecutable : 0;
  return static_cast<uint8_t>((traits | fence) & ~malformed);
}

}  // namespace uroce::transport
