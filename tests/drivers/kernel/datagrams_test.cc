// SPDX-License-Identifier: Apache-2.0
// Frames through UDP sockets of the loopback interface: what the writer sends, the reader receives.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "drivers/kernel/datagrams.h"
#include "pipeline/os/fd.h"
#include "pipeline/wire/decode.h"
#include "pipeline/wire/icrc.h"
#include "tests/drivers/frame_pool.h"
#include "tests/drivers/kernel/own_network.h"
#include "tests/wire/packet_train.h"

namespace uroce::drivers {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr Mac kOwnMac = {0x02, 1, 2, 3, 4, 5};

bool HasRightIcrcIn(const Bytes& frame) {
  wire::Packet packet;
  wire::FrameView view;
  return wire::Decode(frame, packet, view) == wire::DecodeResult::kOk &&
         wire::IcrcIsRight(frame, view);
}

Bytes PayloadOf(const Bytes& frame) {
  const auto places = wire::FindUdp(frame);
  return {frame.begin() + places->payload_offset, frame.end() - 4};
}

/// Of IPv4 frames.
std::vector<int> IdentificationsOf(const std::vector<Bytes>& frames) {
  std::vector<int> all;
  for (const Bytes& frame : frames) all.push_back(frame[18] << 8 | frame[19]);
  return all;
}

/// The writer's flow sockets are bound to 127.0.0.1 or ::1, and the receiver is any socket there.
/// Frames have the addresses of the train, so the test sends to the receiver by itself.
class DatagramsTest : public FramePoolTest {
 protected:
  DatagramsTest() { reader_.SetMac(kOwnMac); }

  rte_mbuf* MbufOf(const Bytes& bytes) {
    rte_mbuf* const frame = rte_pktmbuf_alloc(pool());
    std::copy(bytes.begin(), bytes.end(), rte_pktmbuf_mtod(frame, uint8_t*));
    frame->data_len = static_cast<uint16_t>(bytes.size());
    frame->pkt_len = frame->data_len;
    return frame;
  }

  /// The loopback addresses that stand for those of the train.
  static Bytes OnLoopback(const wire::PacketTrain& train, Bytes frame) {
    const wire::UdpFrame places = *wire::FindUdp(frame);
    uint8_t* const source = frame.data() + 14 + (train.ipv6 ? 8 : 12);
    if (train.ipv6) {
      for (int i = 0; i < 2; ++i) {
        std::memset(source + 16 * i, 0, 15);
        source[16 * i + 15] = 1;
      }
    } else {
      const uint8_t both[] = {127, 0, 0, 1, 127, 0, 0, 1};
      std::memcpy(source, both, sizeof both);
    }
    const size_t icrc = frame.size() - 4;
    wire::StoreIcrc(frame.data() + icrc,
                    wire::MaskedHeaderCrc32(frame.data() + 14, icrc - 14, places.is_ipv6));
    return frame;
  }

  static UdpPlace Loopback() {
    UdpPlace place;
    Gid ipv4;
    ipv4.bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1};
    Gid ipv6;
    ipv6.bytes[15] = 1;
    place.addresses = {ipv4, ipv6};
    return place;
  }
  bool Open() {
    // Not shared: the kernel would give the frames to another process that has the port.
    absl::StatusOr<UdpSockets> opened = OpenUdpSockets(Loopback(), 1);
    if (!opened.ok()) return false;
    sockets_ = *std::move(opened);
    return true;
  }

  SentFrames Send(const std::vector<Bytes>& all) {
    std::vector<rte_mbuf*> frames;
    for (const Bytes& bytes : all) frames.push_back(MbufOf(bytes));
    const SentFrames sent =
        writer_.Send(sockets_, frames.data(), static_cast<uint16_t>(frames.size()));
    rte_pktmbuf_free_bulk(frames.data() + sent.frames,
                          static_cast<unsigned>(frames.size() - sent.frames));
    return sent;
  }

  std::vector<Bytes> Receive() {
    std::vector<Bytes> received;
    rte_mbuf* frames[32];
    while (const uint16_t count = reader_.Receive(sockets_, pool(), frames, 32)) {
      for (uint16_t i = 0; i < count; ++i) {
        const auto* const bytes = rte_pktmbuf_mtod(frames[i], const uint8_t*);
        received.emplace_back(bytes, bytes + frames[i]->data_len);
        rte_pktmbuf_free(frames[i]);
      }
    }
    return received;
  }

  OwnNetwork network_;
  UdpSockets sockets_;
  DatagramWriter writer_;
  DatagramReader reader_;
};

class DatagramFamilies : public DatagramsTest, public testing::WithParamInterface<bool> {
 protected:
  DatagramFamilies() { train_.ipv6 = GetParam(); }
  wire::PacketTrain train_;
};

TEST_P(DatagramFamilies, PacketsOfAFlowComeBackInOrderEachWithItsIcrc) {
  if (!Open()) GTEST_SKIP() << "UDP port 4791 of this host is in use, or a family is missing";
  std::vector<Bytes> sent;
  for (const size_t bytes : {1024, 1024, 1024, 100, 4, 4, 1024, 1024}) {
    sent.push_back(OnLoopback(train_, train_.Next(bytes)));
  }
  EXPECT_EQ(Send(sent).frames, sent.size());
  const std::vector<Bytes> received = Receive();
  ASSERT_EQ(received.size(), sent.size());
  if (!GetParam()) {
    EXPECT_EQ(IdentificationsOf(received), (std::vector<int>{0, 1, 2, 3, 0, 1, 0, 1}));
  }
  for (size_t i = 0; i < sent.size(); ++i) {
    EXPECT_EQ(PayloadOf(received[i]), PayloadOf(sent[i])) << i;
    EXPECT_TRUE(HasRightIcrcIn(received[i])) << i;
    EXPECT_TRUE(std::equal(kOwnMac.begin(), kOwnMac.end(), received[i].begin())) << i;
  }
  EXPECT_EQ(reader_.TakeCounts().fitted, 0u) << "own packets have expected identifications";
}

TEST_P(DatagramFamilies, EachQueueReceivesThePacketsForItsQueuePairs) {
  if (!Open()) GTEST_SKIP() << "UDP port 4791 of this host is in use, or a family is missing";
  sockets_ = {};
  constexpr uint16_t kQueues = 3;
  std::vector<UdpSockets> queues;
  for (uint16_t i = 0; i < kQueues; ++i) {
    absl::StatusOr<UdpSockets> opened = OpenUdpSockets(Loopback(), kQueues);
    ASSERT_TRUE(opened.ok()) << opened.status();
    queues.push_back(*std::move(opened));
  }
  sockets_ = std::move(queues[0]);
  std::vector<std::vector<Bytes>> sent(kQueues);
  for (const size_t queue : {2, 0, 1, 2, 0}) {
    const auto worker = static_cast<uint32_t>(queue);
    for (const uint32_t qpn : {FirstQpnOf(worker, kQueues), FirstQpnOf(worker + 1, kQueues) - 1}) {
      train_.dest_qpn = Qpn(qpn);
      sent[queue].push_back(OnLoopback(train_, train_.Next(100)));
      EXPECT_EQ(Send({sent[queue].back()}).frames, 1);
    }
  }
  for (uint16_t queue = 0; queue < kQueues; ++queue) {
    if (queue != 0) sockets_ = std::move(queues[queue]);
    const std::vector<Bytes> received = Receive();
    ASSERT_EQ(received.size(), sent[queue].size()) << queue;
    for (size_t i = 0; i < received.size(); ++i) {
      EXPECT_EQ(PayloadOf(received[i]), PayloadOf(sent[queue][i])) << queue << " " << i;
    }
  }
}

// The packets have the source port and the identifications that the kernel gives them.
TEST_P(DatagramFamilies, ASuperframeArrivesWholeWithRightIcrcs) {
  if (!Open()) GTEST_SKIP() << "UDP port 4791 of this host is in use, or a family is missing";
  LongBuffers buffers(1);
  for (const uint16_t first : {uint16_t{64}, uint16_t{0x1237}}) {
    train_.identification = first;
    std::vector<Bytes> packets;
    for (const size_t bytes : {1024, 1024, 1024, 100}) {
      packets.push_back(OnLoopback(train_, train_.Next(bytes)));
    }
    rte_mbuf* frame = SuperframeOf(buffers, packets);
    ASSERT_EQ(writer_.Send(sockets_, &frame, 1).frames, 1);
    rte_mbuf* received[8];
    ASSERT_EQ(reader_.Receive(sockets_, pool(), received, 8, /*whole=*/true), 1);
    EXPECT_EQ(PacketsOf(*received[0]), 4u);
    const std::vector<Bytes> cut = CutToBytes(received[0]);
    ASSERT_EQ(cut.size(), packets.size());
    if (!GetParam()) {
      EXPECT_EQ(IdentificationsOf(cut), (std::vector<int>{0, 1, 2, 3}));
    }
    for (size_t i = 0; i < cut.size(); ++i) {
      EXPECT_EQ(PayloadOf(cut[i]), PayloadOf(packets[i])) << i;
      EXPECT_TRUE(HasRightIcrcIn(cut[i])) << i;
    }
  }
  EXPECT_EQ(reader_.TakeCounts().fitted, 0u);
}

// One that has a single packet so far is joined by frames, like a frame.
TEST_P(DatagramFamilies, FramesJoinASuperframeOfOnePacket) {
  if (!Open()) GTEST_SKIP() << "UDP port 4791 of this host is in use, or a family is missing";
  LongBuffers buffers(1);
  std::vector<Bytes> packets;
  std::vector<rte_mbuf*> frames;
  for (const size_t bytes : {1024, 1024, 100}) {
    const Bytes& packet = packets.emplace_back(OnLoopback(train_, train_.Next(bytes)));
    frames.push_back(frames.empty() ? SuperframeOf(buffers, packets) : MbufOf(packet));
  }
  ASSERT_EQ(writer_.Send(sockets_, frames.data(), 3).frames, 3);
  const std::vector<Bytes> received = Receive();
  ASSERT_EQ(received.size(), 3u);
  if (!GetParam()) {
    EXPECT_EQ(IdentificationsOf(received), (std::vector<int>{0, 1, 2}));
  }
  for (size_t i = 0; i < received.size(); ++i) {
    EXPECT_EQ(PayloadOf(received[i]), PayloadOf(packets[i])) << i;
    EXPECT_TRUE(HasRightIcrcIn(received[i])) << i;
  }
  EXPECT_EQ(reader_.TakeCounts().fitted, 0u);
}

// While one family has nothing, the other is asked now and then, and always after a sleep.
TEST_P(DatagramFamilies, TheOtherFamilyIsAskedTooAndAtOnceAfterASleep) {
  if (!Open()) GTEST_SKIP() << "UDP port 4791 of this host is in use, or a family is missing";
  wire::PacketTrain other = train_;
  other.ipv6 = !train_.ipv6;
  const auto receives = [&] {
    rte_mbuf* frame = nullptr;
    const bool any = reader_.Receive(sockets_, pool(), &frame, 1) == 1;
    if (any) rte_pktmbuf_free(frame);
    return any;
  };
  const auto send = [&](wire::PacketTrain& train) { Send({OnLoopback(train, train.Next(64))}); };
  send(train_);
  EXPECT_TRUE(receives());
  while (receives()) continue;
  send(other);
  int calls = 1;
  while (!receives() && calls < 100) ++calls;
  EXPECT_LT(calls, 100);
  send(train_);
  reader_.OnWake();
  EXPECT_TRUE(receives());
}

TEST_P(DatagramFamilies, TrafficClassAndHopLimitArrive) {
  if (!Open()) GTEST_SKIP() << "UDP port 4791 of this host is in use, or a family is missing";
  Bytes frame = OnLoopback(train_, train_.Next(64));
  const uint8_t traffic_class = 26 << 2 | 2;  // AF31, ECT(0).
  if (GetParam()) {
    frame[14] = static_cast<uint8_t>(0x60 | traffic_class >> 4);
    frame[15] = static_cast<uint8_t>(traffic_class << 4);
    frame[14 + 7] = 7;
  } else {
    frame[15] = traffic_class;
    frame[14 + 8] = 7;
  }
  Send({frame});
  const std::vector<Bytes> received = Receive();
  ASSERT_EQ(received.size(), 1u);
  if (GetParam()) {
    EXPECT_EQ((received[0][14] << 4 & 0xf0) | received[0][15] >> 4, traffic_class);
    EXPECT_EQ(received[0][14 + 7], 7);
  } else {
    EXPECT_EQ(received[0][15], traffic_class);
    EXPECT_EQ(received[0][14 + 8], 7);
  }
}

TEST_P(DatagramFamilies, FlowsHaveTheirOwnSourcePorts) {
  if (!Open()) GTEST_SKIP() << "UDP port 4791 of this host is in use, or a family is missing";
  std::vector<Bytes> sent;
  for (uint16_t i = 0; i < UdpFamily::kFlowSockets; ++i) {
    train_.udp_source_port = static_cast<uint16_t>(0xc100 + i);
    sent.push_back(OnLoopback(train_, train_.Next(64)));
  }
  Send(sent);
  std::vector<int> ports;
  for (const Bytes& frame : Receive()) {
    const size_t at = wire::FindUdp(frame)->udp_offset();
    ports.push_back(frame[at] << 8 | frame[at + 1]);
    EXPECT_GE(ports.back(), 0xc000);
  }
  std::ranges::sort(ports);
  EXPECT_EQ(ports.size(), UdpFamily::kFlowSockets);
  EXPECT_EQ(std::ranges::adjacent_find(ports), ports.end());
}

INSTANTIATE_TEST_SUITE_P(Both, DatagramFamilies, testing::Bool());

TEST_F(DatagramsTest, WhatIsNoUdpPacketIsDroppedAndCounted) {
  if (!Open()) GTEST_SKIP() << "UDP port 4791 of this host is in use, or a family is missing";
  wire::PacketTrain train;
  const Bytes arp(60, 0);
  const SentFrames sent = Send({OnLoopback(train, train.Next(64)), arp});
  EXPECT_EQ(sent.frames, 2);
  EXPECT_EQ(sent.dropped, 1u);
  EXPECT_EQ(Receive().size(), 1u);
}

// The port does not read the flow sockets: what is sent to them must not fill a buffer.
TEST_F(DatagramsTest, FlowSocketsReceiveNothing) {
  if (!Open()) GTEST_SKIP() << "UDP port 4791 of this host is in use, or a family is missing";
  const UdpFamily::FlowSocket& flow = sockets_.ipv4.flows[0];
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(flow.port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const Fd sender(socket(AF_INET, SOCK_DGRAM, 0));
  EXPECT_EQ(sendto(sender.get(), "x", 1, 0, reinterpret_cast<sockaddr*>(&to), sizeof to), 1);
  pollfd poll_fd = {.fd = flow.fd.get(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&poll_fd, 1, 0), 0);
}

class IdentificationGuessTest : public testing::Test {
 protected:
  using Found = IdentificationGuess::Found;
  /// What a socket tells of the next packet: all but the identification.
  Found Store(uint16_t identification) {
    train_.identification = identification;
    frame_ = train_.Next(256);
    wire::SetIdentification(frame_, 0x5555);
    return guess_.Store(frame_, *wire::FindUdp(frame_));
  }
  bool IsStored(uint16_t identification) const {
    return (frame_[18] << 8 | frame_[19]) == identification && HasRightIcrcIn(frame_);
  }

  wire::PacketTrain train_;
  Bytes frame_;
  IdentificationGuess guess_;
};

TEST_F(IdentificationGuessTest, ZeroAndTheNextOfAFlowAreExpected) {
  EXPECT_EQ(Store(0), Found::kExpected);
  EXPECT_EQ(Store(1), Found::kExpected);
  EXPECT_EQ(Store(2), Found::kExpected);
  EXPECT_TRUE(IsStored(2));
  EXPECT_EQ(Store(2), Found::kExpected) << "GRO also joins packets with one identification";
  EXPECT_EQ(Store(0), Found::kExpected);
  EXPECT_TRUE(IsStored(0));
}

TEST_F(IdentificationGuessTest, AnotherOneIsTakenFromTheIcrcAndSaidSo) {
  EXPECT_EQ(Store(0xabcd), Found::kFitted);
  EXPECT_TRUE(IsStored(0xabcd));
  EXPECT_EQ(Store(0xabce), Found::kExpected);
  EXPECT_EQ(Store(0xffff), Found::kFitted);
  EXPECT_EQ(Store(0), Found::kExpected);
}

TEST_F(IdentificationGuessTest, EachFlowHasItsOwn) {
  EXPECT_EQ(Store(100), Found::kFitted);
  train_.udp_source_port = 0xc001;
  EXPECT_EQ(Store(101), Found::kFitted);
  train_.udp_source_port = 0xc000;
  EXPECT_EQ(Store(101), Found::kExpected);
}

// A peer by UDP sockets: of 2^26 damaged packets one fits, not of 2^16.
TEST_F(IdentificationGuessTest, AFlowOfSegmentsTakesNoOtherIdentification) {
  for (uint16_t i = 0; i < IdentificationGuess::kSure - 1; ++i) Store(i % 64);
  EXPECT_EQ(Store(63), Found::kExpected);
  EXPECT_EQ(Store(0xabcd), Found::kDamaged);
  EXPECT_FALSE(HasRightIcrcIn(frame_));
  EXPECT_EQ(Store(0xabcd), Found::kFitted) << "another one sends by the flow now";
  EXPECT_TRUE(IsStored(0xabcd));
}

TEST_F(IdentificationGuessTest, AFlowOfSegmentsMayLosePackets) {
  for (uint16_t i = 0; i < IdentificationGuess::kSure; ++i) Store(i % 64);
  EXPECT_EQ(Store(0), Found::kExpected);
  EXPECT_EQ(Store(40), Found::kFitted);
  EXPECT_TRUE(IsStored(40));
  EXPECT_EQ(Store(64), Found::kDamaged) << "of no superframe";
}

TEST_F(IdentificationGuessTest, FewPacketsMakeNoFlowOfSegments) {
  for (uint16_t i = 0; i < IdentificationGuess::kSure - 1; ++i) Store(i % 64);
  EXPECT_EQ(Store(0xabcd), Found::kFitted);
  EXPECT_TRUE(IsStored(0xabcd));
}

TEST_F(IdentificationGuessTest, ACounterIsNoFlowOfSegments) {
  for (uint16_t i = 0; i < 300; ++i) EXPECT_EQ(Store(i), Found::kExpected);
  EXPECT_EQ(Store(5000), Found::kFitted) << "behind lost packets";
  EXPECT_TRUE(IsStored(5000));
}

// Flows share 1024 places: each has had some 200 packets.
TEST_F(IdentificationGuessTest, AFlowThatHasTakenThePlaceOfOneOfSegmentsIsNew) {
  for (uint32_t port = 0xc000; port <= 0xffff; ++port) {
    train_.udp_source_port = static_cast<uint16_t>(port);
    for (int i = 0; i < 12; ++i) Store(0);
  }
  EXPECT_EQ(Store(0xabcd), Found::kFitted);
}

TEST_F(IdentificationGuessTest, ADamagedPacketStaysDamaged) {
  frame_ = train_.Next(256);
  frame_[100] ^= 4;
  EXPECT_EQ(guess_.Store(frame_, *wire::FindUdp(frame_)), Found::kDamaged);
  EXPECT_FALSE(HasRightIcrcIn(frame_));
  frame_.resize(42 + 4);
  EXPECT_EQ(guess_.Store(frame_, {.payload_offset = 42, .is_ipv6 = false}), Found::kDamaged);
}

}  // namespace
}  // namespace uroce::drivers
