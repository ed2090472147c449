// SPDX-License-Identifier: Apache-2.0
// The MAD by which two NICs of this make tell each other what they know beyond the standard:
// selective-repeat.md has its bytes. Its class is one of those that vendors may use with an OUI
// (0x30 to 0x4F), so an end of another make leaves it unanswered, or refuses it by a status.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "pipeline/wire/gsi.h"

namespace uroce::wire {

enum class MadMethod : uint8_t {
  kGet = 0x01,
  kGetResponse = 0x81,
};

/// What a NIC understands on all its reliable connections.
struct Capabilities {
  static constexpr uint32_t kSelectiveRepeat = 1u << 0;

  uint32_t features = 0;  ///< Bits; those that a reader does not know say nothing to it.
  uint64_t instance = 0;  ///< Random, drawn when the daemon starts: another one has started anew.
  bool selective_repeat() const { return (features & kSelectiveRepeat) != 0; }
  friend bool operator==(const Capabilities&, const Capabilities&) = default;
};

/// A question, with the asker's own capabilities, or its answer.
struct CapabilitiesMad {
  MadMethod method = MadMethod::kGet;
  uint16_t status = 0;          ///< Of an answer; any but 0: the question was not understood.
  uint64_t transaction_id = 0;  ///< The asker's, repeated in the answer.
  Capabilities capabilities;    ///< Of the sender. Nothing where `status` is not 0.
  friend bool operator==(const CapabilitiesMad&, const CapabilitiesMad&) = default;
};

/// Why a MAD is none of these, or kOk.
enum class CapabilitiesResult : uint8_t {
  kOk,
  kBadLength,        ///< Not 256 bytes.
  kBadBaseVersion,   ///< Not 1.
  kBadClass,         ///< Another management class.
  kBadClassVersion,  ///< Not 1.
  kBadMethod,        ///< Neither Get nor GetResp, or a Get with a status.
  kBadAttribute,     ///< Not Capabilities.
  kBadOui,           ///< Another vendor's.
  kSegmented,        ///< RMPP is at work: there is more than this MAD.
  kBadVersion,       ///< 0. A higher one has the fields of version 1, and more behind them.
};

/// Decodes one MAD. `mad` is of use only on kOk. An answer that refuses may have anything behind
/// its header, and is kOk.
[[nodiscard]] CapabilitiesResult DecodeCapabilities(std::span<const uint8_t> bytes,
                                                    CapabilitiesMad& mad);
/// Reserved fields are 0.
std::array<uint8_t, kMadBytes> EncodeCapabilities(const CapabilitiesMad& mad);

/// "Get Capabilities tid=0123456789abcdef features=00000001 instance=0123456789abcdef", or
/// "GetResp Capabilities tid=.. status=000c". Allocates.
std::string ToString(const CapabilitiesMad& mad);

}  // namespace uroce::wire
