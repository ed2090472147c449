// SPDX-License-Identifier: Apache-2.0
// Converts packets to text, for tests, tools and state dumps. Allocates: not for the datapath.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "pipeline/wire/decode.h"
#include "pipeline/wire/packet.h"

namespace uroce::wire {

/// "WRITE_FIRST", "UC_SEND_ONLY", "XRC_READ_REQUEST", "CNP"; "UNKNOWN" for unknown opcodes.
std::string OpcodeName(Opcode opcode);

/// The meaning of the syndrome of an AETH: "ACK", "NAK_SEQ", "RNR_NAK" ...; "AETH_RESERVED".
std::string_view SyndromeName(uint8_t syndrome);

/// One packet in one line. Headers that it does not have are left out, and flags come last:
///   "WRITE_FIRST psn=ffffff len=1024"           len: payload bytes
///   "SEND_LAST_WITH_IMM psn=000000 len=476 imm=a1b2c3d4 ackreq se"
///   "SEND_ONLY_WITH_INVALIDATE psn=000000 len=16 inv=08000127"
///   "READ_REQUEST psn=000014 len=2049"          len: bytes asked for
///   "READ_RESPONSE_FIRST psn=000014 len=1024 msn=1"
///   "COMPARE_SWAP psn=000015 compare=1 swap=2", "FETCH_ADD psn=000015 add=3"     hexadecimal
///   "ATOMIC_ACK psn=000015 msn=1 original=0"    hexadecimal
///   "ACK psn=000000 msn=1", with " credits=N" unless 31 (unlimited)
///   "NAK_SEQ psn=000000 msn=1", "RNR_NAK psn=00001a msn=0 timer=12"
std::string ToString(const TransportHeader& header, uint32_t payload_bytes);
std::string ToString(const Packet& packet);

/// "kTruncated" and so on, without the k.
std::string_view ToString(DecodeResult result);

}  // namespace uroce::wire
