// SPDX-License-Identifier: Apache-2.0
#include "tools/analyze/story/damage.h"

#include <bit>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "pipeline/wire/icrc.h"

namespace uroce::tools::analyze {
namespace {

constexpr uint32_t kPolynomial = 0xedb88320;  // Reflected.

/// The exclusive or of the ICRC in the frame and of the one that it should have.
uint32_t SyndromeOf(const CapturedPacket& packet) {
  const uint8_t* const ip = packet.frame.data() + packet.view.ip_offset;
  const uint32_t state = wire::MaskedHeaderCrc32(
      ip, static_cast<size_t>(packet.view.icrc_offset - packet.view.ip_offset),
      packet.view.is_ipv6);
  return wire::IcrcFromState(state) ^ packet.icrc_bytes;
}

/// Undoes one bit of the register.
constexpr uint32_t StepBack(uint32_t state) {
  return (state & 0x80000000u) != 0 ? (state ^ kPolynomial) << 1 | 1 : state << 1;
}

struct ChangedByte {
  size_t offset = 0;  // In the frame.
  uint8_t bits = 0;
};

/// A change of one byte, and behind it nothing, leaves a register that, run backwards to that byte,
/// has the change in its low eight bits.
std::optional<ChangedByte> FindByte(const CapturedPacket& packet, uint32_t syndrome) {
  uint32_t state = syndrome;
  for (size_t at = packet.view.icrc_offset; at > packet.view.ip_offset; --at) {
    for (int bit = 0; bit < 8; ++bit) state = StepBack(state);
    if ((state & ~0xffu) == 0) return ChangedByte{at - 1, static_cast<uint8_t>(state)};
  }
  return std::nullopt;
}

/// The name of the field that a byte is in.
std::string FieldOf(const CapturedPacket& packet, size_t offset) {
  const size_t bth = packet.view.bth_offset;
  const size_t udp = bth - 8;
  const size_t payload =
      packet.packet.payload.empty()
          ? packet.view.icrc_offset
          : static_cast<size_t>(packet.packet.payload.data() - packet.frame.data());
  if (offset < udp) return "the IP header";
  if (offset < udp + 2) return "the UDP source port";
  if (offset < bth) return "the UDP header";
  if (offset == bth) return "the opcode";
  if (offset < bth + 4) return "the BTH";
  if (offset > bth + 4 && offset < bth + 8) return "the destination QPN";
  if (offset == bth + 8) return "the AckReq byte";
  if (offset > bth + 8 && offset < bth + 12) return "the PSN";
  if (offset < payload) return "the extended headers";
  if (offset < payload + packet.packet.payload.size()) {
    return absl::StrCat("byte ", offset - payload, " of the payload");
  }
  return "the pad";
}

std::string BitsText(uint8_t bits) {
  if (std::popcount(bits) != 1) return absl::StrCat(std::popcount(bits), " bits");
  return absl::StrCat("bit ", std::countr_zero(bits));
}

}  // namespace

Damage ExplainDamage(const CapturedPacket& packet) {
  const uint32_t syndrome = SyndromeOf(packet);
  if (std::popcount(syndrome) <= 2) {
    // So few bits are the change of the ICRC itself.
    return {.text = absl::StrCat(std::popcount(syndrome) == 1 ? "one bit" : "two bits",
                                 " of the ICRC itself changed; the packet is whole"),
            .repaired = {packet.frame.begin(), packet.frame.end()}};
  }
  if (const std::optional<ChangedByte> changed = FindByte(packet, syndrome)) {
    Damage damage;
    damage.text = absl::StrCat(BitsText(changed->bits), " of byte ", changed->offset,
                               " of the frame, in ", FieldOf(packet, changed->offset), ", changed");
    damage.repaired.assign(packet.frame.begin(), packet.frame.end());
    damage.repaired[changed->offset] ^= changed->bits;
    return damage;
  }
  if (!packet.view.is_ipv6) {
    const size_t behind = static_cast<size_t>(packet.view.icrc_offset - packet.view.ip_offset) - 6;
    if (const auto change = wire::FieldChange(syndrome, behind)) {
      return {.text = absl::StrCat("the IP identification changed from ",
                                   packet.identification ^ *change, " to ", packet.identification,
                                   " on the way, or the sender computed with another one"),
              .repaired = {packet.frame.begin(), packet.frame.end()}};
    }
  }
  return {.text = "no change of a single byte or of the IP identification explains it",
          .repaired = {}};
}

}  // namespace uroce::tools::analyze
