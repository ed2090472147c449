// SPDX-License-Identifier: Apache-2.0
// From the 256 bytes of a MAD to a message of the connection manager, and back.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "pipeline/wire/cm/message.h"
#include "pipeline/wire/gsi.h"

namespace uroce::wire {

/// Why a MAD is no message of the connection manager, or kOk.
enum class CmDecodeResult : uint8_t {
  kOk,
  kBadLength,        ///< Not 256 bytes.
  kBadBaseVersion,   ///< Not 1.
  kNotCm,            ///< Another management class.
  kBadClassVersion,  ///< Not 2.
  kBadMethod,        ///< Not Send: ours has nothing that could be got or set.
  kUnknownAttribute,
  kZeroCommId,  ///< None of the sender's, or of the receiver's, is named where it must be.
  kBadInfo,     ///< More additional information than its field holds.
};
inline constexpr int kCmDecodeResultCount = static_cast<int>(CmDecodeResult::kBadInfo) + 1;

/// Decodes one MAD. `message` is of use only on kOk. Values are in the ranges that their fields
/// give; whether they make sense together is the reader's to judge.
[[nodiscard]] CmDecodeResult DecodeCm(std::span<const uint8_t> mad, CmMessage& message);

/// Reserved fields are 0; of each value the bits that its field has are taken.
std::array<uint8_t, kMadBytes> EncodeCm(const CmMessage& message);

}  // namespace uroce::wire
