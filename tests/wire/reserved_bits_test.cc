// SPDX-License-Identifier: Apache-2.0
// The fields that the standard reserves, against what the encoder writes: 0, whatever the values of
// the other fields are. Where they lie is said here once more, apart from packet.h.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/wire/reencode.h"

namespace uroce::wire {
namespace {

constexpr size_t kEthernetBytes = 14;
constexpr size_t kUdpBytes = 8;
constexpr size_t kBthBytes = 12;

/// Bits of one byte of a header that must be 0.
struct Reserved {
  size_t place;
  uint8_t bits;
};

// IBTA vol. 1, 9.2: header version, 6 bits behind FECN and BECN, 7 bits behind AckReq.
constexpr Reserved kBth[] = {{1, 0x0f}, {4, 0x3f}, {8, 0x7f}};
// RFC 791: the first of the three flags.
constexpr Reserved kIpv4[] = {{6, 0x80}};
constexpr Reserved kDeth[] = {{4, 0xff}};
constexpr Reserved kXrceth[] = {{0, 0xff}};
// IBTA vol. 1, 9.3.5: bit 7 of the syndrome.
constexpr Reserved kAeth[] = {{0, 0x80}};

/// All values that fields can have, all ones or all zeros.
TransportHeader Extreme(Opcode opcode, bool ones) {
  const uint64_t word = ones ? ~uint64_t{0} : 0;
  const auto half = static_cast<uint32_t>(word);
  TransportHeader header;
  header.opcode = opcode;
  header.solicited = header.ack_request = ones;
  header.pkey = static_cast<uint16_t>(word);
  header.dest_qpn = Qpn(half & 0xffffff);
  header.psn = Psn(half);
  header.aeth = {.syndrome = static_cast<uint8_t>(word & 0x7f), .msn = half & 0xffffff};
  header.immediate = half;
  header.invalidate_rkey = Rkey(half);
  header.reth = {.va = word, .rkey = Rkey(half), .length_bytes = half};
  header.atomic = {.va = word, .rkey = Rkey(half), .swap_add = word, .compare = word};
  header.atomic_original = word;
  header.deth = {.qkey = half, .source_qpn = Qpn(half & 0xffffff)};
  header.xrc_srqn = half & 0xffffff;
  return header;
}

HeaderTemplateConfig ExtremePath(bool ones, bool is_ipv6) {
  const auto byte = static_cast<uint8_t>(ones ? 0xff : 0);
  HeaderTemplateConfig path;
  path.source_mac.fill(byte);
  path.destination_mac.fill(byte);
  path.source.bytes.fill(byte);
  path.destination.bytes.fill(byte);
  if (!is_ipv6)
    path.source.bytes =
        path.destination.bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, byte, byte, byte, byte};
  path.traffic_class = path.hop_limit = byte;
  path.flow_label = ones ? 0xfffff : 0;
  path.udp_source_port = ones ? 0xffff : 0;
  path.dest_qpn = Qpn(ones ? 0xffffff : 0);
  path.pkey = ones ? 0xffff : 0;
  return path;
}

template <size_t count>
size_t Check(const std::vector<uint8_t>& frame, size_t header, const Reserved (&reserved)[count]) {
  size_t wrong = 0;
  for (const auto& [place, bits] : reserved) wrong += (frame[header + place] & bits) != 0;
  return wrong;
}

/// How many of a frame's reserved fields are not 0.
size_t Wrong(const std::vector<uint8_t>& frame, bool is_ipv6) {
  const size_t ip_bytes = is_ipv6 ? 40 : 20;
  const size_t bth = kEthernetBytes + ip_bytes + kUdpBytes;
  const OpcodeInfo& info = InfoOf(static_cast<Opcode>(frame[bth]));
  size_t wrong = Check(frame, bth, kBth);
  if (!is_ipv6) wrong += Check(frame, kEthernetBytes, kIpv4);
  // Each of them is the first behind the BTH, but an AETH never follows one of the others.
  const size_t extended = bth + kBthBytes;
  if (info.Has(OpcodeInfo::kDeth)) wrong += Check(frame, extended, kDeth);
  if (info.Has(OpcodeInfo::kXrceth)) wrong += Check(frame, extended, kXrceth);
  if (info.Has(OpcodeInfo::kAeth)) wrong += Check(frame, extended, kAeth);
  return wrong;
}

/// Manufacturers may define these opcodes.
constexpr int kFirstVendorOpcode = 0xc0;

TEST(ReservedBitsTest, AreZeroInEveryPacketOfTheStandard) {
  int opcodes = 0;
  for (int value = 0; value < kFirstVendorOpcode; ++value) {
    const auto opcode = static_cast<Opcode>(value);
    if (!InfoOf(opcode).Has(OpcodeInfo::kKnown)) continue;
    ++opcodes;
    for (const bool ones : {false, true}) {
      for (const bool is_ipv6 : {false, true}) {
        for (const size_t payload_bytes : {0, 1, 16}) {
          const std::vector<uint8_t> payload(payload_bytes, 0xff);
          const uint16_t identification = ones ? 0xffff : 0;
          const std::vector<uint8_t> frame = EncodeFrame(
              ExtremePath(ones, is_ipv6), Extreme(opcode, ones), payload, identification);
          EXPECT_EQ(Wrong(frame, is_ipv6), 0u) << "opcode " << value << " ones " << ones;
        }
      }
    }
  }
  EXPECT_GE(opcodes, 60) << "RC, UC, UD, CNP and XRC";
}

TEST(ReservedBitsTest, TheTestSeesEachOfThem) {
  std::vector<uint8_t> frame =
      EncodeFrame(ExtremePath(false, false), Extreme(Opcode::kUdSendOnly, false), {}, 0);
  const size_t bth = kEthernetBytes + 20 + kUdpBytes;
  for (const size_t place : {kEthernetBytes + 6, bth + 1, bth + 4, bth + 8, bth + kBthBytes + 4}) {
    frame[place] ^= place == kEthernetBytes + 6 ? 0x80 : 0x01;
    EXPECT_EQ(Wrong(frame, false), 1u) << place;
    frame[place] ^= place == kEthernetBytes + 6 ? 0x80 : 0x01;
  }
}

}  // namespace
}  // namespace uroce::wire
