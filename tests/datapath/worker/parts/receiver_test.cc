// SPDX-License-Identifier: Apache-2.0
// Each check of a received packet: what it drops is counted in one place, and the rest passes.
#include "pipeline/datapath/worker/receiver.h"

#include <functional>

#include "pipeline/datapath/worker/frame.h"
#include "pipeline/wire/encode.h"
#include "pipeline/wire/gsi.h"
#include "pipeline/wire/icrc.h"
#include "tests/datapath/worker/parts/parts.h"

namespace uroce::datapath {
namespace {

constexpr Qpn kGroup{0xffffff};

/// Packets to a connected queue pair of the device, as they should be or a little different.
class AdmissionTest : public PartsTest {
 protected:
  AdmissionTest() {
    path_.source = Testbed::AddressOf(device_);
    path_.destination = path_.source;
    path_.destination.bytes[15] ^= 1;
    qp_.set_path(path_, PeerPlace::kElsewhere);
    headers_ = {.source_mac = {2, 0, 0, 0, 0, 2},
                .destination_mac = device_.mac,
                .source = path_.destination,
                .destination = path_.source,
                .dest_qpn = qp_.qpn()};
    SetState(transport::QpState::kRtr);
  }
  ~AdmissionTest() override { rte_pktmbuf_free(frame_); }

  void SetState(transport::QpState state) {
    transport::QueuePairAttributes attributes;
    attributes.path_mtu_bytes = 1024;
    if (state == transport::QpState::kRtr) {
      qp_.core().Modify(transport::QpState::kInit, attributes);
    }
    qp_.core().Modify(state, attributes);
  }

  void Make() {
    uint8_t* const start = rte_pktmbuf_mtod(frame_, uint8_t*);
    const wire::EncodedHeaders encoded =
        wire::EncodeHeaders(wire::HeaderTemplate(headers_), header_, payload_bytes_, 1, start);
    uint8_t* const payload = start + encoded.length_bytes;
    std::fill_n(payload, payload_bytes_, uint8_t{7});
    const uint32_t crc = wire::Crc32Update(encoded.crc_state, {payload, payload_bytes_});
    const size_t trailer = wire::WriteTrailer(payload + payload_bytes_, payload_bytes_, crc);
    const size_t length = encoded.length_bytes + payload_bytes_ + trailer;
    frame_->data_len = static_cast<uint16_t>(length);
    ASSERT_TRUE(DecodeAgain(*frame_, packet_, view_));
  }
  void BreakIcrc() { rte_pktmbuf_mtod(frame_, uint8_t*)[frame_->data_len - 1] ^= 1; }

  bool IsForPort() {
    Make();
    return admission_.IsForPort(*port_, packet_, view_);
  }
  bool IsForQueuePair() {
    Make();
    return admission_.IsForQueuePair(qp_, *port_, packet_, view_, frame_);
  }
  bool IsForGroup() {
    Make();
    return admission_.IsForGroup(*port_, packet_, view_, frame_);
  }
  uint64_t Counted(std::atomic<uint64_t> DeviceCounters::*counter) const {
    return device_.Sum(counter);
  }

  QueuePair& qp_ = AddQueuePair();
  Path path_;
  wire::HeaderTemplateConfig headers_;
  wire::TransportHeader header_{.opcode = wire::Opcode::kSendOnly};
  uint32_t payload_bytes_ = 64;
  rte_mbuf* frame_ = NewFrame();
  wire::Packet packet_;
  wire::FrameView view_;
  Admission admission_{recorder_};
};

TEST_F(AdmissionTest, APacketAsItShouldBePasses) {
  EXPECT_TRUE(IsForPort());
  EXPECT_TRUE(IsForQueuePair());
}

TEST_F(AdmissionTest, AFrameToAnotherMacIsOthersTraffic) {
  headers_.destination_mac[5] ^= 1;
  EXPECT_FALSE(IsForPort());
  EXPECT_EQ(Counted(&DeviceCounters::rx_not_roce), 1u);
}

TEST_F(AdmissionTest, AnotherServiceIsABadOpcode) {
  header_.opcode = wire::OpcodeOf(wire::Service::kUc, wire::Opcode::kSendOnly);
  EXPECT_FALSE(IsForQueuePair());
  EXPECT_EQ(Counted(&DeviceCounters::rx_bad_opcode), 1u);
}

TEST_F(AdmissionTest, AQueuePairThatDoesNotReceiveTakesNothing) {
  SetState(transport::QpState::kErr);
  EXPECT_FALSE(IsForQueuePair());
  EXPECT_EQ(Counted(&DeviceCounters::rx_bad_state), 1u);
}

TEST_F(AdmissionTest, AnotherPartitionIsDropped) {
  headers_.pkey = 0x1234;
  EXPECT_FALSE(IsForQueuePair());
  EXPECT_EQ(Counted(&DeviceCounters::rx_bad_pkey), 1u);
}

TEST_F(AdmissionTest, ALimitedMemberOfThePartitionIsHeard) {
  headers_.pkey = 0x7fff;
  EXPECT_TRUE(IsForQueuePair());
}

TEST_F(AdmissionTest, AnotherSenderDestinationOrTagIsABadAddress) {
  const wire::HeaderTemplateConfig right = headers_;
  headers_.source.bytes[15] ^= 2;
  EXPECT_FALSE(IsForQueuePair());
  headers_ = right;
  headers_.destination.bytes[15] ^= 2;
  EXPECT_FALSE(IsForQueuePair());
  headers_ = right;
  headers_.vlan_tci = 5;
  EXPECT_FALSE(IsForQueuePair());
  EXPECT_EQ(Counted(&DeviceCounters::rx_bad_address), 3u);
}

TEST_F(AdmissionTest, AWrongIcrcIsTheLastReasonToDrop) {
  Make();
  BreakIcrc();
  EXPECT_FALSE(admission_.IsForQueuePair(qp_, *port_, packet_, view_, frame_));
  EXPECT_EQ(Counted(&DeviceCounters::rx_icrc_encapsulated), 1u);
  headers_.pkey = 0x1234;
  Make();
  BreakIcrc();
  EXPECT_FALSE(admission_.IsForQueuePair(qp_, *port_, packet_, view_, frame_));
  EXPECT_EQ(Counted(&DeviceCounters::rx_icrc_encapsulated), 1u);
  EXPECT_EQ(Counted(&DeviceCounters::rx_bad_pkey), 1u);
}

TEST_F(AdmissionTest, DatagramsToQueuePair1AreCheckedInTheSameWay) {
  GsiLink link;
  header_ = wire::GsiHeader(wire::Psn(7));
  headers_.dest_qpn = wire::kGsiQpn;
  payload_bytes_ = wire::kMadBytes;
  Make();
  EXPECT_TRUE(admission_.IsForGsi(link, *port_, packet_, view_, frame_));
  headers_.pkey = 0x1234;
  Make();
  EXPECT_FALSE(admission_.IsForGsi(link, *port_, packet_, view_, frame_));
  EXPECT_EQ(Counted(&DeviceCounters::rx_bad_pkey), 1u);
  headers_.pkey = 0xffff;
  headers_.destination.bytes[15] ^= 2;
  Make();
  EXPECT_FALSE(admission_.IsForGsi(link, *port_, packet_, view_, frame_));
  EXPECT_EQ(Counted(&DeviceCounters::rx_bad_address), 1u);
  header_.deth.qkey ^= 1;
  Make();
  EXPECT_FALSE(admission_.IsForGsi(link, *port_, packet_, view_, frame_));
  EXPECT_EQ(link.counters().rx_refused.load(), 1u) << "the link's own check is the first";
}

TEST_F(AdmissionTest, AGroupTakesDatagramsOfItsMembersVlansAlone) {
  header_ = {.opcode = wire::Opcode::kUdSendOnly};
  headers_.dest_qpn = kGroup;
  EXPECT_FALSE(IsForGroup()) << "no queue pair here is in it";
  device_.groups[headers_.destination] = {{&qp_, 0}};
  EXPECT_TRUE(IsForGroup());
  headers_.vlan_tci = 5;
  EXPECT_FALSE(IsForGroup());
  EXPECT_EQ(Counted(&DeviceCounters::rx_not_roce), 2u);
  headers_.vlan_tci = 0;
  header_.opcode = wire::Opcode::kSendOnly;
  EXPECT_FALSE(IsForGroup());
  EXPECT_EQ(Counted(&DeviceCounters::rx_bad_opcode), 1u);
}

}  // namespace
}  // namespace uroce::datapath
