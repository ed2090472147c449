// SPDX-License-Identifier: Apache-2.0
// Peers that say anything at any time, with the right numbers and addresses as often as not, to a
// program that calls anything at any time: nothing breaks, and in the end nothing is left.
#include <algorithm>
#include <iterator>

#include "tests/nic/cm/cm_script.h"
#include "tests/wire/cm/values.h"

namespace uroce::nic::cm {
namespace {

constexpr size_t kMostIds = 64;

class HostileTest : public CmScript {
 protected:
  HostileTest() : CmScript({.max_ids = kMostIds, .request_burst = 1'000'000}) {}

  uint32_t Draw(uint32_t bound) { return static_cast<uint32_t>(values_.Bits(32) % bound); }
  CommId AnyId() {
    if (ids_.empty() || Draw(8) == 0) return CommId(Draw(100) + 1);
    return ids_[Draw(static_cast<uint32_t>(ids_.size()))];
  }
  CommId AnyPeerId() { return CommId(0x5000 + Draw(6)); }
  Qpn AnyPeerQpn() { return Qpn(0x500 + Draw(6)); }

  /// A message of the peer's whose numbers often fit.
  wire::CmMessage AnyMessage() {
    wire::CmMessage message = values_.Message(static_cast<int>(Draw(wire::kCmAttributeCount)));
    std::visit([this](auto& body) { Aim(body); }, message.body);
    return message;
  }
  void Aim(wire::CmReq& req) {
    if (Draw(4) == 0) return;
    req = Req();
    req.local_comm_id = AnyPeerId();
    req.local_qpn = AnyPeerQpn();
    req.local_cm_response_timeout = static_cast<uint8_t>(Draw(32));
    req.primary.local_ack_timeout = static_cast<uint8_t>(Draw(32));
  }
  void Aim(wire::CmSidrReq& request) {
    if (Draw(4) == 0) return;
    request = SidrReq();
    request.request_id = AnyPeerId();
  }
  void Aim(wire::CmSidrRep& response) { response.request_id = AnyId(); }
  void Aim(wire::CmRej& rej) {
    rej.remote_comm_id = Draw(4) == 0 ? CommId() : AnyId();
    rej.local_comm_id = AnyPeerId();
    rej.reason = static_cast<wire::RejReason>(Draw(12));
  }
  void Aim(wire::CmRep& rep) {
    rep.remote_comm_id = AnyId();
    rep.local_comm_id = AnyPeerId();
    rep.local_qpn = AnyPeerQpn();
    rep.local_ca_guid = kPeerGuid;
  }
  void Aim(wire::CmDreq& dreq) {
    dreq.remote_comm_id = AnyId();
    dreq.local_comm_id = AnyPeerId();
    if (Draw(4) != 0) dreq.remote_qpn = kOurQpn;
  }
  void Aim(auto& body) {
    body.remote_comm_id = AnyId();
    body.local_comm_id = AnyPeerId();
  }

  void AnyCall() {
    CommId id = AnyId();
    switch (Draw(10)) {
      case 0:
        if (manager_.Connect(ToPeer(), now_, id) == Result::kOk) ids_.push_back(id);
        break;
      case 1:
        if (manager_.Resolve({.route = OurRoute()}, now_, id) == Result::kOk) ids_.push_back(id);
        break;
      case 2:
        manager_.Accept(id, Acceptance(), now_);
        break;
      case 3:
        manager_.Reject(id, wire::RejReason::kConsumerDefined, {});
        break;
      case 4:
        manager_.Establish(id);
        break;
      case 5:
        manager_.OnFirstPacket(id);
        break;
      case 6:
        manager_.Disconnect(id, now_);
        break;
      case 7:
        manager_.Answer(id, {.qpn = kOurQpn}, now_);
        break;
      case 8:
        manager_.OnRequestTaken(id);
        break;
      default:
        manager_.Destroy(id, now_);
        std::erase(ids_, id);
        break;
    }
  }
  /// Ids of requests become the program's.
  void TakeAll() {
    while (manager_.PollDatagram()) {
    }
    while (const auto event = manager_.PollEvent()) {
      const bool is_new =
          event->kind == EventKind::kConnectRequest || event->kind == EventKind::kResolveRequest;
      if (is_new) ids_.push_back(event->id);
      ASSERT_NE(std::ranges::find(ids_, event->id), ids_.end()) << event->kind;
    }
  }

  wire::CmValues values_{7};
  std::vector<CommId> ids_;
};

// [cm.hostile]
TEST_F(HostileTest, AnyMessagesAndCallsLeaveNothingBehind) {
  Listen(kAnyIpv4, 20);
  Listen(kAnyIpv4, 20, wire::PortSpace::kUdp);
  Route elsewhere = OurRoute();
  elsewhere.remote = Ipv4(3);
  int64_t ms = 0;
  for (int round = 0; round < 100'000; ++round) {
    if (Draw(3) != 0) {
      const auto mad = wire::EncodeCm(AnyMessage());
      manager_.OnMad(Draw(10) == 0 ? elsewhere : OurRoute(), mad, now_);
    } else {
      AnyCall();
    }
    if (Draw(10) == 0) At(ms += Draw(3000));
    if (Draw(5000) == 0) manager_.OnDeviceGone(3);
    TakeAll();
    ASSERT_LE(manager_.size(), kMostIds);
  }
  for (const CommId id : ids_) manager_.Destroy(id, now_);
  ids_.clear();
  At(ms + 3'600'000);
  TakeAll();
  EXPECT_EQ(manager_.size(), 0u);
  EXPECT_EQ(manager_.NextDeadline(), kNever);
  const auto& received = manager_.counters().received;
  EXPECT_TRUE(std::ranges::all_of(received, [](uint64_t count) { return count > 1000; }));
}

}  // namespace
}  // namespace uroce::nic::cm
