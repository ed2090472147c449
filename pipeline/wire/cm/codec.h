// SPDX-License-Identifier: Apache-2.0
// The codec between messages of the connection manager and the 256 bytes of a MAD
// (docs/protocol/cm.md, sections 1 and 2).
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
  kBadMethod,        ///< Not Send: nothing can be got or set here.
  kUnknownAttribute,
  kZeroCommId,  ///< The sender's or the receiver's communication ID is 0 where it must not be.
  kBadInfo,     ///< More additional information than its field holds.
};
inline constexpr int kCmDecodeResultCount = static_cast<int>(CmDecodeResult::kBadInfo) + 1;

/// Decodes one MAD. `message` is valid only on kOk. Each value is in the range of its field; the
/// caller checks whether the values make sense together.
[[nodiscard]] CmDecodeResult DecodeCm(std::span<const uint8_t> mad, CmMessage& message);

/// Encodes one message. Reserved fields are 0; values are cut to the bits of their fields.
std::array<uint8_t, kMadBytes> EncodeCm(const CmMessage& message);

}  // namespace uroce::wire
