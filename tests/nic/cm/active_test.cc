// SPDX-License-Identifier: Apache-2.0
// The side that connects: REQ to ESTABLISHED, or not.
#include "tests/nic/cm/cm_script.h"

namespace uroce::nic::cm {
namespace {

using ActiveTest = CmScript;
using wire::CmAbout;
using wire::RejReason;

// [cm.req cm.header cm.service]
TEST_F(ActiveTest, ARequestSaysWhatRdmaCmSaysOverRoce) {
  ConnectParameters parameters = ToPeer();
  parameters.route.flow_label = 0xabcde;
  parameters.route.traffic_class = 0x68;
  const uint8_t data[] = {1, 2, 3};
  parameters.private_data = data;
  const CommId id = Connect(parameters);
  const auto req = Last<wire::CmReq>();
  EXPECT_EQ(req.local_comm_id, id);
  EXPECT_EQ(req.service_id, 0x0000000001061c06u);
  EXPECT_EQ(req.local_ca_guid, kOurGuid);
  EXPECT_EQ(req.local_qpn, kOurQpn);
  EXPECT_EQ(req.starting_psn, wire::Psn(0x1000));
  EXPECT_EQ(req.responder_resources, 4);
  EXPECT_EQ(req.initiator_depth, 5);
  EXPECT_EQ(req.remote_cm_response_timeout, 20);
  EXPECT_EQ(req.local_cm_response_timeout, 20);
  EXPECT_EQ(req.max_cm_retries, 15);
  EXPECT_EQ(req.primary, (wire::CmPath{.local_lid = 0xffff,
                                       .remote_lid = 0xffff,
                                       .local = Ipv4(1),
                                       .remote = Ipv4(2),
                                       .flow_label = 0xabcde,
                                       .traffic_class = 0x68,
                                       .hop_limit = 64,
                                       .local_ack_timeout = 19}));
  EXPECT_EQ(req.alternate, wire::CmPath{});
  wire::RdmaCmHeader header;
  ASSERT_EQ(wire::DecodeRdmaCmHeader(req.private_data, header), wire::RdmaCmHeaderResult::kOk);
  EXPECT_EQ(header.source, Ipv4(1));
  EXPECT_EQ(header.destination, Ipv4(2));
  EXPECT_EQ(header.source_port, 40000);
  EXPECT_EQ(req.private_data[36], 1);
  EXPECT_EQ(req.private_data[38], 3);
  EXPECT_EQ(req.private_data[39], 0);
}

// [cm.req.subnet]
TEST_F(ActiveTest, APathWithoutARouterSaysSoByItsLids) {
  ConnectParameters parameters = ToPeer();
  parameters.route.hop_limit = 1;
  Connect(parameters);
  EXPECT_EQ(Last<wire::CmReq>().primary.local_lid, 0);
  EXPECT_TRUE(Last<wire::CmReq>().primary.subnet_local);
}

// [cm.req]
TEST_F(ActiveTest, XrcIsAnExtendedTransport) {
  ConnectParameters parameters = ToPeer();
  parameters.xrc = true;
  Connect(parameters);
  EXPECT_EQ(Last<wire::CmReq>().transport, wire::CmTransport::kExtended);
  EXPECT_EQ(Last<wire::CmReq>().extended_transport, 1);
}

// [cm.xrc.rep]
TEST_F(ActiveTest, TheTargetOfAnXrcReplyIsItsSecondQueuePair) {
  ConnectParameters parameters = ToPeer();
  parameters.xrc = true;
  const CommId id = Connect(parameters);
  wire::CmRep rep = Rep(id);
  rep.local_qpn = Qpn();
  rep.local_eecn = kPeerQpn.value();
  Receive(rep);
  EXPECT_EQ(Told(), Kinds{EventKind::kConnectReply});
  EXPECT_EQ(manager_.FindConnection(id)->attributes()->dest_qpn, kPeerQpn);
  ASSERT_EQ(manager_.Establish(id), Result::kOk);
  EXPECT_EQ(Sent(), Texts{"RTU"});
  ASSERT_EQ(manager_.Disconnect(id, now_), Result::kOk);
  EXPECT_EQ(Sent(), Texts{"DREQ"});
  EXPECT_EQ(Last<wire::CmDreq>().remote_qpn, kPeerQpn);
}

// [cm.private]
TEST_F(ActiveTest, MorePrivateDataThanARequestHoldsIsRefused) {
  const std::vector<uint8_t> data(57);
  ConnectParameters parameters = ToPeer();
  parameters.private_data = data;
  CommId id;
  EXPECT_EQ(manager_.Connect(parameters, now_, id), Result::kTooLong);
  EXPECT_EQ(manager_.size(), 0u);
  parameters.private_data = std::span(data).first(56);
  Connect(parameters);
}

// [cm.active.rep cm.tid]
TEST_F(ActiveTest, AReplyIsToldAndAnsweredByAnRtuWhenTheQueuePairIsReady) {
  const CommId id = Connect();
  const uint64_t transaction_id = sent_.message.transaction_id;
  Receive(Rep(id));
  EXPECT_EQ(Told(), Kinds{EventKind::kConnectReply});
  EXPECT_EQ(ToldOf<wire::CmRep>().local_qpn, kPeerQpn);
  EXPECT_EQ(StateOf(id), State::kRepReceived);
  EXPECT_EQ(Sent(), Texts{});
  EXPECT_EQ(manager_.Establish(id), Result::kOk);
  EXPECT_EQ(Sent(), Texts{"RTU"});
  EXPECT_EQ(Last<wire::CmRtu>(), (wire::CmRtu{.local_comm_id = id, .remote_comm_id = kPeerId}));
  EXPECT_EQ(sent_.message.transaction_id, transaction_id);
  EXPECT_EQ(StateOf(id), State::kEstablished);
  EXPECT_EQ(manager_.Establish(id), Result::kWrongState);
}

// [cm.attributes.active]
TEST_F(ActiveTest, TheReplyAndOurRequestDecideTheQueuePairsAttributes) {
  const CommId id = Connect();
  EXPECT_EQ(manager_.FindConnection(id)->attributes(), std::nullopt);
  wire::CmRep rep = Rep(id);
  rep.rnr_retry_count = 6;
  rep.target_ack_delay = 20;
  Receive(rep);
  EXPECT_EQ(Told(), Kinds{EventKind::kConnectReply});
  EXPECT_EQ(manager_.FindConnection(id)->attributes(),
            (QueuePairAttributes{.dest_qpn = kPeerQpn,
                                 .sq_psn = wire::Psn(0x2000),
                                 .path_mtu = 3,
                                 .max_rd_atomic = 3,
                                 .max_dest_rd_atomic = 2,
                                 .timeout = 21,
                                 .retry_count = 7,
                                 .rnr_retry = 6}));
}

// [cm.time.req cm.active.timeout]
TEST_F(ActiveTest, ARequestIsSentSixteenTimesAndThenThePeerIsUnreachable) {
  const CommId id = Connect();
  const wire::CmMessage first = sent_.message;
  At(6143);
  EXPECT_EQ(Sent(), Texts{});
  At(6144);
  EXPECT_EQ(Sent(), Texts{"REQ"});
  EXPECT_EQ(sent_.message, first);
  At(15 * 6144);
  EXPECT_EQ(Sent(), Texts(14, "REQ"));
  EXPECT_EQ(Told(), Kinds{});
  At(16 * 6144);
  EXPECT_EQ(Told(), Kinds{EventKind::kUnreachable});
  EXPECT_EQ(event_.id, id);
  EXPECT_EQ(StateOf(id), State::kIdle);
  EXPECT_EQ(manager_.counters().retransmitted, 15u);
  // The peer may have heard us.
  EXPECT_EQ(Sent(), Texts{"REJ"});
  const auto rej = Last<wire::CmRej>();
  EXPECT_EQ(rej.reason, RejReason::kTimeout);
  EXPECT_EQ(rej.remote_comm_id, CommId());
  EXPECT_EQ(rej.info_bytes, 8);
  EXPECT_EQ(rej.info[0], 0x02);
  EXPECT_EQ(rej.info[7], 0x01);
  EXPECT_EQ(manager_.NextDeadline(), kNever);
}

// [cm.active.mra cm.time.mra]
TEST_F(ActiveTest, AnMraLengthensTheWaitOnce) {
  const CommId id = Connect();
  At(1000);
  Receive(Mra(id, CmAbout::kReq, 24));
  EXPECT_EQ(StateOf(id), State::kMraReqReceived);
  const int64_t wait_ms = 1000 + 65536 + 2048;
  At(wait_ms - 1);
  EXPECT_EQ(Sent(), Texts{});
  At(wait_ms);
  EXPECT_EQ(Sent(), Texts{"REQ"});
  At(wait_ms + 6144);
  EXPECT_EQ(Sent(), Texts{"REQ"});
  Receive(Rep(id));
  EXPECT_EQ(Told(), Kinds{EventKind::kConnectReply});
}

// [cm.active.mra]
TEST_F(ActiveTest, AnMraOfAReplyIsNotForTheSideThatAsks) {
  const CommId id = Connect();
  Receive(Mra(id, CmAbout::kRep, 24));
  EXPECT_EQ(StateOf(id), State::kReqSent);
  At(6144);
  EXPECT_EQ(Sent(), Texts{"REQ"});
}

// [cm.mra.bound]
TEST_F(ActiveTest, APeerCannotDelayUsWithoutLimitByMras) {
  const CommId id = Connect();
  int64_t ms = 0;
  for (int i = 0; i < 16; ++i) {
    At(ms += 60'000);
    Receive(Mra(id, CmAbout::kReq, 31));
    EXPECT_EQ(Sent(), Texts(i == 0 ? 9 : 0, "REQ"));
  }
  for (int i = 0; i < 100; ++i) {
    At(ms += 6'000);
    Receive(Mra(id, CmAbout::kReq, 31));
  }
  EXPECT_EQ(Told(), Kinds{EventKind::kUnreachable});
  const Texts sent = Sent();
  ASSERT_FALSE(sent.empty());
  EXPECT_EQ(sent.back(), "REJ");
}

// [cm.active.rej]
TEST_F(ActiveTest, ARejectionIsToldWithReasonAndPrivateData) {
  const CommId id = Connect();
  wire::CmRej rej = Rej(id, RejReason::kConsumerDefined);
  rej.private_data[0] = 9;
  Receive(rej);
  EXPECT_EQ(Told(), Kinds{EventKind::kRejected});
  EXPECT_EQ(ToldOf<wire::CmRej>().private_data[0], 9);
  EXPECT_EQ(StateOf(id), State::kIdle);
  EXPECT_EQ(manager_.NextDeadline(), kNever);
  EXPECT_EQ(manager_.Destroy(id, now_), Result::kOk);
  EXPECT_EQ(manager_.size(), 0u);
}

// [cm.active.rej]
TEST_F(ActiveTest, ARequestThatIsRefusedAtOnceNamesNoNumberOfThePeer) {
  const CommId id = Connect();
  wire::CmRej rej = Rej(id, RejReason::kInvalidServiceId);
  rej.local_comm_id = CommId();
  Receive(rej);
  EXPECT_EQ(Told(), Kinds{EventKind::kRejected});
}

// [cm.active.rej.stale]
TEST_F(ActiveTest, AStaleQueuePairRests) {
  const CommId id = Connect();
  Receive(Rej(id, RejReason::kStale));
  EXPECT_EQ(Told(), Kinds{EventKind::kRejected});
  EXPECT_EQ(StateOf(id), State::kTimewait);
  At(2048);
  EXPECT_EQ(Told(), Kinds{EventKind::kTimewaitExit});
}

// [cm.dup.rep]
TEST_F(ActiveTest, ARepeatedReplyBringsTheRtuAgain) {
  const CommId id = Active();
  Receive(Rep(id));
  EXPECT_EQ(Sent(), Texts{"RTU"});
  EXPECT_EQ(StateOf(id), State::kEstablished);
}

// [cm.dup.rep]
TEST_F(ActiveTest, ARepeatedReplyIsToldToWaitWhileTheProgramIsBusy) {
  const CommId id = Replied();
  Receive(Rep(id));
  EXPECT_EQ(Sent(), Texts{"MRA"});
  EXPECT_EQ(Last<wire::CmMra>().about, CmAbout::kRep);
  EXPECT_EQ(Last<wire::CmMra>().service_timeout, 24);
}

// [cm.active.reject]
TEST_F(ActiveTest, AReplyCanBeRejected) {
  const CommId id = Replied();
  EXPECT_EQ(manager_.Reject(id, RejReason::kConsumerDefined, {}), Result::kOk);
  EXPECT_EQ(Sent(), Texts{"REJ"});
  EXPECT_EQ(Last<wire::CmRej>().about, CmAbout::kRep);
  EXPECT_EQ(Last<wire::CmRej>().remote_comm_id, kPeerId);
  EXPECT_EQ(StateOf(id), State::kIdle);
}

// [cm.rep.unknown]
TEST_F(ActiveTest, AnUnexpectedReplyIsRejected) {
  Receive(Rep(CommId(0x999)));
  EXPECT_EQ(Sent(), Texts{"REJ"});
  const auto rej = Last<wire::CmRej>();
  EXPECT_EQ(rej.reason, RejReason::kInvalidCommId);
  EXPECT_EQ(rej.about, CmAbout::kRep);
  EXPECT_EQ(rej.remote_comm_id, kPeerId);
  const CommId id = Active();
  wire::CmRep other = Rep(id);
  other.local_comm_id = CommId(0x33333333);
  Receive(other);
  EXPECT_EQ(Sent(), Texts{"REJ"});
  EXPECT_EQ(StateOf(id), State::kEstablished);
}

// [cm.stale.rep]
TEST_F(ActiveTest, AReplyOfAQueuePairThatIsConnectedIsRefusedAndThePeerAskedOfTheOther) {
  const CommId first = Active();
  const CommId second = Connect();
  wire::CmRep rep = Rep(second);
  rep.local_comm_id = CommId(0x33333333);
  Receive(rep);
  EXPECT_EQ(Sent(), (Texts{"REJ", "DREQ"}));
  EXPECT_EQ(Told(), Kinds{EventKind::kRejected});
  EXPECT_EQ(ToldOf<wire::CmRej>().reason, RejReason::kStale);
  EXPECT_EQ(event_.id, second);
  EXPECT_EQ(StateOf(second), State::kTimewait);
  EXPECT_EQ(StateOf(first), State::kEstablished);
  EXPECT_EQ(manager_.counters().stale, 1u);
  Receive(Drep(first));
  EXPECT_EQ(Told(), Kinds{EventKind::kDisconnected});
}

// [cm.rej.established]
TEST_F(ActiveTest, APeerThatGaveUpAfterItsReplyEndsTheConnection) {
  const CommId id = Active();
  Receive(Rej(id, RejReason::kTimeout, CmAbout::kRep));
  EXPECT_EQ(Told(), Kinds{EventKind::kDisconnected});
  EXPECT_EQ(StateOf(id), State::kTimewait);
}

// [cm.connect.crossed]
TEST_F(ActiveTest, RequestsThatCrossAreTwoConnections) {
  Listen();
  const CommId ours = Connect();
  Receive(Req());
  EXPECT_EQ(Told(), Kinds{EventKind::kConnectRequest});
  const CommId theirs = event_.id;
  EXPECT_NE(ours, theirs);
  EXPECT_EQ(manager_.Accept(theirs, Acceptance(), now_), Result::kOk);
  EXPECT_EQ(Sent(), Texts{"REP"});
  wire::CmRep rep = Rep(ours);
  rep.local_comm_id = CommId(0x33333333);
  rep.local_qpn = Qpn(0x333);
  Receive(rep);
  EXPECT_EQ(Told(), Kinds{EventKind::kConnectReply});
  EXPECT_EQ(StateOf(theirs), State::kRepSent);
  EXPECT_EQ(StateOf(ours), State::kRepReceived);
}

}  // namespace
}  // namespace uroce::nic::cm
