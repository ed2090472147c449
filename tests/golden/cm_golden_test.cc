// SPDX-License-Identifier: Apache-2.0
// Messages of Linux's connection manager: all are taken, read as what tshark makes of them, and
// come out byte for byte when made again from their values.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <string>
#include <vector>

#include "pipeline/wire/cm/codec.h"
#include "pipeline/wire/cm/rdma_cm_header.h"
#include "pipeline/wire/cm/to_string.h"
#include "pipeline/wire/decode.h"
#include "tests/golden/capture_file.h"

namespace uroce::wire {
namespace {

/// The MADs of a capture, by the number of their frame, from 1.
std::map<int, std::vector<uint8_t>> ReadMads(const std::string& name) {
  const auto frames = ReadCapture(std::string(UROCE_GOLDEN_DIR) + "/" + name + ".pcap");
  std::map<int, std::vector<uint8_t>> mads;
  for (size_t i = 0; i < frames.size(); ++i) {
    Packet packet;
    FrameView view;
    if (Decode(frames[i], packet, view) != DecodeResult::kOk) continue;
    if (packet.header.dest_qpn != kGsiQpn) continue;
    EXPECT_EQ(CheckGsi(packet.header, packet.payload.size()), GsiResult::kOk) << "frame " << i + 1;
    mads[static_cast<int>(i) + 1].assign(packet.payload.begin(), packet.payload.end());
  }
  return mads;
}

CmMessage Decoded(const std::vector<uint8_t>& mad) {
  CmMessage message;
  EXPECT_EQ(DecodeCm(mad, message), CmDecodeResult::kOk);
  return message;
}

// [cm.layout]
TEST(CmGoldenTest, EveryMessageIsMadeAgainByteForByte) {
  std::array<int, kCmAttributeCount> counts{};
  for (const char* name : {"linux-rxe-1", "linux-rxe-2"}) {
    for (const auto& [frame, mad] : ReadMads(name)) {
      const CmMessage message = Decoded(mad);
      const auto again = EncodeCm(message);
      EXPECT_EQ(std::vector<uint8_t>(again.begin(), again.end()), mad)
          << name << " frame " << frame << " " << ToString(message);
      ++counts[static_cast<size_t>(IndexOf(message.attribute()))];
    }
  }
  const auto count = [&](CmAttribute attribute) {
    return counts[static_cast<size_t>(IndexOf(attribute))];
  };
  EXPECT_EQ(count(CmAttribute::kReq), 10);
  EXPECT_EQ(count(CmAttribute::kRep), 5);
  EXPECT_EQ(count(CmAttribute::kRtu), 5);
  EXPECT_EQ(count(CmAttribute::kDreq), 5);
  EXPECT_EQ(count(CmAttribute::kDrep), 5);
  EXPECT_EQ(count(CmAttribute::kSidrReq), 2);
  EXPECT_EQ(count(CmAttribute::kSidrRep), 2);
  EXPECT_EQ(count(CmAttribute::kRej), 1);
}

// [cm.carrier]
TEST(CmGoldenTest, MessagesReadAsTsharkReadsThem) {
  const auto mads = ReadMads("linux-rxe-1");
  EXPECT_EQ(ToString(Decoded(mads.at(3))),
            "REQ id=6af7cd08 service=0000000001061c06 qpn=000011 psn=e7fa0c");
  EXPECT_EQ(ToString(Decoded(mads.at(4))), "REP id=0a61531a remote=6af7cd08 qpn=000011 psn=4c05ab");
  EXPECT_EQ(ToString(Decoded(mads.at(5))), "RTU id=6af7cd08 remote=0a61531a");
  EXPECT_EQ(ToString(Decoded(mads.at(42))), "DREQ id=6af7cd08 remote=0a61531a qpn=000011");
  EXPECT_EQ(ToString(Decoded(mads.at(43))), "DREP id=0a61531a remote=6af7cd08");
  EXPECT_EQ(ToString(Decoded(mads.at(216))), "SIDR_REQ id=6bf7cd08 service=0000000001111c06");
  EXPECT_EQ(ToString(Decoded(mads.at(217))),
            "SIDR_REP id=6bf7cd08 status=0 qpn=000019 qkey=01234567");
  EXPECT_EQ(ToString(Decoded(ReadMads("linux-rxe-2").at(132))),
            "REJ id=00000000 remote=58ec00f9 about=REQ reason=8");
}

// [cm.req]  Without a flow label of the program's, rdma_cm makes one of both ports.
TEST(CmGoldenTest, ARequestOfLinuxSaysWhatItsReferenceSays) {
  const CmReq req = std::get<CmReq>(Decoded(ReadMads("linux-rxe-1").at(3)).body);
  EXPECT_EQ(req.local_ca_guid, 0x505400fffe000001u);
  EXPECT_EQ(req.remote_cm_response_timeout, 20);
  EXPECT_EQ(req.local_cm_response_timeout, 20);
  EXPECT_EQ(req.transport, CmTransport::kRc);
  EXPECT_EQ(req.max_cm_retries, 15);
  EXPECT_EQ(req.pkey, 0xffff);
  EXPECT_EQ(req.path_mtu, 3);
  EXPECT_EQ(req.retry_count, 7);
  EXPECT_EQ(req.primary.local_lid, 0xffff);
  EXPECT_EQ(req.primary.remote_lid, 0xffff);
  RdmaCmHeader header;
  ASSERT_EQ(DecodeRdmaCmHeader(req.private_data, header), RdmaCmHeaderResult::kOk);
  const uint32_t port = ServiceOf(req.service_id)->port;
  EXPECT_EQ(req.primary.flow_label, (header.source_port * 31u + port) & 0xfffff);
  EXPECT_EQ(req.primary.packet_rate, 0);
  EXPECT_EQ(req.primary.hop_limit, 64);
  EXPECT_FALSE(req.primary.subnet_local);
  EXPECT_EQ(req.primary.local_ack_timeout, 19);
  EXPECT_EQ(req.alternate, CmPath{});
}

// [cm.header]
TEST(CmGoldenTest, TheHeadOfPrivateDataHoldsTheAddressesOfThePath) {
  const auto check = [](const char* capture, int frame) {
    const CmReq req = std::get<CmReq>(Decoded(ReadMads(capture).at(frame)).body);
    RdmaCmHeader header;
    ASSERT_EQ(DecodeRdmaCmHeader(req.private_data, header), RdmaCmHeaderResult::kOk);
    EXPECT_EQ(header.source, req.primary.local);
    EXPECT_EQ(header.destination, req.primary.remote);
    EXPECT_NE(header.source_port, 0);
    std::array<uint8_t, kRdmaCmHeaderBytes> again{};
    EncodeRdmaCmHeader(header, again);
    EXPECT_TRUE(std::equal(again.begin(), again.end(), req.private_data.begin()));
  };
  check("linux-rxe-1", 3);
  check("linux-rxe-2", 3);
}

}  // namespace
}  // namespace uroce::wire
