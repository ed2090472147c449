// SPDX-License-Identifier: Apache-2.0
#include "pipeline/wire/to_string.h"

#include <array>
#include <bit>
#include <cinttypes>
#include <cstdio>

#include "pipeline/wire/packet.h"

namespace uroce::wire {
namespace {

constexpr std::array<std::string_view, 0x1e> kOperationNames = {
    "SEND_FIRST",
    "SEND_MIDDLE",
    "SEND_LAST",
    "SEND_LAST_WITH_IMM",
    "SEND_ONLY",
    "SEND_ONLY_WITH_IMM",
    "WRITE_FIRST",
    "WRITE_MIDDLE",
    "WRITE_LAST",
    "WRITE_LAST_WITH_IMM",
    "WRITE_ONLY",
    "WRITE_ONLY_WITH_IMM",
    "READ_REQUEST",
    "READ_RESPONSE_FIRST",
    "READ_RESPONSE_MIDDLE",
    "READ_RESPONSE_LAST",
    "READ_RESPONSE_ONLY",
    "ACK",
    "ATOMIC_ACK",
    "COMPARE_SWAP",
    "FETCH_ADD",
    "",
    "SEND_LAST_WITH_INVALIDATE",
    "SEND_ONLY_WITH_INVALIDATE",
    "",
    "",
    "",
    "",
    "",
    "ATOMIC_WRITE",
};

/// Appends printf-style; one field is never longer than the buffer.
template <typename... Values>
void Append(std::string& text, const char* format, Values... values) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, format, values...);
  text += buffer;
}

std::string_view ServicePrefix(Opcode opcode) {
  switch (ServiceOf(opcode)) {
    case Service::kUc:
      return "UC_";
    case Service::kUd:
      return "UD_";
    case Service::kXrc:
      return "XRC_";
    case Service::kRc:
    case Service::kRd:
    case Service::kCnp:
      return "";
  }
  return "";
}

void AppendAeth(std::string& text, const Aeth& aeth) {
  Append(text, " msn=%" PRIu32, aeth.msn);
  const uint8_t value = aeth.syndrome & kSyndromeValueMask;
  const uint8_t kind = aeth.syndrome & kSyndromeKindMask;
  if (kind == kSyndromeRnrNak) Append(text, " timer=%u", value);
  if (kind == kSyndromeAck && value != kCreditsUnlimited) Append(text, " credits=%u", value);
}

void AppendAtomic(std::string& text, const TransportHeader& header) {
  const bool fetch_add = (static_cast<uint8_t>(header.opcode) & 0x1f) == 0x14;
  if (fetch_add) {
    Append(text, " add=%" PRIx64, header.atomic.swap_add);
  } else {
    Append(text, " compare=%" PRIx64 " swap=%" PRIx64, header.atomic.compare,
           header.atomic.swap_add);
  }
}

/// Appends the kept packets by their distance from the PSN, a slash, and the size of the map.
void AppendKept(std::string& text, std::span<const uint8_t> bytes) {
  KeptMap map;
  if (!map.Parse(bytes)) {
    text += " kept=?";
    return;
  }
  const auto is_kept = [&](uint32_t at) {
    return at < map.packets() && (map.Kept(at & ~63u) >> (at & 63) & 1) != 0;
  };
  const char* separator = " kept=";
  for (uint32_t at = 0; at < map.packets(); ++at) {
    if (!is_kept(at)) continue;
    Append(text, "%s%" PRIu32, separator, at);
    const uint32_t first = at;
    while (is_kept(at + 1)) ++at;
    if (at != first) Append(text, "-%" PRIu32, at);
    separator = ",";
  }
  if (*separator == ' ') text += separator;
  Append(text, "/%" PRIu32, map.packets());
}

void AppendImmediate(std::string& text, uint32_t immediate) {
  const auto bytes = std::bit_cast<std::array<uint8_t, 4>>(immediate);
  Append(text, " imm=%02x%02x%02x%02x", bytes[0], bytes[1], bytes[2], bytes[3]);
}

}  // namespace

std::string OpcodeName(Opcode opcode) {
  if (!InfoOf(opcode).Has(OpcodeInfo::kKnown)) return "UNKNOWN";
  if (opcode == Opcode::kCnp) return "CNP";
  std::string name(ServicePrefix(opcode));
  if (InfoOf(opcode).Has(OpcodeInfo::kKeptMap)) return name + "SELECTIVE_ACK";
  name += kOperationNames[static_cast<uint8_t>(opcode) & 0x1f];
  return name;
}

std::string_view SyndromeName(uint8_t syndrome) {
  const uint8_t kind = syndrome & kSyndromeKindMask;
  if (kind == kSyndromeAck) return "ACK";
  if (kind == kSyndromeRnrNak) return "RNR_NAK";
  switch (syndrome) {
    case kNakSequence:
      return "NAK_SEQ";
    case kNakInvalidRequest:
      return "NAK_INVALID_REQUEST";
    case kNakRemoteAccess:
      return "NAK_REMOTE_ACCESS";
    case kNakRemoteOperation:
      return "NAK_REMOTE_OPERATION";
    case kNakInvalidRdRequest:
      return "NAK_INVALID_RD_REQUEST";
    default:
      return "AETH_RESERVED";
  }
}

std::string ToString(const TransportHeader& header, uint32_t payload_bytes) {
  const OpcodeInfo& info = InfoOf(header.opcode);
  // An acknowledgement has the name of its syndrome, with XRC too.
  const bool acknowledge = info.Has(OpcodeInfo::kResponse) && !info.Has(OpcodeInfo::kPayload) &&
                           !info.Has(OpcodeInfo::kAtomic) && !info.Has(OpcodeInfo::kKeptMap);
  std::string text =
      acknowledge ? std::string(SyndromeName(header.aeth.syndrome)) : OpcodeName(header.opcode);
  Append(text, " psn=%06" PRIx32, header.psn.value());
  const bool read_request = info.Has(OpcodeInfo::kRead) && info.Has(OpcodeInfo::kRequest);
  if (read_request) payload_bytes = header.reth.length_bytes;
  if (read_request || info.Has(OpcodeInfo::kPayload)) Append(text, " len=%" PRIu32, payload_bytes);
  if (info.Has(OpcodeInfo::kXrceth)) Append(text, " srq=%06" PRIx32, header.xrc_srqn);
  if (info.Has(OpcodeInfo::kAtomicEth)) AppendAtomic(text, header);
  if (info.Has(OpcodeInfo::kAeth)) AppendAeth(text, header.aeth);
  if (info.Has(OpcodeInfo::kAtomicAckEth)) {
    Append(text, " original=%" PRIx64, header.atomic_original);
  }
  if (info.Has(OpcodeInfo::kImmDt)) AppendImmediate(text, header.immediate);
  if (info.Has(OpcodeInfo::kIeth)) Append(text, " inv=%08" PRIx32, header.invalidate_rkey.value());
  if (header.ack_request) text += " ackreq";
  if (header.solicited) text += " se";
  return text;
}

std::string ToString(const Packet& packet) {
  std::string text = ToString(packet.header, static_cast<uint32_t>(packet.payload.size()));
  if (InfoOf(packet.header.opcode).Has(OpcodeInfo::kKeptMap)) AppendKept(text, packet.payload);
  return text;
}

std::string_view ToString(DecodeResult result) {
  switch (result) {
    case DecodeResult::kOk:
      return "Ok";
    case DecodeResult::kNotIp:
      return "NotIp";
    case DecodeResult::kNotUdp:
      return "NotUdp";
    case DecodeResult::kNotRocePort:
      return "NotRocePort";
    case DecodeResult::kTruncated:
      return "Truncated";
    case DecodeResult::kBadIpVersion:
      return "BadIpVersion";
    case DecodeResult::kIpOptions:
      return "IpOptions";
    case DecodeResult::kFragment:
      return "Fragment";
    case DecodeResult::kMappedAddress:
      return "MappedAddress";
    case DecodeResult::kBadIpChecksum:
      return "BadIpChecksum";
    case DecodeResult::kBadUdpLength:
      return "BadUdpLength";
    case DecodeResult::kBadBthVersion:
      return "BadBthVersion";
    case DecodeResult::kBadPad:
      return "BadPad";
    case DecodeResult::kBadPayloadLength:
      return "BadPayloadLength";
    case DecodeResult::kUnknownOpcode:
      return "UnknownOpcode";
  }
  return "";
}

}  // namespace uroce::wire
