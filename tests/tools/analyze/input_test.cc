// SPDX-License-Identifier: Apache-2.0
// From bytes of files to packets: tags, tunnels, cut frames, packed files, and files that lie.
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "tests/wire/reencode.h"
#include "tools/analyze/input/capture_set.h"
#include "tools/analyze/input/packet_reader.h"

namespace uroce::tools::analyze {
namespace {

using Bytes = std::vector<uint8_t>;

Bytes operator+(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// A SEND of 64 bytes, PSN 7.
Bytes Send(bool ipv6 = false) {
  wire::HeaderTemplateConfig config;
  for (Gid* const gid : {&config.source, &config.destination}) {
    if (ipv6) {
      gid->bytes[0] = 0xfd;
    } else {
      gid->bytes[10] = gid->bytes[11] = 0xff;
      gid->bytes[12] = 10;
    }
    gid->bytes[15] = gid == &config.source ? 1 : 2;
  }
  config.dest_qpn = Qpn(0x22);
  wire::TransportHeader header;
  header.opcode = wire::Opcode::kSendOnly;
  header.psn = wire::Psn(7);
  return wire::EncodeFrame(config, header, Bytes(64, 1), 99);
}

Bytes First(const Bytes& bytes, size_t count) { return {bytes.begin(), bytes.begin() + count}; }
Bytes From(const Bytes& bytes, size_t at) { return {bytes.begin() + at, bytes.end()}; }

CapturedPacket Read(const Bytes& frame, uint16_t link_type = 1, uint32_t wire_bytes = 0) {
  static PacketReader reader;
  CapturedPacket packet;
  reader.Read({.number = 1,
               .link_type = link_type,
               .wire_bytes = wire_bytes != 0 ? wire_bytes : static_cast<uint32_t>(frame.size()),
               .bytes = frame},
              packet);
  return packet;
}

void ExpectTheSend(const Bytes& frame, uint16_t link_type = 1) {
  const CapturedPacket packet = Read(frame, link_type);
  ASSERT_EQ(packet.kind, FrameKind::kRoce);
  EXPECT_EQ(packet.icrc, IcrcState::kRight);
  EXPECT_EQ(packet.packet.header.psn.value(), 7u);
  EXPECT_EQ(packet.packet.header.dest_qpn, Qpn(0x22));
  EXPECT_EQ(packet.packet.payload.size(), 64u);
}

Bytes OuterIpv4(uint8_t protocol, size_t payload_bytes) {
  const auto length = static_cast<uint16_t>(20 + payload_bytes);
  return {0x45,
          0,
          static_cast<uint8_t>(length >> 8),
          static_cast<uint8_t>(length),
          0,
          1,
          0,
          0,
          64,
          protocol,
          0,
          0,
          192,
          0,
          2,
          1,
          192,
          0,
          2,
          2};
}

// ---- Around the packet ----

TEST(InputTest, TagsOfVlansArePassedOver) {
  for (const bool ipv6 : {false, true}) {
    const Bytes frame = Send(ipv6);
    const Bytes macs = First(frame, 12);
    ExpectTheSend(frame);
    ExpectTheSend(macs + Bytes{0x81, 0, 0x60, 5} + From(frame, 12));
    ExpectTheSend(macs + Bytes{0x88, 0xa8, 0, 9, 0x81, 0, 0x60, 5} + From(frame, 12));
    ExpectTheSend(macs + Bytes{0x91, 0, 0, 9, 0x81, 0, 0, 1, 0x81, 0, 0, 2} + From(frame, 12));
  }
}

TEST(InputTest, TunnelsArePassedOver) {
  for (const bool ipv6 : {false, true}) {
    const Bytes frame = Send(ipv6);
    const Bytes ip = From(frame, 14);
    const Bytes ip_type = {frame[12], frame[13]};
    const Bytes outer = First(Send(), 14);
    ExpectTheSend(outer + OuterIpv4(47, 4 + ip.size()) + Bytes{0, 0} + ip_type + ip);
    // Checksum, key and sequence number.
    ExpectTheSend(outer + OuterIpv4(47, 16 + ip.size()) + Bytes{0xb0, 0} + ip_type + Bytes(12) +
                  ip);
    ExpectTheSend(outer + OuterIpv4(47, 4 + frame.size()) + Bytes{0, 0, 0x65, 0x58} + frame);
    const Bytes vxlan = Bytes{0xc0, 0, 0x12, 0xb5, 0, 0, 0, 0} + Bytes{8, 0, 0, 0, 0, 0, 5, 0};
    ExpectTheSend(outer + OuterIpv4(17, vxlan.size() + frame.size()) + vxlan + frame);
  }
}

TEST(InputTest, OtherLinksThanEthernetAreRead) {
  const Bytes frame = Send();
  const Bytes ip = From(frame, 14);
  ExpectTheSend(ip, 101);
  ExpectTheSend(ip, 228);
  ExpectTheSend(From(Send(true), 14), 229);
  Bytes cooked(16);
  cooked[1] = 4;  // Sent by this host.
  cooked[14] = 8;
  ExpectTheSend(cooked + ip, 113);
  EXPECT_EQ(Read(cooked + ip, 113).direction, Direction::kOutbound);
  Bytes cooked2(20);
  cooked2[0] = 8;
  cooked2[7] = 3;
  ExpectTheSend(cooked2 + ip, 276);
  EXPECT_EQ(Read(cooked2 + ip, 276).inner_interface, 3u);
}

/// Every length of a frame, with and without tags and tunnels, is read without touching more.
TEST(InputTest, CutFramesTellWhatTheyHold) {
  const Bytes frame = Send();
  const Bytes tunnel =
      First(frame, 14) + OuterIpv4(47, 4 + frame.size()) + Bytes{0, 0, 0x65, 0x58} + frame;
  for (const Bytes& whole : {frame, tunnel}) {
    bool was_roce = false;
    for (size_t held = 0; held < whole.size(); ++held) {
      const CapturedPacket packet =
          Read(First(whole, held), 1, static_cast<uint32_t>(whole.size()));
      EXPECT_NE(packet.icrc, IcrcState::kRight);
      EXPECT_NE(packet.kind, FrameKind::kMalformed) << held;
      if (packet.kind != FrameKind::kRoce) {
        EXPECT_FALSE(was_roce) << held;
        continue;
      }
      was_roce = true;
      EXPECT_TRUE(packet.is_cut);
      EXPECT_EQ(packet.packet.header.psn.value(), 7u);
      EXPECT_EQ(packet.packet.payload.size(), 64u);
    }
    EXPECT_TRUE(was_roce);
  }
}

// ---- Files ----

class FileTest : public testing::Test {
 protected:
  FileTest() : path_(testing::TempDir() + "analyze_input_" + std::to_string(getpid())) {}
  ~FileTest() override { std::remove(path_.c_str()); }

  /// The PSNs of the packets; `error`: what was wrong with the file.
  std::vector<uint32_t> PsnsOf(const Bytes& bytes, std::string* error = nullptr) {
    std::ofstream(path_, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<long>(bytes.size()));
    std::vector<uint32_t> psns;
    absl::StatusOr<CaptureSet> set = CaptureSet::Open({path_});
    absl::Status status = set.status();
    PacketReader reader;
    CapturedPacket packet;
    for (SetFrame next; set.ok() && set->Next(next);) {
      reader.Read(next.frame, packet);
      if (packet.kind == FrameKind::kRoce) psns.push_back(packet.packet.header.psn.value());
      last_time_ns_ = next.frame.time_ns;
    }
    if (set.ok() && !set->files()[0]->interfaces().empty()) {
      name_ = set->files()[0]->interfaces()[0].name;
    }
    if (set.ok()) status = set->status();
    if (error != nullptr) *error = std::string(status.message());
    EXPECT_TRUE(status.ok() || error != nullptr) << status.message();
    return psns;
  }

  int64_t last_time_ns_ = 0;
  std::string name_;  // Of the first interface.

 private:
  std::string path_;
};

Bytes Le32(uint32_t value) {
  Bytes bytes(4);
  memcpy(bytes.data(), &value, 4);
  return bytes;
}

Bytes Block(uint32_t type, Bytes body) {
  body.resize((body.size() + 3) / 4 * 4);
  const Bytes length = Le32(static_cast<uint32_t>(body.size() + 12));
  return Le32(type) + length + body + length;
}

Bytes Section() { return Block(0x0a0d0d0a, Le32(0x1a2b3c4d) + Le32(1) + Bytes(8, 0xff)); }
Bytes Interface(const Bytes& options = {}) { return Block(1, Le32(1) + Le32(0) + options); }
Bytes Option(uint16_t code, const Bytes& value) {
  Bytes padded = value;
  padded.resize((value.size() + 3) / 4 * 4);
  return Bytes{static_cast<uint8_t>(code), static_cast<uint8_t>(code >> 8),
               static_cast<uint8_t>(value.size()), static_cast<uint8_t>(value.size() >> 8)} +
         padded;
}
Bytes Packet(uint32_t interface_index = 0, const Bytes& options = {}, uint32_t time_high = 0) {
  Bytes frame = Send();
  const Bytes length = Le32(static_cast<uint32_t>(frame.size()));
  frame.resize((frame.size() + 3) / 4 * 4);
  return Block(
      6, Le32(interface_index) + Le32(time_high) + Le32(5) + length + length + frame + options);
}

const std::vector<uint32_t> kOne = {7};

TEST_F(FileTest, PackedFilesAreUnpacked) {
  const Bytes plain = Section() + Interface() + Packet();
  Bytes packed(4096);
  z_stream state{};
  ASSERT_EQ(deflateInit2(&state, 6, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  state.next_in = const_cast<uint8_t*>(plain.data());
  state.avail_in = static_cast<uInt>(plain.size());
  state.next_out = packed.data();
  state.avail_out = static_cast<uInt>(packed.size());
  ASSERT_EQ(deflate(&state, Z_FINISH), Z_STREAM_END);
  packed.resize(state.total_out);
  deflateEnd(&state);
  EXPECT_EQ(PsnsOf(packed), kOne);
  std::string error;
  PsnsOf(First(packed, packed.size() - 9), &error);
  EXPECT_NE(error.find("cut short"), std::string::npos) << error;
  PsnsOf(First(packed, 20) + Bytes(40, 0xee), &error);
  EXPECT_NE(error, "");

  Bytes squeezed(4096);
  squeezed.resize(ZSTD_compress(squeezed.data(), squeezed.size(), plain.data(), plain.size(), 3));
  EXPECT_EQ(PsnsOf(squeezed), kOne);
  PsnsOf(First(squeezed, squeezed.size() - 5), &error);
  EXPECT_NE(error, "");
}

TEST_F(FileTest, UnknownBlocksArePassedOver) {
  EXPECT_EQ(PsnsOf(Section() + Block(0xbad, Bytes(40)) + Interface() + Block(10, {}) + Packet()),
            kOne);
  // A second section has its own interfaces.
  EXPECT_EQ(PsnsOf(Section() + Interface() + Packet() + Section() + Interface() + Packet()).size(),
            2u);
}

TEST_F(FileTest, ImpossibleLengthsEndTheFile) {
  std::string error;
  for (const uint32_t length : {0u, 4u, 11u, 13u, 0x7fffffffu, 0xffffffffu}) {
    EXPECT_EQ(
        PsnsOf(Section() + Interface() + Packet() + Le32(6) + Le32(length) + Bytes(64), &error),
        kOne);
    EXPECT_NE(error.find("impossible length"), std::string::npos) << length;
  }
  Bytes lying = Packet();
  lying[20] = 0xff;  // The frame is longer than its block.
  lying[21] = 0xff;
  EXPECT_TRUE(PsnsOf(Section() + Interface() + lying, &error).empty());
  EXPECT_NE(error.find("longer than its block"), std::string::npos);
}

TEST_F(FileTest, FramesOfNoInterfaceEndTheFile) {
  std::string error;
  for (const uint32_t index : {1u, 0xffffffffu}) {
    EXPECT_EQ(PsnsOf(Section() + Interface() + Packet() + Packet(index), &error), kOne);
    EXPECT_NE(error.find("no interface"), std::string::npos);
  }
  PsnsOf(Section() + Packet(), &error);
  EXPECT_NE(error.find("no interface"), std::string::npos);
}

TEST_F(FileTest, OptionsThatLieAreEnded) {
  const Bytes beyond = {2, 0, 0xff, 0xff, 1, 2, 3, 4};
  EXPECT_EQ(PsnsOf(Section() + Interface(beyond) + Packet(0, beyond)), kOne);
  EXPECT_EQ(PsnsOf(Section() + Interface(Option(9, {})) + Packet(0, Option(2, {1}))), kOne);
}

TEST_F(FileTest, NamesDoNotSteerTerminals) {
  PsnsOf(Section() + Interface(Option(2, {'e', 0x1b, '[', '2', 'J', 0x7f, '\n'})) + Packet());
  EXPECT_EQ(name_, "e?[2J??");
  PsnsOf(Section() + Interface(Option(2, Bytes(5000, 'e'))) + Packet());
  EXPECT_EQ(name_.size(), 64u);
}

TEST_F(FileTest, TimesThatCannotBeAreBounded) {
  for (const uint8_t resolution : Bytes{0, 6, 9, 127, 128, 255}) {
    for (const uint32_t high : {0u, 0x7fffffffu, 0xffffffffu}) {
      for (const uint8_t offset : Bytes{0, 0x7f, 0x80, 0xff}) {
        const Bytes options = Option(9, {resolution}) + Option(14, Bytes(8, offset));
        EXPECT_EQ(PsnsOf(Section() + Interface(options) + Packet(0, {}, high)), kOne);
        EXPECT_GE(last_time_ns_, 0);
        EXPECT_LE(last_time_ns_, INT64_MAX / 2);
      }
    }
  }
}

TEST_F(FileTest, AFileThatEndsWithinAFrameEndsBeforeIt) {
  const Bytes whole = Section() + Interface() + Packet() + Packet();
  for (size_t held = whole.size() - Packet().size(); held < whole.size(); ++held) {
    EXPECT_EQ(PsnsOf(First(whole, held)), kOne) << held;
  }
}

}  // namespace
}  // namespace uroce::tools::analyze
