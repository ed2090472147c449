// SPDX-License-Identifier: Apache-2.0
// The side that listens: REQ to ESTABLISHED, or not.
#include "tests/nic/cm/cm_script.h"

namespace uroce::nic::cm {
namespace {

using PassiveTest = CmScript;
using wire::CmAbout;
using wire::RejReason;

// [cm.passive.request]
TEST_F(PassiveTest, ARequestForAListenerIsTold) {
  const BindingId listener = Listen();
  Receive(Req());
  ASSERT_EQ(Told(), Kinds{EventKind::kConnectRequest});
  EXPECT_EQ(event_.listener, listener);
  EXPECT_EQ(event_.header.source, Ipv4(2));
  EXPECT_EQ(event_.header.source_port, 50000);
  EXPECT_EQ(event_.route.device, 3u);
  EXPECT_EQ(ToldOf<wire::CmReq>(), Req());
  EXPECT_EQ(StateOf(event_.id), State::kReqReceived);
}

// [cm.passive.accept cm.tid]
TEST_F(PassiveTest, AnAcceptedRequestIsRepliedTo) {
  const CommId id = Accepted();
  const auto rep = Last<wire::CmRep>();
  EXPECT_EQ(rep.local_comm_id, id);
  EXPECT_EQ(rep.remote_comm_id, kPeerId);
  EXPECT_EQ(rep.local_qpn, kOurQpn);
  EXPECT_EQ(rep.starting_psn, wire::Psn(0x1000));
  EXPECT_EQ(rep.local_ca_guid, kOurGuid);
  EXPECT_EQ(rep.target_ack_delay, 15);
  EXPECT_EQ(rep.rnr_retry_count, 7);
  EXPECT_EQ(sent_.message.transaction_id, 77u);
  EXPECT_EQ(sent_.route.remote, Ipv4(2));
  EXPECT_EQ(manager_.Accept(id, Acceptance(), now_), Result::kWrongState);
}

// [cm.xrc.rep]
TEST_F(PassiveTest, AnXrcTargetIsTheSecondQueuePairOfTheReply) {
  Listen();
  wire::CmReq req = Req();
  req.transport = wire::CmTransport::kExtended;
  req.extended_transport = 1;
  Receive(req);
  EXPECT_EQ(Told(), Kinds{EventKind::kConnectRequest});
  ASSERT_EQ(manager_.Accept(event_.id, Acceptance(), now_), Result::kOk);
  EXPECT_EQ(Sent(), Texts{"REP"});
  EXPECT_EQ(Last<wire::CmRep>().local_eecn, kOurQpn.value());
  EXPECT_EQ(Last<wire::CmRep>().local_qpn, Qpn());
  EXPECT_TRUE(Last<wire::CmRep>().srq);
}

// [cm.attributes.passive]
TEST_F(PassiveTest, TheRequestAndOurAnswerDecideTheQueuePairsAttributes) {
  const CommId id = Requested();
  QueuePairAttributes expected{.dest_qpn = kPeerQpn,
                               .sq_psn = wire::Psn(0x2000),
                               .path_mtu = 3,
                               .max_rd_atomic = 6,
                               .max_dest_rd_atomic = 7,
                               .timeout = 19,
                               .retry_count = 7,
                               .rnr_retry = 7};
  EXPECT_EQ(manager_.FindConnection(id)->attributes(), expected);
  EXPECT_EQ(manager_.Accept(id, Acceptance(), now_), Result::kOk);
  EXPECT_EQ(Sent(), Texts{"REP"});
  expected.max_rd_atomic = 5;
  expected.max_dest_rd_atomic = 4;
  EXPECT_EQ(manager_.FindConnection(id)->attributes(), expected);
}

// [cm.passive.path]
TEST_F(PassiveTest, ThePathBackHasTheTrafficClassOfTheRequest) {
  Listen();
  wire::CmReq req = Req();
  req.primary.traffic_class = 0x68;
  req.primary.flow_label = 0x12345;
  req.primary.hop_limit = 9;
  Receive(req);
  ASSERT_EQ(Told(), Kinds{EventKind::kConnectRequest});
  EXPECT_EQ(event_.route.traffic_class, 0x68);
  EXPECT_EQ(event_.route.flow_label, 0x12345u);
  EXPECT_EQ(event_.route.hop_limit, 9);
}

// [cm.passive.rtu]
TEST_F(PassiveTest, AnRtuEstablishes) {
  const CommId id = Accepted();
  Receive(Rtu(id));
  EXPECT_EQ(Told(), Kinds{EventKind::kEstablished});
  EXPECT_EQ(StateOf(id), State::kEstablished);
  EXPECT_EQ(manager_.NextDeadline(), kNever);
  Receive(Rtu(id));
  EXPECT_EQ(Told(), Kinds{});
}

// [cm.passive.first-packet]
TEST_F(PassiveTest, TheFirstPacketOfTheQueuePairIsAsGoodAsAnRtu) {
  const CommId id = Accepted();
  EXPECT_EQ(manager_.OnFirstPacket(id), Result::kOk);
  EXPECT_EQ(Told(), Kinds{EventKind::kEstablished});
  EXPECT_EQ(manager_.OnFirstPacket(id), Result::kWrongState);
  Receive(Rtu(id));
  EXPECT_EQ(Told(), Kinds{});
}

// [cm.time.rep cm.passive.timeout]
TEST_F(PassiveTest, AReplyIsSentSixteenTimesAndThenThePeerIsUnreachable) {
  const CommId id = Accepted();
  At(4095);
  EXPECT_EQ(Sent(), Texts{});
  At(15 * 4096);
  EXPECT_EQ(Sent(), Texts(15, "REP"));
  At(16 * 4096);
  EXPECT_EQ(Told(), Kinds{EventKind::kUnreachable});
  EXPECT_EQ(Sent(), Texts{"REJ"});
  EXPECT_EQ(Last<wire::CmRej>().reason, RejReason::kTimeout);
  EXPECT_EQ(Last<wire::CmRej>().remote_comm_id, kPeerId);
  EXPECT_EQ(StateOf(id), State::kIdle);
}

// [cm.time.bounded]
TEST_F(PassiveTest, TimeoutsOfAPeerAreBounded) {
  Listen();
  wire::CmReq req = Req();
  req.local_cm_response_timeout = 31;
  req.max_cm_retries = 0;
  Receive(req);
  ASSERT_EQ(Told(), Kinds{EventKind::kConnectRequest});
  ASSERT_EQ(manager_.Accept(event_.id, Acceptance(), now_), Result::kOk);
  EXPECT_EQ(Sent(), Texts{"REP"});
  At(16'384);
  EXPECT_EQ(Told(), Kinds{EventKind::kUnreachable});
  EXPECT_EQ(Sent(), Texts{"REJ"});
}

// [cm.passive.mra]
TEST_F(PassiveTest, AnMraOfTheReplyLengthensTheWait) {
  const CommId id = Accepted();
  Receive(Mra(id, CmAbout::kRep, 24));
  EXPECT_EQ(StateOf(id), State::kMraRepReceived);
  At(65536 + 2048 - 1);
  EXPECT_EQ(Sent(), Texts{});
  Receive(Rtu(id));
  EXPECT_EQ(Told(), Kinds{EventKind::kEstablished});
}

// [cm.passive.reject]
TEST_F(PassiveTest, ARejectionCarriesReasonAndPrivateData) {
  const CommId id = Requested();
  const uint8_t data[] = {5, 6};
  EXPECT_EQ(manager_.Reject(id, RejReason::kConsumerDefined, data), Result::kOk);
  EXPECT_EQ(Sent(), Texts{"REJ"});
  const auto rej = Last<wire::CmRej>();
  EXPECT_EQ(rej.about, CmAbout::kReq);
  EXPECT_EQ(rej.local_comm_id, id);
  EXPECT_EQ(rej.remote_comm_id, kPeerId);
  EXPECT_EQ(rej.reason, RejReason::kConsumerDefined);
  EXPECT_EQ(rej.private_data[1], 6);
  EXPECT_EQ(manager_.Accept(id, Acceptance(), now_), Result::kWrongState);
  // The number is free for the peer's next try.
  Receive(Req());
  EXPECT_EQ(Told(), Kinds{EventKind::kConnectRequest});
}

// [cm.private]
TEST_F(PassiveTest, MorePrivateDataThanAnAnswerHoldsIsRefused) {
  const CommId id = Requested();
  const std::vector<uint8_t> data(197);
  AcceptParameters acceptance = Acceptance();
  acceptance.private_data = data;
  EXPECT_EQ(manager_.Accept(id, acceptance, now_), Result::kTooLong);
  EXPECT_EQ(manager_.Reject(id, RejReason::kConsumerDefined, std::span(data).first(149)),
            Result::kTooLong);
  acceptance.private_data = std::span(data).first(196);
  EXPECT_EQ(manager_.Accept(id, acceptance, now_), Result::kOk);
  EXPECT_EQ(Sent(), Texts{"REP"});
}

// [cm.passive.rej]
TEST_F(PassiveTest, AnActiveSideThatRejectsTheReplyIsTold) {
  const CommId id = Accepted();
  Receive(Rej(id, RejReason::kConsumerDefined, CmAbout::kRep));
  EXPECT_EQ(Told(), Kinds{EventKind::kRejected});
  EXPECT_EQ(StateOf(id), State::kIdle);
}

// [cm.passive.rej.stale]
TEST_F(PassiveTest, AStaleReplyLetsOurQueuePairRest) {
  const CommId id = Accepted();
  Receive(Rej(id, RejReason::kStale, CmAbout::kRep));
  EXPECT_EQ(Told(), Kinds{EventKind::kRejected});
  EXPECT_EQ(StateOf(id), State::kTimewait);
}

// [cm.rej.timeout]
TEST_F(PassiveTest, WhoGivesUpIsKnownByItsCaGuid) {
  const CommId id = Requested();
  wire::CmRej rej = Rej(CommId(), RejReason::kTimeout);
  rej.info = {0x02, 0, 0, 0xff, 0xfe, 0, 0, 0x03};
  rej.info_bytes = 8;
  Receive(rej);
  EXPECT_EQ(Told(), Kinds{});
  rej.info[7] = 0x02;
  Receive(rej);
  EXPECT_EQ(Told(), Kinds{EventKind::kRejected});
  EXPECT_EQ(event_.id, id);
  EXPECT_EQ(manager_.Accept(id, Acceptance(), now_), Result::kWrongState);
}

// [cm.dup.req]
TEST_F(PassiveTest, ARepeatedRequestMakesNoSecondConnection) {
  const CommId id = Requested();
  Receive(Req());
  EXPECT_EQ(Told(), Kinds{});
  EXPECT_EQ(Sent(), Texts{"MRA"});
  EXPECT_EQ(Last<wire::CmMra>().about, CmAbout::kReq);
  EXPECT_EQ(Last<wire::CmMra>().remote_comm_id, kPeerId);
  EXPECT_EQ(manager_.Accept(id, Acceptance(), now_), Result::kOk);
  EXPECT_EQ(Sent(), Texts{"REP"});
  Receive(Rtu(id));
  EXPECT_EQ(Told(), Kinds{EventKind::kEstablished});
  Receive(Req());
  EXPECT_EQ(Told(), Kinds{});
  EXPECT_EQ(Sent(), Texts{});
  EXPECT_EQ(manager_.counters().duplicates, 2u);
  EXPECT_EQ(manager_.size(), 1u);
}

// [cm.dup.req.rep]
TEST_F(PassiveTest, ARepeatedRequestBringsTheReplyAgainAtOnce) {
  const CommId id = Accepted();
  const auto rep = Last<wire::CmRep>();
  At(100);
  Receive(Req());
  EXPECT_EQ(Sent(), Texts{"REP"});
  EXPECT_EQ(Last<wire::CmRep>(), rep);
  EXPECT_EQ(sent_.message.transaction_id, 77u);
  EXPECT_EQ(Told(), Kinds{});
  EXPECT_EQ(StateOf(id), State::kRepSent);
}

// [cm.dup.req.rep]
TEST_F(PassiveTest, ARepeatedRequestNeitherMovesTheReplysTimerNorSpendsItsRetries) {
  Accepted();
  At(4000);
  for (int i = 0; i < 20; ++i) Receive(Req());
  EXPECT_EQ(Sent(), Texts(20, "REP"));
  At(15 * 4096);
  EXPECT_EQ(Sent(), Texts(15, "REP"));
  EXPECT_EQ(Told(), Kinds{});
  At(16 * 4096);
  EXPECT_EQ(Told(), Kinds{EventKind::kUnreachable});
  EXPECT_EQ(Sent(), Texts{"REJ"});
}

// [cm.dup.req.rep]
TEST_F(PassiveTest, ARepeatedRequestOfAPeerThatHasTheReplyIsIgnored) {
  const CommId id = Accepted();
  Receive(Mra(id, CmAbout::kRep, 20));
  Receive(Req());
  EXPECT_EQ(Sent(), Texts{});
  EXPECT_EQ(StateOf(id), State::kMraRepReceived);
}

// [cm.dup.req.timewait]
TEST_F(PassiveTest, ARequestWithTheNumberOfAConnectionInTimeWaitIsStale) {
  const CommId id = Passive();
  Receive(Dreq(id));
  EXPECT_EQ(Told(), Kinds{EventKind::kDisconnected});
  EXPECT_EQ(manager_.Disconnect(id, now_), Result::kOk);
  EXPECT_EQ(Sent(), Texts{"DREP"});
  Receive(Req());
  EXPECT_EQ(Sent(), Texts{"REJ"});
  EXPECT_EQ(Last<wire::CmRej>().reason, RejReason::kStale);
  At(2048);
  EXPECT_EQ(Told(), Kinds{EventKind::kTimewaitExit});
  Receive(Req());
  EXPECT_EQ(Told(), Kinds{EventKind::kConnectRequest});
}

// [cm.stale.rest]
TEST_F(PassiveTest, AQueuePairWhoseConnectionIsInTimeWaitMayConnectAgain) {
  const CommId old = Passive();
  Receive(Dreq(old));
  EXPECT_EQ(Told(), Kinds{EventKind::kDisconnected});
  EXPECT_EQ(manager_.Disconnect(old, now_), Result::kOk);
  EXPECT_EQ(Sent(), Texts{"DREP"});
  wire::CmReq req = Req();
  req.local_comm_id = CommId(0x33333333);
  Receive(req);
  EXPECT_EQ(Sent(), Texts{});
  EXPECT_EQ(Told(), Kinds{EventKind::kConnectRequest});
  EXPECT_EQ(manager_.counters().stale, 0u);
  EXPECT_EQ(StateOf(old), State::kTimewait);
  // The end of the old time wait changes nothing: the queue pair is in the new connection.
  At(2048);
  EXPECT_EQ(Told(), Kinds{EventKind::kTimewaitExit});
  req.local_comm_id = CommId(0x44444444);
  Receive(req);
  EXPECT_EQ(Sent(), Texts{"REJ"});
  EXPECT_EQ(Last<wire::CmRej>().reason, RejReason::kStale);
}

// [cm.stale.req]
TEST_F(PassiveTest, ARequestOfAQueuePairThatIsConnectedEndsAConnectionThatItsPeerHasForgotten) {
  const CommId old = Passive();
  wire::CmReq req = Req();
  req.local_comm_id = CommId(0x33333333);
  Receive(req);
  EXPECT_EQ(Sent(), (Texts{"REJ", "DREQ"}));
  EXPECT_EQ(Last<wire::CmDreq>().remote_qpn, wire::kGsiQpn);
  EXPECT_EQ(Told(), Kinds{});
  EXPECT_EQ(StateOf(old), State::kEstablished);
  EXPECT_EQ(manager_.counters().stale, 1u);
  Receive(Drep(old));
  EXPECT_EQ(Told(), Kinds{EventKind::kDisconnected});
  EXPECT_EQ(StateOf(old), State::kTimewait);
}

// [cm.rej.half]
TEST_F(PassiveTest, ARejectionWithoutOurNumberEndsNoEstablishedConnection) {
  const CommId id = Passive();
  wire::CmRej rej = Rej(CommId(), RejReason::kTimeout);
  rej.info_bytes = 8;
  for (size_t i = 0; i < 8; ++i) rej.info[i] = static_cast<uint8_t>(kPeerGuid >> (56 - 8 * i));
  Receive(rej);
  EXPECT_EQ(StateOf(id), State::kEstablished);
  EXPECT_EQ(manager_.counters().unknown_id, 1u);
  rej.remote_comm_id = id;
  Receive(rej);
  EXPECT_EQ(Told(), Kinds{EventKind::kDisconnected});
}

// [cm.stale.alive]
TEST_F(PassiveTest, AConnectionThatItsPeerKnowsOutlivesRequestsOfItsQueuePair) {
  const CommId old = Passive();
  wire::CmReq req = Req();
  for (uint32_t i = 0; i < 100; ++i) {
    req.local_comm_id = CommId(0x33330000 + i);
    Receive(req);
  }
  Texts expected(101, "REJ");
  expected[1] = "DREQ";  // One inquiry at a time.
  EXPECT_EQ(Sent(), expected);
  At(1'000'000);
  EXPECT_EQ(Sent(), Texts(Connection::kInquiries - 1, "DREQ"));
  EXPECT_EQ(StateOf(old), State::kEstablished);
  EXPECT_EQ(Told(), Kinds{});
  Receive(Drep(old));
  EXPECT_EQ(StateOf(old), State::kEstablished) << "an unexpected answer";
}

// [cm.stale.alive]
TEST_F(PassiveTest, AnInquiryLeavesTheConnectionToBeEndedAsAnyOther) {
  const CommId old = Passive();
  wire::CmReq req = Req();
  req.local_comm_id = CommId(0x33333333);
  Receive(req);
  EXPECT_EQ(Sent(), (Texts{"REJ", "DREQ"}));
  EXPECT_EQ(manager_.Disconnect(old, now_), Result::kOk);
  EXPECT_EQ(Sent(), Texts{"DREQ"});
  EXPECT_EQ(Last<wire::CmDreq>().remote_qpn, kPeerQpn);
  Receive(Drep(old));
  EXPECT_EQ(Told(), Kinds{EventKind::kDisconnected});
}

// [cm.stale.address]
TEST_F(PassiveTest, QueuePairsOfOtherGuidsAddressesAndDevicesAreOthers) {
  const CommId old = Passive();
  wire::CmReq req = Req();
  req.local_ca_guid = kPeerGuid + 1;
  Receive(req);
  EXPECT_EQ(Told(), Kinds{EventKind::kConnectRequest});
  req = Req();
  wire::EncodeRdmaCmHeader({.source_port = 50000, .source = Ipv4(3), .destination = Ipv4(1)},
                           req.private_data);
  Route route = OurRoute();
  route.remote = Ipv4(3);
  ReceiveFrom(route, req);
  EXPECT_EQ(Told(), Kinds{EventKind::kConnectRequest}) << "another host's, with all its numbers";
  route = OurRoute();
  route.device = 4;
  ReceiveFrom(route, Req());
  EXPECT_EQ(Told(), Kinds{EventKind::kConnectRequest});
  EXPECT_EQ(StateOf(old), State::kEstablished);
  EXPECT_EQ(manager_.counters().stale, 0u);
}

// [cm.stale.req]
TEST_F(PassiveTest, AStaleRequestTakesNoPlaceInTheBacklog) {
  Listen(kAnyIpv4, 2);
  Receive(Req());
  wire::CmReq req = Req();
  req.local_comm_id = CommId(0x33333333);
  Receive(req);
  Receive(req);
  EXPECT_EQ(Sent(), (Texts{"REJ", "REJ"}));
  req.local_qpn = Qpn(0x333);
  Receive(req);
  EXPECT_EQ(Told(), (Kinds{EventKind::kConnectRequest, EventKind::kConnectRequest}));
}

// [cm.req.transport]
TEST_F(PassiveTest, TransportsThatWeDoNotHaveAreRefused) {
  Listen();
  wire::CmReq req = Req();
  req.transport = wire::CmTransport::kRd;
  Receive(req);
  EXPECT_EQ(Sent(), Texts{"REJ"});
  EXPECT_EQ(Last<wire::CmRej>().reason, RejReason::kInvalidTransport);
  EXPECT_EQ(Last<wire::CmRej>().local_comm_id, CommId());
  req.transport = wire::CmTransport::kExtended;
  req.extended_transport = 2;
  Receive(req);
  EXPECT_EQ(Sent(), Texts{"REJ"});
  req.extended_transport = 1;
  Receive(req);
  EXPECT_EQ(Told(), Kinds{EventKind::kConnectRequest});
}

// [cm.req.mtu]
TEST_F(PassiveTest, AnMtuThatThereIsNotIsRefusedWithOneThatThereIs) {
  Listen();
  wire::CmReq req = Req();
  for (const uint8_t mtu : std::initializer_list<uint8_t>{0, 6, 15}) {
    req.path_mtu = mtu;
    Receive(req);
    EXPECT_EQ(Sent(), Texts{"REJ"});
    EXPECT_EQ(Last<wire::CmRej>().reason, RejReason::kInvalidMtu);
    EXPECT_EQ(Last<wire::CmRej>().info_bytes, 1);
    EXPECT_EQ(Last<wire::CmRej>().info[0], 5);
  }
}

}  // namespace
}  // namespace uroce::nic::cm
