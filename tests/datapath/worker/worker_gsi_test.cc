// SPDX-License-Identifier: Apache-2.0
// Datagrams of queue pair 1: to the receiver that answers them, and from there.
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>

#include "pipeline/datapath/frames/frame_link.h"
#include "pipeline/wire/encode.h"
#include "pipeline/wire/gsi.h"
#include "pipeline/wire/icrc.h"
#include "tests/datapath/testbed.h"

namespace uroce::datapath {
namespace {

using Bytes = std::vector<uint8_t>;

/// What a test changes of a good datagram from the first device to the second.
struct Change {
  uint32_t qkey = wire::kGsiQkey;
  uint32_t payload_bytes = wire::kMadBytes;
  wire::Opcode opcode = wire::Opcode::kUdSendOnly;
  uint16_t pkey = 0xffff;
  uint8_t last_byte = 0;  ///< Of the destination address; 0: the device's own.
};

class WorkerGsiTest : public testing::Test {
 protected:
  WorkerGsiTest() {
    for (int i = 0; i < 2; ++i) bed_.devices[i]->gsi_link = &links_[i];
  }
  ~WorkerGsiTest() override {
    for (int i = 0; i < 2; ++i) bed_.devices[i]->gsi_link = nullptr;
  }

  Bytes Datagram(const Change& change = {}, int from = 0, int to = 1) const {
    wire::HeaderTemplateConfig config{.source_mac = bed_.devices[from]->mac,
                                      .destination_mac = bed_.devices[to]->mac,
                                      .source = Testbed::AddressOf(*bed_.devices[from]),
                                      .destination = Testbed::AddressOf(*bed_.devices[to]),
                                      .dest_qpn = wire::kGsiQpn,
                                      .pkey = change.pkey};
    if (change.last_byte != 0) config.destination.bytes[15] = change.last_byte;
    wire::TransportHeader header = wire::GsiHeader(wire::Psn(7));
    header.opcode = change.opcode;
    header.deth.qkey = change.qkey;
    Bytes frame(GsiLink::kSlotBytes + 128);
    const Bytes payload = Pattern(change.payload_bytes, 3);
    const wire::EncodedHeaders headers = wire::EncodeHeaders(wire::HeaderTemplate(config), header,
                                                             change.payload_bytes, 1, frame.data());
    uint8_t* const body = frame.data() + headers.length_bytes;
    const uint32_t crc = wire::CopyCrc32(headers.crc_state, body, payload.data(), payload.size());
    const size_t trailer = wire::WriteTrailer(body + payload.size(), change.payload_bytes, crc);
    frame.resize(headers.length_bytes + payload.size() + trailer);
    return frame;
  }
  /// Has a frame arrive at the second device.
  void Arrive(const Bytes& bytes) {
    rte_mbuf* const frame = rte_pktmbuf_alloc(TestPool());
    ASSERT_NE(frame, nullptr);
    std::copy(
        bytes.begin(), bytes.end(),
        reinterpret_cast<uint8_t*>(rte_pktmbuf_append(frame, static_cast<uint16_t>(bytes.size()))));
    bed_.ports[1].arrived.push_back(frame);
  }
  static Bytes Front(GsiLink& link) {
    const std::span<const uint8_t> frame = link.inbound().Front();
    return {frame.begin(), frame.end()};
  }
  /// A frame that is dropped, and what counts it.
  void ExpectDropped(const Bytes& frame, std::atomic<uint64_t>& counter) {
    Arrive(frame);
    bed_.Settle();
    EXPECT_EQ(counter.load(), 1u);
    EXPECT_TRUE(links_[1].inbound().empty());
  }
  DeviceCounters& counters() { return bed_.devices[1]->counters(0); }

  Testbed bed_;
  std::array<GsiLink, 2> links_;
};

TEST_F(WorkerGsiTest, ADatagramIsHandedOverWholeAndItsReaderWoken) {
  const Bytes frame = Datagram();
  ASSERT_TRUE(links_[1].PrepareSleep());
  Arrive(frame);
  bed_.Settle();
  EXPECT_EQ(Front(links_[1]), frame);
  pollfd wanted{.fd = links_[1].wait_fd(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&wanted, 1, 0), 1);
  EXPECT_EQ(links_[1].counters().received.load(), 1u);
  EXPECT_EQ(counters().rx_unknown_qpn.load(), 0u);
}

TEST_F(WorkerGsiTest, WhatIsNoManagementDatagramIsRefusedAndCounted) {
  std::atomic<uint64_t>& refused = links_[1].counters().rx_refused;
  for (const Change& change :
       {Change{.qkey = 1}, Change{.payload_bytes = 252}, Change{.payload_bytes = 260},
        Change{.opcode = wire::Opcode::kUdSendOnlyWithImm}}) {
    ExpectDropped(Datagram(change), refused);
    refused = 0;
  }
}

TEST_F(WorkerGsiTest, PartitionAddressAndIcrcAreCheckedAsOfAnyDatagram) {
  ExpectDropped(Datagram({.pkey = 0x8001}), counters().rx_bad_pkey);
  ExpectDropped(Datagram({.last_byte = 99}), counters().rx_bad_address);
  Bytes spoilt = Datagram();
  spoilt[spoilt.size() - 10] ^= 1;
  ExpectDropped(spoilt, counters().rx_icrc_encapsulated);
}

TEST_F(WorkerGsiTest, WithoutAReceiverTheQueuePairIsUnknown) {
  bed_.devices[1]->gsi_link = nullptr;
  ExpectDropped(Datagram(), counters().rx_unknown_qpn);
}

TEST_F(WorkerGsiTest, AReaderThatIsBehindLosesDatagramsAndTheyAreCounted) {
  const Bytes frame = Datagram();
  for (uint32_t i = 0; i < GsiLink::kDepthFrames; ++i) ASSERT_TRUE(links_[1].Hand(frame));
  Arrive(frame);
  bed_.Settle();
  EXPECT_EQ(links_[1].counters().rx_discards.load(), 1u);
}

TEST_F(WorkerGsiTest, DatagramsLeaveByTheirPortAndArriveAtTheOther) {
  const Bytes frame = Datagram();
  ASSERT_TRUE(links_[0].Send(frame));
  bed_.Settle();
  EXPECT_EQ(Front(links_[1]), frame);
  EXPECT_EQ(links_[0].counters().sent.load(), 1u);
  EXPECT_EQ(bed_.ports[0].sent, 1u);
}

TEST_F(WorkerGsiTest, DatagramsToTheDeviceItselfDoNotLeaveIt) {
  const Bytes frame = Datagram({}, 0, 0);
  ASSERT_TRUE(links_[0].Send(frame));
  bed_.Settle();
  EXPECT_EQ(Front(links_[0]), frame);
  EXPECT_EQ(bed_.ports[0].sent, 0u);
}

TEST_F(WorkerGsiTest, AQueueFullOfDatagramsIsServedInTurns) {
  bed_.ports[0].filter = [](rte_mbuf*) { return false; };
  const Bytes frame = Datagram();
  for (uint32_t i = 0; i < GsiLink::kDepthFrames; ++i) ASSERT_TRUE(links_[0].Send(frame));
  EXPECT_FALSE(links_[0].Send(frame));
  bed_.Turn();
  EXPECT_EQ(bed_.ports[0].sent, GsiLink::kFramesPerTurn);
  bed_.Settle();
  EXPECT_EQ(bed_.ports[0].sent, GsiLink::kDepthFrames);
}

}  // namespace
}  // namespace uroce::datapath
