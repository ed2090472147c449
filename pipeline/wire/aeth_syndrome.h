// SPDX-License-Identifier: Apache-2.0
// Syndromes of the ACK extended transport header (docs/protocol/wire-format.md, section 4).
#pragma once

#include <cstdint>

namespace uroce::wire {

inline constexpr uint8_t kSyndromeKindMask = 0xe0;
inline constexpr uint8_t kSyndromeValueMask = 0x1f;

// Kinds: the top three bits. 0x40 and values from 0x80 on are reserved: such packets are ignored.
inline constexpr uint8_t kSyndromeAck = 0x00;     ///< Value: credit code.
inline constexpr uint8_t kSyndromeRnrNak = 0x20;  ///< Value: RNR timer code.
inline constexpr uint8_t kSyndromeNak = 0x60;     ///< Value: reason, below.

/// Credit code of a responder that does not limit its requester.
inline constexpr uint8_t kCreditsUnlimited = 0x1f;

// Whole syndromes of the NAKs.
inline constexpr uint8_t kNakSequence = 0x60;
inline constexpr uint8_t kNakInvalidRequest = 0x61;
inline constexpr uint8_t kNakRemoteAccess = 0x62;
inline constexpr uint8_t kNakRemoteOperation = 0x63;
inline constexpr uint8_t kNakInvalidRdRequest = 0x64;

}  // namespace uroce::wire
