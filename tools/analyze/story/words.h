// SPDX-License-Identifier: Apache-2.0
// Codes of the protocol in words for people.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "pipeline/base/types.h"
#include "pipeline/wire/packet.h"
#include "tools/analyze/story/packet_ring.h"

namespace uroce::tools::analyze {

/// "1.25 ms".
std::string TimeText(int64_t nanos);
/// "12.5 Gb/s".
std::string RateText(double bits_per_second);
/// "64 B", "1.5 MB".
std::string BytesText(uint64_t bytes);
/// "10.0.0.2", "fd00::2".
std::string AddressText(const Gid& address);
/// "WRITE_MIDDLE", "ACK".
std::string PacketName(wire::Opcode opcode);
/// "ACK", "NAK", "RNR NAK" too.
std::string PacketName(const wire::TransportHeader& header);
/// What a NAK that ends a connection says of the request. `request`: nullptr if it was not seen.
std::string RefusalText(uint8_t syndrome, wire::Psn psn, const PacketMark* request);
/// "invalid service id" (docs/protocol/cm.md, section 9).
std::string RejectText(uint16_t reason);

}  // namespace uroce::tools::analyze
