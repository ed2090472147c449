// SPDX-License-Identifier: Apache-2.0
// Service ID resolution, at both ends.
#include "tests/nic/cm/cm_script.h"

namespace uroce::nic::cm {
namespace {

using wire::PortSpace;
using wire::SidrStatus;

class ResolutionTest : public CmScript {
 protected:
  CommId Resolve() {
    CommId id;
    EXPECT_EQ(manager_.Resolve(
                  {.route = OurRoute(), .service = {PortSpace::kUdp, kPort}, .source_port = 40000},
                  now_, id),
              Result::kOk);
    EXPECT_EQ(Sent(), Texts{"SIDR_REQ"});
    return id;
  }
  CommId Asked() {
    Listen(kAnyIpv4, 10, PortSpace::kUdp);
    Receive(SidrReq());
    EXPECT_EQ(Told(), Kinds{EventKind::kResolveRequest});
    return event_.id;
  }
  static wire::CmSidrRep Response(CommId to, SidrStatus status = SidrStatus::kValid) {
    return {.request_id = to, .status = status, .qpn = kPeerQpn, .qkey = 0x01234567};
  }
};

// [cm.sidr.request cm.header cm.service]
TEST_F(ResolutionTest, ARequestNamesServiceAndAddresses) {
  const CommId id = Resolve();
  const auto request = Last<wire::CmSidrReq>();
  EXPECT_EQ(request.request_id, id);
  EXPECT_EQ(request.service_id, 0x0000000001111c06u);
  EXPECT_EQ(request.pkey, 0xffff);
  wire::RdmaCmHeader header;
  ASSERT_EQ(wire::DecodeRdmaCmHeader(request.private_data, header), wire::RdmaCmHeaderResult::kOk);
  EXPECT_EQ(header, (wire::RdmaCmHeader{40000, Ipv4(1), Ipv4(2)}));
}

// [cm.sidr.response]
TEST_F(ResolutionTest, TheResponseIsToldWhateverItSays) {
  const CommId id = Resolve();
  Receive(Response(id, SidrStatus::kRejected));
  EXPECT_EQ(Told(), Kinds{EventKind::kResolved});
  EXPECT_EQ(event_.id, id);
  EXPECT_EQ(ToldOf<wire::CmSidrRep>().status, SidrStatus::kRejected);
  Receive(Response(id));
  EXPECT_EQ(Told(), Kinds{});
  EXPECT_EQ(manager_.Destroy(id, now_), Result::kOk);
  EXPECT_EQ(manager_.size(), 0u);
}

// [cm.sidr.timeout]
TEST_F(ResolutionTest, ARequestIsSentSixteenTimesAndThenThePeerIsUnreachable) {
  const CommId id = Resolve();
  At(15 * 4096);
  EXPECT_EQ(Sent(), Texts(15, "SIDR_REQ"));
  At(16 * 4096);
  EXPECT_EQ(Told(), Kinds{EventKind::kUnreachable});
  EXPECT_EQ(event_.id, id);
  Receive(Response(id));
  EXPECT_EQ(Told(), Kinds{});
}

// [cm.sidr.address]
TEST_F(ResolutionTest, AResponseFromAnotherAddressIsNotBelieved) {
  const CommId id = Resolve();
  Route route = OurRoute();
  route.remote = Ipv4(3);
  ReceiveFrom(route, Response(id));
  Receive(Response(CommId(id.value() + 1)));
  EXPECT_EQ(Told(), Kinds{});
  EXPECT_EQ(manager_.counters().wrong_address, 1u);
  EXPECT_EQ(manager_.counters().unknown_id, 1u);
}

// [cm.sidr.answer cm.tid]
TEST_F(ResolutionTest, AnAnswerCarriesQueuePairAndKey) {
  const CommId id = Asked();
  EXPECT_EQ(event_.header.source, Ipv4(2));
  const uint8_t data[] = {8};
  EXPECT_EQ(manager_.Answer(id, {.qpn = kOurQpn, .qkey = 0x01234567, .private_data = data}, now_),
            Result::kOk);
  EXPECT_EQ(Sent(), Texts{"SIDR_REP"});
  const auto response = Last<wire::CmSidrRep>();
  EXPECT_EQ(response.request_id, kPeerId);
  EXPECT_EQ(response.status, SidrStatus::kValid);
  EXPECT_EQ(response.qpn, kOurQpn);
  EXPECT_EQ(response.qkey, 0x01234567u);
  EXPECT_EQ(response.service_id, 0x0000000001111c06u);
  EXPECT_EQ(response.private_data[0], 8);
  EXPECT_EQ(sent_.message.transaction_id, 77u);
  EXPECT_EQ(manager_.Answer(id, {}, now_), Result::kWrongState);
}

// [cm.sidr.duplicate]
TEST_F(ResolutionTest, ARepeatedRequestIsAnsweredAgainWithoutTheProgram) {
  const CommId id = Asked();
  Receive(SidrReq());
  EXPECT_EQ(Told(), Kinds{});
  EXPECT_EQ(Sent(), Texts{});
  EXPECT_EQ(manager_.Answer(id, {.qpn = kOurQpn}, now_), Result::kOk);
  EXPECT_EQ(Sent(), Texts{"SIDR_REP"});
  EXPECT_EQ(manager_.Destroy(id, now_), Result::kOk);
  At(9'999);
  Receive(SidrReq());
  EXPECT_EQ(Sent(), Texts{"SIDR_REP"});
  EXPECT_EQ(Last<wire::CmSidrRep>().qpn, kOurQpn);
  At(10'000);
  EXPECT_EQ(manager_.size(), 0u);
  Receive(SidrReq());
  EXPECT_EQ(Told(), Kinds{EventKind::kResolveRequest});
}

// [cm.sidr.none]
TEST_F(ResolutionTest, ARequestForAnUnknownServiceIsAnsweredSo) {
  Receive(SidrReq());
  EXPECT_EQ(Sent(), Texts{"SIDR_REP"});
  EXPECT_EQ(Last<wire::CmSidrRep>().status, SidrStatus::kServiceNotSupported);
  Listen(kAnyIpv4, 10, PortSpace::kUdp);
  wire::CmSidrReq request = SidrReq();
  request.private_data[35] = 7;
  Receive(request);
  EXPECT_EQ(Sent(), Texts{"SIDR_REP"});
  EXPECT_EQ(Last<wire::CmSidrRep>().status, SidrStatus::kRejected);
}

// [cm.sidr.destroy]
TEST_F(ResolutionTest, AProgramThatGoesRefusesAndAsksNoMore) {
  const CommId asked = Asked();
  EXPECT_EQ(manager_.Destroy(asked, now_), Result::kOk);
  EXPECT_EQ(Sent(), Texts{"SIDR_REP"});
  EXPECT_EQ(Last<wire::CmSidrRep>().status, SidrStatus::kRejected);
  const CommId asking = Resolve();
  EXPECT_EQ(manager_.Destroy(asking, now_), Result::kOk);
  At(100'000);
  EXPECT_EQ(manager_.size(), 0u);
  EXPECT_EQ(manager_.NextDeadline(), kNever);
}

// [cm.sidr.answers]
TEST_F(ResolutionTest, OldAnswersMakeRoomForNewOnes) {
  Listen(kAnyIpv4, Bindings::kPlaces, wire::PortSpace::kUdp);
  wire::CmSidrReq request = SidrReq();
  for (uint32_t i = 0; i < Manager::kMostAnswers + 10; ++i) {
    request.request_id = CommId(0x1000 + i);
    Receive(request);
    ASSERT_EQ(Told(), Kinds{EventKind::kResolveRequest});
    ASSERT_EQ(manager_.OnRequestTaken(event_.id), Result::kOk);
    ASSERT_EQ(manager_.Answer(event_.id, {.qpn = kOurQpn}, now_), Result::kOk);
    ASSERT_EQ(manager_.Destroy(event_.id, now_), Result::kOk);
  }
  EXPECT_EQ(Sent().size(), Manager::kMostAnswers + 10);
  EXPECT_EQ(manager_.size(), Manager::kMostAnswers);
  Receive(request);
  EXPECT_EQ(Sent(), Texts{"SIDR_REP"}) << "the newest is kept";
  request.request_id = CommId(0x1000);
  Receive(request);
  EXPECT_EQ(Told(), Kinds{EventKind::kResolveRequest}) << "the program is asked again";
}

// [cm.listen.backlog]
TEST_F(ResolutionTest, RequestsForDatagramsHaveABacklogToo) {
  Listen(kAnyIpv4, 1, PortSpace::kUdp);
  Receive(SidrReq());
  ASSERT_EQ(Told(), Kinds{EventKind::kResolveRequest});
  wire::CmSidrReq other = SidrReq();
  other.request_id = CommId(0x33333333);
  Receive(other);
  EXPECT_EQ(manager_.counters().backlog_full, 1u);
  EXPECT_EQ(Sent(), Texts{"SIDR_REP"});
  EXPECT_EQ(Last<wire::CmSidrRep>().status, wire::SidrStatus::kRejected);
  EXPECT_EQ(manager_.OnRequestTaken(event_.id), Result::kOk);
  Receive(other);
  EXPECT_EQ(Told(), Kinds{EventKind::kResolveRequest});
}

// [cm.private]
TEST_F(ResolutionTest, MorePrivateDataThanTheMessagesHoldIsRefused) {
  const std::vector<uint8_t> data(181);
  CommId id;
  EXPECT_EQ(manager_.Resolve({.route = OurRoute(), .private_data = data}, now_, id),
            Result::kTooLong);
  EXPECT_EQ(manager_.size(), 0u);
  id = Asked();
  EXPECT_EQ(manager_.Answer(id, {.private_data = std::span(data).first(137)}, now_),
            Result::kTooLong);
}

// [cm.device]
TEST_F(ResolutionTest, ADeviceThatGoesTakesItsResolutionsAlong) {
  const CommId id = Resolve();
  Asked();
  manager_.OnDeviceGone(3);
  EXPECT_EQ(Told(), (Kinds{EventKind::kDeviceRemoved, EventKind::kDeviceRemoved}));
  EXPECT_EQ(manager_.NextDeadline(), kNever);
  EXPECT_EQ(manager_.Destroy(id, now_), Result::kOk);
}

}  // namespace
}  // namespace uroce::nic::cm
