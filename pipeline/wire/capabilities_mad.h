// SPDX-License-Identifier: Apache-2.0
// The MAD by which two uroce NICs tell each other which extensions of the standard they support.
// selective-repeat.md defines its bytes. Its class is in the range for vendors with an OUI (0x30 to
// 0x4F), so another vendor's NIC does not answer it, or refuses it by a status.
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

/// The extensions that a NIC supports on all its reliable connections.
struct Capabilities {
  static constexpr uint32_t kSelectiveRepeat = 1u << 0;

  uint32_t features = 0;  ///< Bits. A reader ignores bits that it does not know.
  uint64_t instance = 0;  ///< Random at each start of the daemon: tells restarts.
  bool selective_repeat() const { return (features & kSelectiveRepeat) != 0; }
  friend bool operator==(const Capabilities&, const Capabilities&) = default;
};

/// A request with the capabilities of its sender, or the response with those of the responder.
struct CapabilitiesMad {
  MadMethod method = MadMethod::kGet;
  uint16_t status = 0;          ///< Of a response; not 0: the request was not understood.
  uint64_t transaction_id = 0;  ///< Of the request; the response repeats it.
  Capabilities capabilities;    ///< Of the sender. Meaningless when `status` is not 0.
  friend bool operator==(const CapabilitiesMad&, const CapabilitiesMad&) = default;
};

/// Why a MAD is no CapabilitiesMad, or kOk.
enum class CapabilitiesResult : uint8_t {
  kOk,
  kBadLength,        ///< Not 256 bytes.
  kBadBaseVersion,   ///< Not 1.
  kBadClass,         ///< Another management class.
  kBadClassVersion,  ///< Not 1.
  kBadMethod,        ///< Neither Get nor GetResp, or a Get with a status.
  kBadAttribute,     ///< Not Capabilities.
  kBadOui,           ///< Another vendor's.
  kSegmented,        ///< RMPP is active: the message has more MADs.
  kBadVersion,       ///< 0. Higher versions have the fields of version 1, then others.
};

/// Decodes one MAD. `mad` is valid only on kOk. A response that refuses is kOk, whatever follows
/// its header.
[[nodiscard]] CapabilitiesResult DecodeCapabilities(std::span<const uint8_t> bytes,
                                                    CapabilitiesMad& mad);
/// Encodes one MAD. Reserved fields are 0.
std::array<uint8_t, kMadBytes> EncodeCapabilities(const CapabilitiesMad& mad);

/// "Get Capabilities tid=0123456789abcdef features=00000001 instance=0123456789abcdef", or
/// "GetResp Capabilities tid=.. status=000c". Allocates.
std::string ToString(const CapabilitiesMad& mad);

}  // namespace uroce::wire
