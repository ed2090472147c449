// SPDX-License-Identifier: Apache-2.0
#include "tests/transport/script/packet_text.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <span>
#include <sstream>

#include "pipeline/wire/packet.h"
#include "pipeline/wire/to_string.h"

namespace uroce::transport {
namespace {

constexpr std::array<uint8_t, 8192> kZeros{};

[[noreturn]] void Die(const std::string& text, const std::string& word) {
  std::fprintf(stderr, "script: cannot read '%s' in '%s'\n", word.c_str(), text.c_str());
  std::abort();
}

std::optional<uint8_t> SyndromeOf(const std::string& name) {
  static const std::map<std::string, uint8_t> kNames = {
      {"ACK", wire::kCreditsUnlimited},
      {"RNR_NAK", wire::kSyndromeRnrNak},
      {"NAK_SEQ", wire::kNakSequence},
      {"NAK_INVALID_REQUEST", wire::kNakInvalidRequest},
      {"NAK_REMOTE_ACCESS", wire::kNakRemoteAccess},
      {"NAK_REMOTE_OPERATION", wire::kNakRemoteOperation},
      {"AETH_RESERVED", uint8_t{0x40}},
  };
  const auto found = kNames.find(name);
  if (found == kNames.end()) return std::nullopt;
  return found->second;
}

void SetOpcode(const std::string& text, const std::string& name, wire::TransportHeader& header) {
  if (const auto syndrome = SyndromeOf(name)) {
    header.opcode = wire::Opcode::kAcknowledge;
    header.aeth.syndrome = *syndrome;
    return;
  }
  for (int value = 0; value < 0x100; ++value) {
    header.opcode = static_cast<wire::Opcode>(value);
    if (wire::OpcodeName(header.opcode) == name) return;
  }
  Die(text, name);
}

/// The map of "1-2,4/6", which lies here until the next one.
std::span<const uint8_t> MapOf(const std::string& text) {
  static std::array<uint8_t, wire::kMaxKeptMapBytes> map;
  std::array<bool, wire::kMaxKeptPackets> kept{};
  const size_t slash = text.find('/');
  std::istringstream ranges(text.substr(0, slash));
  for (std::string range; std::getline(ranges, range, ',');) {
    const size_t first = std::stoul(range);
    const size_t dash = range.find('-');
    const size_t last = dash == std::string::npos ? first : std::stoul(range.substr(dash + 1));
    for (size_t at = first; at <= last; ++at) kept.at(at) = true;
  }
  const auto bits = [&kept](uint32_t first) {
    uint64_t word = 0;
    for (uint32_t bit = 0; bit < 64; ++bit) word |= uint64_t{kept.at(first + bit)} << bit;
    return word;
  };
  const auto packets = static_cast<uint32_t>(std::stoul(text.substr(slash + 1)));
  return std::span(map).first(wire::WriteKeptMap(packets, bits, map));
}

void SetField(const std::string& text, const std::string& word, wire::TransportHeader& header,
              uint32_t& length, std::span<const uint8_t>& map) {
  const size_t equals = word.find('=');
  const std::string name = word.substr(0, equals);
  const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
  const auto hex = [&] { return std::strtoull(value.c_str(), nullptr, 16); };
  const auto dec = [&] { return static_cast<uint32_t>(std::strtoul(value.c_str(), nullptr, 10)); };
  if (name == "psn") {
    header.psn = wire::Psn(static_cast<uint32_t>(hex()));
  } else if (name == "len") {
    header.reth.length_bytes = length = dec();
  } else if (name == "total") {
    header.reth.length_bytes = dec();
  } else if (name == "va") {
    header.reth.va = header.atomic.va = hex();
  } else if (name == "rkey") {
    header.reth.rkey = header.atomic.rkey = Rkey(static_cast<uint32_t>(hex()));
  } else if (name == "msn") {
    header.aeth.msn = dec();
  } else if (name == "timer") {
    header.aeth.syndrome = static_cast<uint8_t>(wire::kSyndromeRnrNak | dec());
  } else if (name == "credits") {
    header.aeth.syndrome = static_cast<uint8_t>(dec());
  } else if (name == "syndrome") {
    header.aeth.syndrome = static_cast<uint8_t>(hex());
  } else if (name == "imm") {
    header.immediate = __builtin_bswap32(static_cast<uint32_t>(hex()));
  } else if (name == "inv") {
    header.invalidate_rkey = Rkey(static_cast<uint32_t>(hex()));
  } else if (name == "srq") {
    header.xrc_srqn = static_cast<uint32_t>(hex());
  } else if (name == "qkey") {
    header.deth.qkey = static_cast<uint32_t>(hex());
  } else if (name == "source") {
    header.deth.source_qpn = Qpn(static_cast<uint32_t>(hex()));
  } else if (name == "compare") {
    header.atomic.compare = hex();
  } else if (name == "swap" || name == "add") {
    header.atomic.swap_add = hex();
  } else if (name == "original") {
    header.atomic_original = hex();
  } else if (name == "ackreq") {
    header.ack_request = true;
  } else if (name == "waited") {
    header.host_delay = wire::HostDelayCode(Nanos(dec()));
  } else if (name == "kept") {
    map = MapOf(value);
  } else if (name == "se") {
    header.solicited = true;
  } else {
    Die(text, word);
  }
}

}  // namespace

wire::Packet PacketOf(const std::string& text, wire::Service service) {
  std::istringstream words(text);
  std::string word;
  words >> word;
  wire::Packet packet;
  packet.header.aeth.syndrome = wire::kCreditsUnlimited;
  SetOpcode(text, word, packet.header);
  if (wire::ServiceOf(packet.header.opcode) == wire::Service::kRc) {
    packet.header.opcode = wire::OpcodeOf(service, packet.header.opcode);
  }
  uint32_t length = 0;
  std::span<const uint8_t> map;
  while (words >> word) SetField(text, word, packet.header, length, map);
  if (wire::OperationOf(packet.header.opcode) == wire::Opcode::kReadRequest) length = 0;
  packet.payload = std::span(kZeros).first(std::min<size_t>(length, kZeros.size()));
  if (!map.empty()) packet.payload = map;
  return packet;
}

}  // namespace uroce::transport
