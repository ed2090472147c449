// SPDX-License-Identifier: Apache-2.0
// The Internet checksum (RFC 1071). Pure.
#pragma once

#include <cstdint>
#include <span>

#include "pipeline/base/types.h"

namespace uroce::nic {

/// One's complement of the one's complement sum of the 16 bit words of `bytes`; an odd last byte
/// counts as if a zero followed. 0 over bytes that hold their own right checksum.
uint16_t InternetChecksum(std::span<const uint8_t> bytes);

/// The checksum of an ICMPv6 message and its pseudo header (RFC 8200, 8.1).
uint16_t Icmpv6Checksum(const Gid& source, const Gid& destination,
                        std::span<const uint8_t> message);

}  // namespace uroce::nic
