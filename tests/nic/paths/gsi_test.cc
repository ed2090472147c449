// SPDX-License-Identifier: Apache-2.0
// Datagrams of queue pair 1: what is taken from frames, what waits for a neighbour, what is lost.
#include "nic/paths/gsi.h"

#include <absl/strings/str_format.h>

#include "pipeline/wire/decode.h"
#include "pipeline/wire/encode.h"
#include "pipeline/wire/icrc.h"
#include "tests/nic/paths/paths_bed.h"

namespace uroce::nic {
namespace {

constexpr uint8_t kClass = wire::kCmClass;
constexpr size_t kMostWaiting = 64;
constexpr size_t kMostLookups = 256;
constexpr Nanos kForgetAfter{30'000'000'000};
constexpr size_t kSourceMacOffset = 6;

Mad MadOf(uint8_t management_class, uint8_t mark = 0) {
  Mad mad{};
  mad[1] = management_class;
  mad.back() = mark;
  return mad;
}

class GsiTest : public PathsBed {
 protected:
  struct Received {
    cm::Route route;
    Mad mad;
  };

  GsiTest() {
    gsi_->SetHandler(kClass, [this](const cm::Route& route, std::span<const uint8_t> mad) {
      Received received{route, {}};
      std::copy(mad.begin(), mad.end(), received.mad.begin());
      received_.push_back(received);
    });
  }

  static cm::Route RouteTo(const char* destination, uint16_t vlan_id = 0) {
    const bool is_ipv4 = Ip(destination).is_ipv4();
    return {.device = cm::RouteDevice(0, vlan_id),
            .local = Ip(is_ipv4 ? "10.0.0.1" : "fd00::1"),
            .remote = Ip(destination)};
  }
  bool Send(const cm::Route& route, uint8_t mark = 0) {
    return gsi_->Send(route, MadOf(kClass, mark));
  }
  /// A frame that has just been sent, decoded.
  struct Sent {
    TestChannel::Bytes frame;
    wire::Packet packet;
    wire::FrameView view;
    Mac destination() const {
      Mac mac;
      std::copy_n(frame.begin(), mac.size(), mac.begin());
      return mac;
    }
    uint8_t mark() const { return packet.payload.back(); }
  };
  std::vector<Sent> TakeSent(TestChannel& channel) {
    std::vector<Sent> all;
    for (TestChannel::Bytes& frame : channel.TakeSent()) {
      all.push_back({.frame = std::move(frame)});
      Sent& sent = all.back();
      EXPECT_EQ(wire::Decode(sent.frame, sent.packet, sent.view), wire::DecodeResult::kOk);
      EXPECT_EQ(wire::CheckGsi(sent.packet.header, sent.packet.payload.size()),
                wire::GsiResult::kOk);
      EXPECT_TRUE(wire::IcrcIsRight(sent.frame, sent.view));
    }
    return all;
  }
  std::vector<Sent> TakeSent() { return TakeSent(channel_); }
  /// A frame of another host to the first device.
  static TestChannel::Bytes FrameOf(const wire::HeaderTemplateConfig& path,
                                    std::span<const uint8_t> payload,
                                    const wire::TransportHeader& header) {
    const auto bytes = static_cast<uint32_t>(payload.size());
    TestChannel::Bytes frame(wire::kMaxHeaderBytes + bytes + wire::kMaxTrailerBytes);
    const wire::EncodedHeaders headers =
        wire::EncodeHeaders(wire::HeaderTemplate(path), header, bytes, 0, frame.data());
    uint8_t* const begin = frame.data() + headers.length_bytes;
    const uint32_t crc = wire::CopyCrc32(headers.crc_state, begin, payload.data(), bytes);
    frame.resize(headers.length_bytes + bytes + wire::WriteTrailer(begin + bytes, bytes, crc));
    return frame;
  }
  static wire::HeaderTemplateConfig FromUnknownHost() {
    return {.source_mac = MacOf(9),
            .destination_mac = MacOf(0xa0),
            .source = Ip("10.0.0.9"),
            .destination = Ip("10.0.0.1"),
            .dest_qpn = wire::kGsiQpn};
  }
  static TestChannel::Bytes GoodFrame(const wire::HeaderTemplateConfig& path = FromUnknownHost(),
                                      uint8_t management_class = kClass) {
    return FrameOf(path, MadOf(management_class), wire::GsiHeader(wire::Psn(0)));
  }

  TestChannel other_channel_;
  std::unique_ptr<Gsi> gsi_ = std::make_unique<Gsi>(
      timers_, neighbours_,
      std::vector<Gsi::Port>{{&device_, &channel_}, {&other_, &other_channel_}});
  std::vector<Received> received_;
};

TEST_F(GsiTest, ADatagramArrivesWithTheWayBack) {
  wire::HeaderTemplateConfig path = FromUnknownHost();
  path.traffic_class = 0x68 | 3;  // With a mark of congestion.
  EXPECT_TRUE(channel_.Bring(GoodFrame(path)));
  ASSERT_EQ(received_.size(), 1u);
  const cm::Route& route = received_[0].route;
  EXPECT_EQ(cm::DeviceOf(route), 0u);
  EXPECT_EQ(cm::VlanOf(route), 0u);
  EXPECT_EQ(route.local, Ip("10.0.0.1"));
  EXPECT_EQ(route.remote, Ip("10.0.0.9"));
  EXPECT_EQ(route.traffic_class, 0x68);
  EXPECT_EQ(route.frame_source, MacOf(9));
  EXPECT_EQ(received_[0].mad, MadOf(kClass));
}

// Without ECT a switch drops packets where it marks those of the queue pairs.
TEST_F(GsiTest, DatagramsAreEcnCapableWhereTheDeviceReactsToMarks) {
  const auto sent_class = [&](uint8_t given) {
    cm::Route route = RouteTo("10.1.0.1");
    route.traffic_class = given;
    EXPECT_TRUE(Send(route));
    const std::vector<Sent> sent = TakeSent();
    return sent.at(0).frame[sent.at(0).view.ip_offset + 1];
  };
  EXPECT_EQ(sent_class(0), 0);
  EXPECT_EQ(sent_class(0x69), 0x69);
  device_.is_ecn_capable = true;
  EXPECT_EQ(sent_class(0), 2);
  EXPECT_EQ(sent_class(0x69), 0x6a);
}

TEST_F(GsiTest, ATaggedDatagramOfIpv6ArrivesWithItsVlan) {
  EXPECT_TRUE(other_channel_.Bring(GoodFrame({.source_mac = MacOf(9),
                                              .destination_mac = MacOf(0xa1),
                                              .vlan_tci = VlanTci(7, 5),
                                              .source = Ip("fd00::9"),
                                              .destination = Ip("fd00::1"),
                                              .traffic_class = 0xb8,
                                              .dest_qpn = wire::kGsiQpn})));
  ASSERT_EQ(received_.size(), 1u);
  EXPECT_EQ(cm::DeviceOf(received_[0].route), 1u);
  EXPECT_EQ(cm::VlanOf(received_[0].route), 7u);
  EXPECT_EQ(received_[0].route.remote, Ip("fd00::9"));
  EXPECT_EQ(received_[0].route.traffic_class, 0xb8);
}

TEST_F(GsiTest, AnAnswerNeverGoesToAGroupOfMacs) {
  TestChannel::Bytes frame = GoodFrame();
  frame[kSourceMacOffset] |= 1;
  channel_.Bring(frame);
  ASSERT_EQ(received_.size(), 1u);
  EXPECT_EQ(received_[0].route.frame_source, std::nullopt);
}

// The worker has judged Q_Key, opcode and ICRC before (worker_gsi_test); here no length harms.
TEST_F(GsiTest, DatagramsOfAnotherLengthAreDropped) {
  for (const size_t bytes : {0, 1, 2, 24, 255, 257, 260, 1024}) {
    std::vector<uint8_t> payload(bytes, kClass);
    channel_.Bring(FrameOf(FromUnknownHost(), payload, wire::GsiHeader(wire::Psn(0))));
  }
  const TestChannel::Bytes good = GoodFrame();
  for (size_t bytes = 0; bytes < good.size(); ++bytes) {
    channel_.Bring(std::vector<uint8_t>(good.begin(), good.begin() + bytes));
  }
  EXPECT_TRUE(received_.empty());
  EXPECT_EQ(gsi_->counters().unknown_class, 0u);
}

TEST_F(GsiTest, DatagramsWithoutAReaderAreCounted) {
  channel_.Bring(GoodFrame(FromUnknownHost(), 0x03));
  EXPECT_EQ(gsi_->counters().unknown_class, 1u);
  gsi_->SetHandler(kClass, nullptr);
  channel_.Bring(GoodFrame());
  EXPECT_EQ(gsi_->counters().unknown_class, 2u);
  EXPECT_TRUE(received_.empty());
}

TEST_F(GsiTest, EachClassHasItsReader) {
  int capabilities = 0;
  gsi_->SetHandler(wire::kCapabilitiesClass,
                   [&](const cm::Route&, std::span<const uint8_t>) { ++capabilities; });
  channel_.Bring(GoodFrame(FromUnknownHost(), wire::kCapabilitiesClass));
  EXPECT_EQ(capabilities, 1);
  EXPECT_TRUE(received_.empty());
}

TEST_F(GsiTest, AReaderMayAnswerAtOnceToWhoSentTheFrame) {
  gsi_->SetHandler(kClass, [this](const cm::Route& route, std::span<const uint8_t>) {
    EXPECT_TRUE(Send(route));
  });
  channel_.Bring(GoodFrame());
  const std::vector<Sent> sent = TakeSent();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].destination(), MacOf(9));
  EXPECT_EQ(kernel_.neighbours_asked, 0) << "no question for an unknown host";
}

TEST_F(GsiTest, HeadersAreThoseOfTheRoute) {
  cm::Route route = RouteTo("10.1.0.1");
  route.traffic_class = 0x68;
  route.hop_limit = 9;
  EXPECT_TRUE(Send(route));
  EXPECT_TRUE(Send(route));
  const std::vector<Sent> sent = TakeSent();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].destination(), other_.mac()) << "a device of the daemon's is known";
  EXPECT_EQ(sent[0].packet.source, route.local);
  EXPECT_EQ(sent[0].packet.destination, route.remote);
  EXPECT_EQ(sent[0].frame[sent[0].view.ip_offset + 1], 0x68);
  EXPECT_EQ(sent[0].frame[sent[0].view.ip_offset + 8], 9);
  EXPECT_NE(sent[0].packet.header.psn, sent[1].packet.header.psn);
  Mac source;
  std::copy_n(sent[0].frame.begin() + kSourceMacOffset, source.size(), source.begin());
  EXPECT_EQ(source, device_.mac());
}

TEST_F(GsiTest, ATaggedRouteHasItsServiceLevelInTheTag) {
  Know("10.7.0.9", 9, kVlanInterface);
  cm::Route route = RouteTo("10.7.0.9", 7);
  route.sl = 5;
  EXPECT_TRUE(Send(route));
  timers_.Run(Nanos(0));
  const std::vector<Sent> sent = TakeSent();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].view.vlan_tci, VlanTci(7, 5));
  EXPECT_EQ(sent[0].destination(), MacOf(9));
}

TEST_F(GsiTest, ADatagramToAnUnknownNeighbourIsLostAndCounted) {
  device_.wire_number = 0;
  EXPECT_TRUE(Send(RouteTo("10.0.0.9")));
  EXPECT_EQ(gsi_->counters().no_neighbour, 1u);
  EXPECT_TRUE(channel_.sent.empty());
}

TEST_F(GsiTest, DatagramsWaitForTheirNeighbourInOrder) {
  for (uint8_t mark = 0; mark < 3; ++mark) EXPECT_TRUE(Send(RouteTo("10.0.0.9"), mark));
  timers_.Run(kMilli * 100);
  EXPECT_TRUE(channel_.sent.empty());
  EXPECT_EQ(kernel_.probes.size(), 1u) << "one question";
  Know("10.0.0.9", 9);
  timers_.Run(kMilli * 200);
  const std::vector<Sent> sent = TakeSent();
  ASSERT_EQ(sent.size(), 3u);
  for (uint8_t mark = 0; mark < 3; ++mark) {
    EXPECT_EQ(sent[mark].mark(), mark);
    EXPECT_EQ(sent[mark].destination(), MacOf(9));
  }
  const int asked = kernel_.neighbours_asked;
  EXPECT_TRUE(Send(RouteTo("10.0.0.9")));
  EXPECT_EQ(TakeSent().size(), 1u) << "it is known";
  EXPECT_EQ(kernel_.neighbours_asked, asked);
  EXPECT_EQ(gsi_->counters().no_neighbour, 0u);
}

TEST_F(GsiTest, WhatWaitsForAnAbsentNeighbourIsLostAndCounted) {
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Send(RouteTo("10.0.0.9")));
  timers_.Run(Neighbours::kPatience);
  EXPECT_EQ(gsi_->counters().no_neighbour, 3u);
  Know("10.0.0.9", 9);
  timers_.Run(kSecond);
  EXPECT_TRUE(channel_.sent.empty());
  EXPECT_TRUE(Send(RouteTo("10.0.0.9")));
  timers_.Run(Nanos(0));
  EXPECT_EQ(channel_.sent.size(), 1u) << "asked for again";
}

TEST_F(GsiTest, FewDatagramsWaitForOneNeighbour) {
  for (size_t i = 0; i < kMostWaiting + 2; ++i) EXPECT_TRUE(Send(RouteTo("10.0.0.9")));
  EXPECT_EQ(gsi_->counters().no_room, 2u);
  Know("10.0.0.9", 9);
  timers_.Run(kMilli);
  EXPECT_EQ(channel_.sent.size(), kMostWaiting);
}

TEST_F(GsiTest, TheOldestQuestionGivesWay) {
  const auto address = [](size_t i) { return absl::StrFormat("10.9.%d.%d", i / 250, i % 250 + 1); };
  for (size_t i = 0; i <= kMostLookups; ++i) EXPECT_TRUE(Send(RouteTo(address(i).c_str())));
  EXPECT_EQ(gsi_->counters().no_neighbour, 1u);
  Know(address(0).c_str(), 9);
  Know(address(1).c_str(), 9);
  Know(address(kMostLookups).c_str(), 9);
  timers_.Run(kMilli);
  const std::vector<Sent> sent = TakeSent();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].packet.destination, Ip(address(1).c_str()));
  EXPECT_EQ(sent[1].packet.destination, Ip(address(kMostLookups).c_str()));
}

TEST_F(GsiTest, AFullQueueIsTheCallersAffair) {
  channel_.room = 1;
  EXPECT_TRUE(Send(RouteTo("10.1.0.1")));
  EXPECT_FALSE(gsi_->is_idle());
  EXPECT_FALSE(Send(RouteTo("10.1.0.1")));
  EXPECT_EQ(gsi_->counters().no_room, 0u) << "nothing is lost";
  TakeSent();
  EXPECT_TRUE(gsi_->is_idle());
  EXPECT_TRUE(Send(RouteTo("10.1.0.1")));
}

TEST_F(GsiTest, WhatHasWaitedAndFindsTheQueueFullIsLostAndCounted) {
  channel_.room = 2;
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Send(RouteTo("10.0.0.9")));
  Know("10.0.0.9", 9);
  timers_.Run(Nanos(0));
  EXPECT_EQ(channel_.sent.size(), 2u);
  EXPECT_EQ(gsi_->counters().no_room, 1u);
}

TEST_F(GsiTest, WhoseMacChangesIsSentToTheNewOne) {
  Know("10.0.0.9", 9);
  Send(RouteTo("10.0.0.9"));
  timers_.Run(Nanos(0));
  TakeSent();
  neighbours_.OnNews(News("10.0.0.9", MacOf(0x33)));
  cm::Route route = RouteTo("10.0.0.9");
  route.frame_source = MacOf(0x44);
  Send(route);
  const std::vector<Sent> sent = TakeSent();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].destination(), MacOf(0x33)) << "what the network says comes before a frame";
}

TEST_F(GsiTest, APathThatIsNotUsedIsForgotten) {
  Know("10.0.0.8", 8);
  Know("10.0.0.9", 9);
  Send(RouteTo("10.0.0.8"));
  Send(RouteTo("10.0.0.9"));
  timers_.Run(kForgetAfter);
  Send(RouteTo("10.0.0.8"));
  timers_.Run(kForgetAfter);
  TakeSent();
  Send(RouteTo("10.0.0.8"));
  Send(RouteTo("10.0.0.9"));
  const std::vector<Sent> sent = TakeSent();
  ASSERT_EQ(sent.size(), 1u) << "the other one is asked for again";
  EXPECT_EQ(sent[0].destination(), MacOf(8));
  timers_.Run(Nanos(0));
  EXPECT_EQ(TakeSent().size(), 1u);
  timers_.Run(kForgetAfter * 3);
  EXPECT_EQ(timers_.pending(), 0u) << "nothing is left to be forgotten";
}

TEST_F(GsiTest, TheEndSendsAndTakesNothing) {
  Send(RouteTo("10.0.0.9"));
  gsi_.reset();
  EXPECT_EQ(timers_.pending(), 0u);
  EXPECT_FALSE(channel_.Bring(GoodFrame())) << "no class has a reader";
}

}  // namespace
}  // namespace uroce::nic
