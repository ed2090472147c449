// SPDX-License-Identifier: Apache-2.0
// The end of connections: by either side, by both, by programs that go.
#include "tests/nic/cm/cm_script.h"

namespace uroce::nic::cm {
namespace {

using DisconnectTest = CmScript;
using wire::CmAbout;
using wire::RejReason;

// [cm.disconnect cm.tid cm.time.wait]
TEST_F(DisconnectTest, WeAskThePeerAnswersAndTheQueuePairRests) {
  const CommId id = Active();
  EXPECT_EQ(manager_.Disconnect(id, now_), Result::kOk);
  EXPECT_EQ(Sent(), Texts{"DREQ"});
  EXPECT_EQ(Last<wire::CmDreq>().remote_qpn, kPeerQpn);
  EXPECT_EQ(Last<wire::CmDreq>().remote_comm_id, kPeerId);
  EXPECT_EQ(StateOf(id), State::kDreqSent);
  Receive(Drep(id));
  EXPECT_EQ(Told(), Kinds{EventKind::kDisconnected});
  EXPECT_FALSE(event_.timed_out);
  EXPECT_EQ(StateOf(id), State::kTimewait);
  At(2047);
  EXPECT_EQ(Told(), Kinds{});
  At(2048);
  EXPECT_EQ(Told(), Kinds{EventKind::kTimewaitExit});
  EXPECT_EQ(StateOf(id), State::kIdle);
  EXPECT_EQ(manager_.Disconnect(id, now_), Result::kWrongState);
}

// [cm.disconnect.peer cm.tid]
TEST_F(DisconnectTest, ThePeerAsksAndTheProgramAnswers) {
  const CommId id = Passive();
  Receive(Dreq(id), 99);
  EXPECT_EQ(Told(), Kinds{EventKind::kDisconnected});
  EXPECT_EQ(Sent(), Texts{});
  EXPECT_EQ(StateOf(id), State::kDreqReceived);
  EXPECT_EQ(manager_.Disconnect(id, now_), Result::kOk);
  EXPECT_EQ(Sent(), Texts{"DREP"});
  EXPECT_EQ(sent_.message.transaction_id, 99u);
  EXPECT_EQ(StateOf(id), State::kTimewait);
  At(2048);
  EXPECT_EQ(Told(), Kinds{EventKind::kTimewaitExit});
}

// [cm.disconnect.peer]
TEST_F(DisconnectTest, TheEndMayComeBeforeTheRtu) {
  const CommId id = Accepted();
  Receive(Dreq(id));
  EXPECT_EQ(Told(), Kinds{EventKind::kDisconnected});
  Receive(Rtu(id));
  EXPECT_EQ(Told(), Kinds{});
  EXPECT_EQ(StateOf(id), State::kDreqReceived);
}

// [cm.disconnect.crossed]
TEST_F(DisconnectTest, DisconnectsThatCrossAnswerEachOther) {
  const CommId id = Active();
  EXPECT_EQ(manager_.Disconnect(id, now_), Result::kOk);
  EXPECT_EQ(Sent(), Texts{"DREQ"});
  Receive(Dreq(id));
  EXPECT_EQ(Sent(), Texts{"DREP"});
  EXPECT_EQ(Told(), Kinds{EventKind::kDisconnected});
  EXPECT_EQ(StateOf(id), State::kTimewait);
  Receive(Drep(id));
  EXPECT_EQ(Told(), Kinds{});
}

// [cm.disconnect.timeout]
TEST_F(DisconnectTest, WithoutAnAnswerTheConnectionEndsAllTheSame) {
  const CommId id = Active();
  EXPECT_EQ(manager_.Disconnect(id, now_), Result::kOk);
  At(15 * 6144);
  EXPECT_EQ(Sent(), Texts(16, "DREQ"));
  At(16 * 6144);
  EXPECT_EQ(Sent(), Texts{});
  EXPECT_EQ(Told(), Kinds{EventKind::kDisconnected});
  EXPECT_TRUE(event_.timed_out);
  EXPECT_EQ(StateOf(id), State::kTimewait);
}

// [cm.dup.dreq]
TEST_F(DisconnectTest, ARepeatedDreqIsAnsweredAgainInTimeWaitAndNotBefore) {
  const CommId id = Passive();
  Receive(Dreq(id));
  Receive(Dreq(id));
  EXPECT_EQ(Told(), Kinds{EventKind::kDisconnected});
  EXPECT_EQ(Sent(), Texts{});
  EXPECT_EQ(manager_.Disconnect(id, now_), Result::kOk);
  EXPECT_EQ(Sent(), Texts{"DREP"});
  Receive(Dreq(id));
  EXPECT_EQ(Sent(), Texts{"DREP"});
  EXPECT_EQ(Told(), Kinds{});
}

/// A manager with room for two communications.
class FullTest : public CmScript {
 protected:
  FullTest() : CmScript({.max_ids = 2}) {}
};

// [cm.flood.remains]
TEST_F(FullTest, TheOldestTimeWaitEndsWhereThereIsNoRoom) {
  const CommId first = Active();
  EXPECT_EQ(manager_.Destroy(first, now_), Result::kOk);
  EXPECT_EQ(Sent(), Texts{"DREQ"});
  Receive(Drep(first));
  const CommId second = Connect();
  wire::CmRep rep = Rep(second);
  rep.local_comm_id = CommId(0x33333333);
  rep.local_qpn = Qpn(0x333);
  Receive(rep);
  EXPECT_EQ(Told(), Kinds{EventKind::kConnectReply});
  EXPECT_EQ(manager_.Establish(second), Result::kOk);
  EXPECT_EQ(manager_.Destroy(second, now_), Result::kOk);
  EXPECT_EQ(Sent(), (Texts{"RTU", "DREQ"}));
  EXPECT_EQ(StateOf(first), State::kTimewait);
  EXPECT_EQ(StateOf(second), State::kDreqSent);

  const CommId third = Connect();
  EXPECT_EQ(StateOf(first), State::kIdle);
  EXPECT_EQ(StateOf(second), State::kDreqSent);
  Listen();
  wire::CmReq req = Req();
  req.local_qpn = Qpn(0x444);
  Receive(req);
  EXPECT_EQ(Told(), Kinds{EventKind::kConnectRequest}) << "a request finds room too";
  EXPECT_EQ(StateOf(second), State::kIdle);
  EXPECT_EQ(manager_.size(), 2u);
  CommId id;
  EXPECT_EQ(manager_.Connect(ToPeer(), now_, id), Result::kNoRoom) << "ids in use do not give way";
  EXPECT_EQ(StateOf(third), State::kReqSent);
}

// [cm.flood.remains]
TEST_F(FullTest, AnAnswerThatIsKeptGivesWayToo) {
  Listen(kAnyIpv4, 10, wire::PortSpace::kUdp);
  Receive(SidrReq());
  EXPECT_EQ(Told(), Kinds{EventKind::kResolveRequest});
  EXPECT_EQ(manager_.Answer(event_.id, {}, now_), Result::kOk);
  EXPECT_EQ(manager_.Destroy(event_.id, now_), Result::kOk);
  EXPECT_EQ(Sent(), Texts{"SIDR_REP"});
  Connect();
  EXPECT_EQ(manager_.size(), 2u);
  Connect();
  EXPECT_EQ(manager_.size(), 2u);
}

// [cm.disconnect.unknown]
TEST_F(DisconnectTest, ADreqOfAnUnknownConnectionIsAnswered) {
  Receive(Dreq(CommId(0x999)), 55);
  EXPECT_EQ(Sent(), Texts{"DREP"});
  EXPECT_EQ(Last<wire::CmDrep>(),
            (wire::CmDrep{.local_comm_id = CommId(0x999), .remote_comm_id = kPeerId}));
  EXPECT_EQ(sent_.message.transaction_id, 55u);
  EXPECT_EQ(sent_.route.remote, Ipv4(2));
  const CommId id = Active();
  wire::CmDreq other = Dreq(id);
  other.local_comm_id = CommId(0x33333333);
  Receive(other);
  EXPECT_EQ(Sent(), Texts{"DREP"});
  EXPECT_EQ(StateOf(id), State::kEstablished);
}

// [cm.disconnect.qpn]
TEST_F(DisconnectTest, ADreqOfAnotherQueuePairIsIgnored) {
  const CommId id = Active();
  wire::CmDreq dreq = Dreq(id);
  dreq.remote_qpn = Qpn(0x112);
  Receive(dreq);
  EXPECT_EQ(StateOf(id), State::kEstablished);
}

// [cm.lap]
TEST_F(DisconnectTest, AnAlternatePathIsRefused) {
  const CommId id = Active();
  Receive(wire::CmLap{.local_comm_id = kPeerId, .remote_comm_id = id}, 33);
  EXPECT_EQ(Sent(), Texts{"APR"});
  EXPECT_EQ(Last<wire::CmApr>().status, wire::AprStatus::kUnsupported);
  EXPECT_EQ(sent_.message.transaction_id, 33u);
  Receive(wire::CmApr{.local_comm_id = kPeerId, .remote_comm_id = id});
  EXPECT_EQ(StateOf(id), State::kEstablished);
}

// [cm.destroy.connecting]
TEST_F(DisconnectTest, AProgramThatGoesWhileItConnectsGivesUp) {
  const CommId id = Connect();
  EXPECT_EQ(manager_.Destroy(id, now_), Result::kOk);
  EXPECT_EQ(Sent(), Texts{"REJ"});
  EXPECT_EQ(Last<wire::CmRej>().reason, RejReason::kTimeout);
  EXPECT_EQ(manager_.size(), 0u);
  EXPECT_EQ(manager_.NextDeadline(), kNever);
  EXPECT_EQ(manager_.Destroy(id, now_), Result::kNoSuchId);
}

// [cm.destroy.connecting]
TEST_F(DisconnectTest, AProgramThatGoesBeforeItsRtuRejectsTheReply) {
  const CommId id = Replied();
  EXPECT_EQ(manager_.Destroy(id, now_), Result::kOk);
  EXPECT_EQ(Sent(), Texts{"REJ"});
  EXPECT_EQ(Last<wire::CmRej>().about, CmAbout::kRep);
  EXPECT_EQ(manager_.size(), 0u);
}

// [cm.destroy.requested]
TEST_F(DisconnectTest, AProgramThatGoesWithARequestRejectsIt) {
  const CommId id = Requested();
  EXPECT_EQ(manager_.Destroy(id, now_), Result::kOk);
  EXPECT_EQ(Sent(), Texts{"REJ"});
  EXPECT_EQ(Last<wire::CmRej>().reason, RejReason::kConsumerDefined);
  EXPECT_EQ(manager_.size(), 0u);
}

// [cm.destroy.requested]
TEST_F(DisconnectTest, AProgramThatGoesAfterItsReplyRejectsWhatItAccepted) {
  const CommId id = Accepted();
  EXPECT_EQ(manager_.Destroy(id, now_), Result::kOk);
  EXPECT_EQ(Sent(), Texts{"REJ"});
  EXPECT_EQ(Last<wire::CmRej>().about, CmAbout::kOther);
  EXPECT_EQ(manager_.size(), 0u);
}

// [cm.destroy.established]
TEST_F(DisconnectTest, AProgramThatGoesInAConnectionSaysGoodbyeUntilItIsHeard) {
  const CommId id = Active();
  EXPECT_EQ(manager_.Destroy(id, now_), Result::kOk);
  EXPECT_EQ(Sent(), Texts{"DREQ"});
  At(6144);
  EXPECT_EQ(Sent(), Texts{"DREQ"});
  Receive(Drep(id));
  EXPECT_EQ(manager_.size(), 1u);
  At(6144 + 2048);
  EXPECT_EQ(manager_.size(), 0u);
  EXPECT_EQ(manager_.NextDeadline(), kNever);
}

// [cm.destroy.established]
TEST_F(DisconnectTest, AProgramThatGoesAfterThePeerDidAnswersIt) {
  const CommId id = Passive();
  Receive(Dreq(id));
  EXPECT_EQ(Told(), Kinds{EventKind::kDisconnected});
  EXPECT_EQ(manager_.Destroy(id, now_), Result::kOk);
  EXPECT_EQ(Sent(), Texts{"DREP"});
  At(2048);
  EXPECT_EQ(manager_.size(), 0u);
}

// [cm.destroy.timewait cm.id.rest]
TEST_F(DisconnectTest, ANumberRestsUntilTimeWaitIsOverAlsoWithoutItsProgram) {
  const CommId id = Active();
  EXPECT_EQ(manager_.Disconnect(id, now_), Result::kOk);
  EXPECT_EQ(Sent(), Texts{"DREQ"});
  Receive(Drep(id));
  EXPECT_EQ(Told(), Kinds{EventKind::kDisconnected});
  EXPECT_EQ(manager_.Destroy(id, now_), Result::kOk);
  EXPECT_EQ(manager_.size(), 1u);
  random_ = id.value() - 1;  // The next draw is the number that rests.
  EXPECT_NE(Connect(), id);
  Receive(Dreq(id));
  EXPECT_EQ(Sent(), Texts{"DREP"});
  At(2048);
  EXPECT_EQ(Told(), Kinds{});
  EXPECT_EQ(manager_.size(), 1u);
}

// [cm.device]
TEST_F(DisconnectTest, ADeviceThatGoesTakesItsConnectionsAlongAndSaysNothing) {
  const CommId id = Active();
  ConnectParameters elsewhere = ToPeer();
  elsewhere.route.device = 4;
  const CommId other = Connect(elsewhere);
  manager_.OnDeviceGone(3);
  EXPECT_EQ(Told(), Kinds{EventKind::kDeviceRemoved});
  EXPECT_EQ(event_.id, id);
  EXPECT_EQ(StateOf(id), State::kIdle);
  EXPECT_EQ(StateOf(other), State::kReqSent);
  EXPECT_EQ(manager_.Destroy(id, now_), Result::kOk);
  EXPECT_EQ(manager_.size(), 1u);
}

}  // namespace
}  // namespace uroce::nic::cm
