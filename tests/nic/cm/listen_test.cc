// SPDX-License-Identifier: Apache-2.0
// Who is asked, and how many may ask.
#include "tests/nic/cm/cm_script.h"

namespace uroce::nic::cm {
namespace {

using ListenTest = CmScript;
using wire::PortSpace;
using wire::RejReason;

/// A copy of `req` with another communication number and queue pair of the peer.
wire::CmReq Another(wire::CmReq req, uint32_t number) {
  req.local_comm_id = CommId(0x40000000 + number);
  req.local_qpn = Qpn(0x4000 + number);
  return req;
}

/// 10.0.0.`host`, its route and its own REQ.
Route FromHost(uint8_t host) { return {.device = 3, .local = Ipv4(1), .remote = Ipv4(host)}; }
wire::CmReq ReqOf(uint8_t host, wire::CmReq req) {
  wire::EncodeRdmaCmHeader({.source_port = 50000, .source = Ipv4(host), .destination = Ipv4(1)},
                           req.private_data);
  req.local_ca_guid += host;
  return req;
}

// [cm.listen.none]
TEST_F(ListenTest, ARequestWithoutAListenerIsRejected) {
  Receive(Req());
  EXPECT_EQ(Sent(), Texts{"REJ"});
  const auto rej = Last<wire::CmRej>();
  EXPECT_EQ(rej.reason, RejReason::kInvalidServiceId);
  EXPECT_EQ(rej.local_comm_id, CommId());
  EXPECT_EQ(rej.remote_comm_id, kPeerId);
  EXPECT_EQ(sent_.message.transaction_id, 77u);
  EXPECT_EQ(manager_.size(), 0u);
  EXPECT_EQ(manager_.counters().no_listener, 1u);
}

// [cm.listen.none]
TEST_F(ListenTest, BoundIsNotListening) {
  BindingId id{};
  ASSERT_EQ(manager_.Bind({.address = kAnyIpv4, .port = kPort}, id), Result::kOk);
  Receive(Req());
  EXPECT_EQ(Sent(), Texts{"REJ"});
  ASSERT_EQ(manager_.Listen(id, 1), Result::kOk);
  EXPECT_EQ(manager_.Listen(id, 1), Result::kWrongState);
  manager_.Release(id);
  Receive(Req());
  EXPECT_EQ(Sent(), Texts{"REJ"});
}

// [cm.listen.space]
TEST_F(ListenTest, PortSpacesAreApart) {
  Listen(kAnyIpv4, 1, PortSpace::kUdp);
  Listen(kAnyIpv4, 1, PortSpace::kIb);
  Receive(Req());
  EXPECT_EQ(Sent(), Texts{"REJ"});
  EXPECT_EQ(Last<wire::CmRej>().reason, RejReason::kInvalidServiceId);
  wire::CmReq req = Req();
  req.service_id = wire::ServiceIdOf({PortSpace::kIb, kPort});
  Receive(req);
  EXPECT_EQ(Told(), Kinds{EventKind::kConnectRequest});
  req.service_id = 0x1000000001061c06;
  Receive(Another(req, 1));
  EXPECT_EQ(Sent(), Texts{"REJ"});
}

// [cm.listen.address]
TEST_F(ListenTest, AnAddressListensForItselfAlone) {
  const BindingId ours = Listen(Ipv4(1));
  const BindingId other = Listen(Ipv4(9));
  Receive(Req());
  ASSERT_EQ(Told(), Kinds{EventKind::kConnectRequest});
  EXPECT_EQ(event_.listener, ours);
  EXPECT_NE(event_.listener, other);
  manager_.Release(ours);
  Receive(Another(Req(), 1));
  EXPECT_EQ(Sent(), Texts{"REJ"});
  EXPECT_EQ(Last<wire::CmRej>().reason, RejReason::kConsumerDefined);
}

// [cm.listen.address]
TEST_F(ListenTest, AWildcardListensForAllAddressesOfItsFamily) {
  const BindingId ipv4 = Listen(kAnyIpv4);
  BindingId ipv6{};
  ASSERT_EQ(manager_.Bind({.address = kAnyIpv6, .port = kPort, .own_family_only = true}, ipv6),
            Result::kOk);
  ASSERT_EQ(manager_.Listen(ipv6, 1), Result::kOk);
  Receive(Req());
  ASSERT_EQ(Told(), Kinds{EventKind::kConnectRequest});
  EXPECT_EQ(event_.listener, ipv4);
  wire::CmReq req = Another(Req(), 1);
  wire::EncodeRdmaCmHeader({.source_port = 1, .source = Ipv6(2), .destination = Ipv6(1)},
                           req.private_data);
  ReceiveFrom({.device = 3, .local = Ipv6(1), .remote = Ipv6(2)}, req);
  ASSERT_EQ(Told(), Kinds{EventKind::kConnectRequest});
  EXPECT_EQ(event_.listener, ipv6);
}

// [cm.listen.address]
TEST_F(ListenTest, TheIpv6WildcardTakesIpv4AsWellUnlessItIsTold) {
  Listen(kAnyIpv6);
  Receive(Req());
  EXPECT_EQ(Told(), Kinds{EventKind::kConnectRequest});
}

// [cm.listen.loopback]
TEST_F(ListenTest, ALoopbackAddressListensForAllAddressesOfItsFamily) {
  const BindingId listener = Listen(kLoopbackIpv4);
  Receive(Req());
  ASSERT_EQ(Told(), Kinds{EventKind::kConnectRequest});
  EXPECT_EQ(event_.listener, listener);
  wire::CmReq req = Another(Req(), 1);
  wire::EncodeRdmaCmHeader({.source_port = 1, .source = Ipv6(2), .destination = Ipv6(1)},
                           req.private_data);
  ReceiveFrom({.device = 3, .local = Ipv6(1), .remote = Ipv6(2)}, req);
  EXPECT_EQ(Sent(), Texts{"REJ"});
}

// [cm.listen.mismatch cm.header.version]
TEST_F(ListenTest, AddressesThatContradictThePacketsAreRejected) {
  Listen();
  const auto refused = [this](const wire::CmReq& req) {
    Receive(req);
    EXPECT_EQ(Sent(), Texts{"REJ"});
    EXPECT_EQ(Last<wire::CmRej>().reason, RejReason::kConsumerDefined);
  };
  wire::CmReq req = Req();
  req.private_data[0] = 0x10;
  refused(req);
  req = Req();
  req.private_data[1] = 0x50;
  refused(req);
  req = Req();
  req.private_data[19] = 7;  // Source 10.0.0.7.
  refused(req);
  req = Req();
  req.private_data[35] = 7;  // Destination 10.0.0.7.
  refused(req);
}

// [cm.listen.backlog]
TEST_F(ListenTest, AFullBacklogRefusesRequestsUntilOneIsTaken) {
  Listen(kAnyIpv4, 2);
  for (uint32_t i = 0; i < 3; ++i) Receive(Another(Req(), i));
  EXPECT_EQ(Told(), (Kinds{EventKind::kConnectRequest, EventKind::kConnectRequest}));
  EXPECT_EQ(manager_.counters().backlog_full, 1u);
  EXPECT_EQ(Sent(), Texts{"REJ"});
  EXPECT_EQ(Last<wire::CmRej>().reason, RejReason::kConsumerDefined);
  const CommId second = event_.id;
  Receive(Another(Req(), 2));
  EXPECT_EQ(Told(), Kinds{});
  EXPECT_EQ(Sent(), Texts{"REJ"});
  EXPECT_EQ(manager_.OnRequestTaken(second), Result::kOk);
  EXPECT_EQ(manager_.OnRequestTaken(second), Result::kOk);
  Receive(Another(Req(), 2));
  Receive(Another(Req(), 3));
  EXPECT_EQ(Told(), Kinds{EventKind::kConnectRequest});
  EXPECT_EQ(Sent(), Texts{"REJ"});
  EXPECT_EQ(manager_.Destroy(event_.id, now_), Result::kOk);
  EXPECT_EQ(Sent(), Texts{"REJ"});
  Receive(Another(Req(), 3));
  EXPECT_EQ(Told(), Kinds{EventKind::kConnectRequest});
}

// [cm.listen.close]
TEST_F(ListenTest, RequestsOutliveTheirListener) {
  const BindingId listener = Listen();
  Receive(Req());
  ASSERT_EQ(Told(), Kinds{EventKind::kConnectRequest});
  const CommId id = event_.id;
  manager_.Release(listener);
  EXPECT_EQ(manager_.OnRequestTaken(id), Result::kOk);
  EXPECT_EQ(manager_.Accept(id, Acceptance(), now_), Result::kOk);
  EXPECT_EQ(Sent(), Texts{"REP"});
}

// [cm.answer.frame]
TEST_F(ListenTest, WhatIsNotRememberedIsAnsweredToWhoSentTheFrame) {
  Route route = OurRoute();
  route.frame_source = Mac{2, 3, 4, 5, 6, 7};
  ReceiveFrom(route, Req());
  EXPECT_EQ(Sent(), Texts{"REJ"});
  EXPECT_EQ(sent_.route.frame_source, route.frame_source);
  ReceiveFrom(route, Dreq(CommId(7)));
  EXPECT_EQ(Sent(), Texts{"DREP"});
  EXPECT_EQ(sent_.route.frame_source, route.frame_source);
}

// [cm.answer.network]
TEST_F(ListenTest, AConnectionIsMadeWithWhomTheNetworkNames) {
  Listen();
  Route route = OurRoute();
  route.frame_source = Mac{2, 3, 4, 5, 6, 7};
  ReceiveFrom(route, Req());
  EXPECT_EQ(Told(), Kinds{EventKind::kConnectRequest});
  EXPECT_EQ(manager_.Accept(event_.id, Acceptance(), now_), Result::kOk);
  EXPECT_EQ(Sent(), Texts{"REP"});
  EXPECT_EQ(sent_.route.frame_source, std::nullopt);
}

// [cm.listen.backlog.share]
TEST_F(ListenTest, EachSourceHasItsOwnBacklog) {
  Listen(kAnyIpv4, 2);
  for (uint32_t i = 0; i < 100; ++i) Receive(Another(Req(), i));
  EXPECT_EQ(Told(), Kinds(2, EventKind::kConnectRequest));
  const CommId taken = event_.id;
  for (uint32_t i = 0; i < 3; ++i) ReceiveFrom(FromHost(3), Another(ReqOf(3, Req()), i));
  EXPECT_EQ(Told(), Kinds(2, EventKind::kConnectRequest));
  EXPECT_EQ(manager_.OnRequestTaken(taken), Result::kOk);
  for (uint32_t i = 0; i < 3; ++i) ReceiveFrom(FromHost(3), Another(ReqOf(3, Req()), 10 + i));
  EXPECT_EQ(Told(), Kinds{}) << "a place that is free again is its source's";
  EXPECT_EQ(Sent(), Texts(98 + 1 + 3, "REJ"));
}

// [cm.listen.backlog.share]
TEST_F(ListenTest, SourcesThatTakeAllTheyCanLeavePlacesToOthers) {
  Listen(kAnyIpv4, Bindings::kPlaces);
  size_t left = Bindings::kPlaces;
  for (uint8_t host = 2; host < 8; ++host) {
    for (uint32_t i = 0; i < Bindings::kPlaces; ++i) {
      ReceiveFrom(FromHost(host), Another(ReqOf(host, Req()), i));
    }
    const size_t got = Told().size();
    EXPECT_EQ(got, (2 * left + 2) / 3) << "twice what is left, host " << int{host};
    EXPECT_EQ(Sent(), Texts(Bindings::kPlaces - got, "REJ"));
    left -= got;
  }
}

class FloodTest : public CmScript {
 protected:
  FloodTest() : CmScript({.max_ids = 5, .requests_per_second = 1000, .request_burst = 10}) {}
};

// [cm.flood.rate]
TEST_F(FloodTest, RequestsOverTheRateAreDroppedAndCounted) {
  for (uint32_t i = 0; i < 15; ++i) Receive(Another(Req(), i));
  EXPECT_EQ(Sent(), Texts(10, "REJ"));
  EXPECT_EQ(manager_.counters().over_rate, 5u);
  At(3);
  for (uint32_t i = 0; i < 15; ++i) Receive(Another(Req(), i));
  EXPECT_EQ(Sent(), Texts(3, "REJ"));
}

// [cm.flood.source]
TEST_F(FloodTest, RequestsOfOneSourceTakeNothingFromOthers) {
  Listen();
  wire::CmReq unheard = Req();
  unheard.service_id = wire::ServiceIdOf({PortSpace::kTcp, kPort + 1});
  for (uint32_t i = 0; i < 1000; ++i) Receive(Another(unheard, i));
  EXPECT_EQ(Sent(), Texts(10, "REJ"));
  for (uint8_t host = 3; host < 6; ++host) ReceiveFrom(FromHost(host), ReqOf(host, Req()));
  EXPECT_EQ(Told(), Kinds(3, EventKind::kConnectRequest));
}

// [cm.flood.rate]
TEST_F(FloodTest, RequestsOverTheRateDoNotStopWhatIsUnderWay) {
  const CommId id = Connect();
  for (uint32_t i = 0; i < 100; ++i) Receive(Another(Req(), i));
  EXPECT_EQ(Sent(), Texts(10, "REJ"));
  Receive(Rep(id));
  EXPECT_EQ(Told(), Kinds{EventKind::kConnectReply});
}

class RepeatsTest : public CmScript {
 protected:
  RepeatsTest() : CmScript({.repeats_per_second = 10, .repeat_burst = 10}) {}
};

// [cm.flood.repeats]
TEST_F(RepeatsTest, RepeatedRepsToOneSourceAreBounded) {
  Listen(kAnyIpv4, 100);
  constexpr uint32_t kRequests = 20;
  for (const uint8_t host : {uint8_t{2}, uint8_t{3}}) {
    for (uint32_t i = 0; i < (host == 2 ? kRequests : 1); ++i) {
      wire::CmReq req = ReqOf(host, Req());
      req.local_comm_id = CommId(1 + i);
      req.local_qpn = Qpn(0x300 + i);
      req.local_cm_response_timeout = 0;
      ReceiveFrom(FromHost(host), req);
      EXPECT_EQ(Told(), Kinds{EventKind::kConnectRequest});
      EXPECT_EQ(manager_.Accept(event_.id, Acceptance(), now_), Result::kOk);
    }
  }
  EXPECT_EQ(Sent(), Texts(kRequests + 1, "REP")) << "each request has its answer";
  At(1);
  size_t to_other = 0, to_source = 0;
  while (const auto datagram = manager_.PollDatagram()) {
    ++(datagram->route.remote == Ipv4(3) ? to_other : to_source);
  }
  EXPECT_EQ(to_source, 10u);
  EXPECT_EQ(to_other, 1u) << "what one source takes is not another's";
  EXPECT_EQ(manager_.counters().over_rate, kRequests - 10);
  At(100);
  EXPECT_EQ(Told(), Kinds(kRequests + 1, EventKind::kUnreachable));
  size_t reps = 0;
  while (const auto datagram = manager_.PollDatagram()) {
    reps += datagram->message.attribute() == wire::CmAttribute::kRep;
  }
  EXPECT_EQ(reps, 9u) << "to the other, for which the same bound holds";
}

// [cm.flood.room]
TEST_F(FloodTest, ThereAreNoMoreCommunicationsThanMayBe) {
  Listen(kAnyIpv4, 100);
  for (uint32_t i = 0; i < 7; ++i) Receive(Another(Req(), i));
  EXPECT_EQ(Told(), Kinds(5, EventKind::kConnectRequest));
  EXPECT_EQ(manager_.counters().no_room, 2u);
  CommId id;
  EXPECT_EQ(manager_.Connect(ToPeer(), now_, id), Result::kNoRoom);
  EXPECT_EQ(manager_.Resolve({}, now_, id), Result::kNoRoom);
}

// [cm.mad.counted]
TEST_F(ListenTest, WhatIsNoMessageCostsACounter) {
  const std::vector<uint8_t> bytes(wire::kMadBytes);
  manager_.OnMad(OurRoute(), bytes, now_);
  manager_.OnMad(OurRoute(), std::span(bytes).first(3), now_);
  const auto& decoded = manager_.counters().decoded;
  EXPECT_EQ(decoded[static_cast<size_t>(wire::CmDecodeResult::kBadBaseVersion)], 1u);
  EXPECT_EQ(decoded[static_cast<size_t>(wire::CmDecodeResult::kBadLength)], 1u);
}

// [cm.id.address]
TEST_F(ListenTest, RightNumbersFromAnotherAddressAreNotBelieved) {
  const CommId id = Active();
  Route route = OurRoute();
  route.remote = Ipv4(3);
  ReceiveFrom(route, Dreq(id));
  ReceiveFrom(route, Rej(id, RejReason::kConsumerDefined));
  route = OurRoute();
  route.local = Ipv4(8);
  ReceiveFrom(route, Dreq(id));
  EXPECT_EQ(StateOf(id), State::kEstablished);
  EXPECT_EQ(manager_.counters().wrong_address, 3u);
}

// [cm.id.pair]
TEST_F(ListenTest, MessagesOfAnotherPairOfNumbersAreIgnored) {
  const CommId id = Accepted();
  wire::CmRtu rtu = Rtu(id);
  rtu.local_comm_id = CommId(0x33333333);
  Receive(rtu);
  Receive(Rtu(CommId(id.value() + 1)));
  Receive(Drep(CommId(id.value() + 1)));
  EXPECT_EQ(StateOf(id), State::kRepSent);
  EXPECT_EQ(manager_.counters().unknown_id, 3u);
}

// [cm.id.unique]
TEST_F(ListenTest, NumbersAreNeverZeroNorTakenTwice) {
  random_ = 0xffffffff - 1;
  const CommId first = Connect();  // 0xffffffff; the next draw is 0.
  const CommId second = Connect();
  EXPECT_EQ(first, CommId(0xffffffff));
  EXPECT_EQ(second, CommId(1));
  random_ = 0;
  EXPECT_EQ(Connect(), CommId(2));
}

// [cm.deadlines]
TEST_F(ListenTest, ManyDeadlinesAreWorkedOffInPieces) {
  constexpr int kMany = Manager::kDeadlinesAtOnce + 10;
  for (int i = 0; i < kMany; ++i) Connect();
  now_ = Nanos(6'144'000'000);
  manager_.OnDeadline(now_);
  EXPECT_EQ(Sent(), Texts(Manager::kDeadlinesAtOnce, "REQ"));
  EXPECT_EQ(manager_.NextDeadline(), now_);
  manager_.OnDeadline(now_);
  EXPECT_EQ(Sent(), Texts(10, "REQ"));
  EXPECT_GT(manager_.NextDeadline(), now_);
}

}  // namespace
}  // namespace uroce::nic::cm
