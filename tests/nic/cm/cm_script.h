// SPDX-License-Identifier: Apache-2.0
// A connection manager under a script: calls, messages of peers and time go in; what it sends and
// tells comes out as names.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "nic/cm/manager.h"
#include "pipeline/wire/cm/to_string.h"

namespace uroce::nic::cm {

using Texts = std::vector<std::string>;
using Kinds = std::vector<EventKind>;

inline constexpr uint64_t kOurGuid = 0x0200'00ff'fe00'0001;
inline constexpr uint64_t kPeerGuid = 0x0200'00ff'fe00'0002;
inline constexpr Qpn kOurQpn{0x111};
inline constexpr Qpn kPeerQpn{0x222};
inline constexpr CommId kPeerId{0x22222222};
inline constexpr uint16_t kPort = 7174;

inline Gid Ipv4(uint8_t last) {
  return {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, last}};
}
inline Gid Ipv6(uint8_t last) { return {{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last}}; }
inline const Gid kAnyIpv4{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0}};
inline const Gid kAnyIpv6{};
inline const Gid kLoopbackIpv4{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1}};
inline const Gid kLoopbackIpv6{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};

inline std::ostream& operator<<(std::ostream& out, EventKind kind) {
  constexpr std::string_view kNames[] = {
      "ConnectRequest", "ConnectReply", "Established",   "Rejected",       "Unreachable",
      "Disconnected",   "TimewaitExit", "DeviceRemoved", "ResolveRequest", "Resolved"};
  return out << kNames[static_cast<int>(kind)];
}

/// The connection manager of 10.0.0.1; its peer, 10.0.0.2, is the script. What was sent and told
/// and not asked for makes the test fail at its end.
class CmScript : public testing::Test {
 protected:
  explicit CmScript(const Config& config = {}) : manager_(config, [this] { return ++random_; }) {}
  ~CmScript() override {
    EXPECT_EQ(Sent(), Texts{}) << "sent, and not asked for";
    EXPECT_EQ(Told(), Kinds{}) << "told, and not asked for";
  }

  static Route OurRoute() { return {.device = 3, .local = Ipv4(1), .remote = Ipv4(2)}; }

  // ---- time ----
  /// Milliseconds since the start; deadlines on the way are met.
  void At(int64_t ms) {
    const Nanos until(ms * 1'000'000);
    while (manager_.NextDeadline() <= until) {
      now_ = std::max(now_, manager_.NextDeadline());
      manager_.OnDeadline(now_);
    }
    now_ = until;
  }

  // ---- our program ----
  static QueuePairParameters OurQp() {
    return {.qpn = kOurQpn,
            .starting_psn = wire::Psn(0x1000),
            .local_ca_guid = kOurGuid,
            .responder_resources = 4,
            .initiator_depth = 5};
  }
  static ConnectParameters ToPeer() {
    return {.route = OurRoute(),
            .service = {wire::PortSpace::kTcp, kPort},
            .source_port = 40000,
            .qp = OurQp()};
  }
  /// Until REQ_SENT.
  CommId Connect() { return Connect(ToPeer()); }
  CommId Connect(const ConnectParameters& parameters) {
    CommId id;
    EXPECT_EQ(manager_.Connect(parameters, now_, id), Result::kOk);
    EXPECT_EQ(Sent(), Texts{"REQ"});
    return id;
  }
  /// Until REP_RCVD.
  CommId Replied() {
    const CommId id = Connect();
    Receive(Rep(id));
    EXPECT_EQ(Told(), Kinds{EventKind::kConnectReply});
    return id;
  }
  /// Until ESTABLISHED, the active side.
  CommId Active() {
    const CommId id = Replied();
    EXPECT_EQ(manager_.Establish(id), Result::kOk);
    EXPECT_EQ(Sent(), Texts{"RTU"});
    return id;
  }
  BindingId Listen(const Gid& address = kAnyIpv4, uint32_t backlog = 10,
                   wire::PortSpace space = wire::PortSpace::kTcp) {
    BindingId id{};
    EXPECT_EQ(manager_.Bind({.space = space, .address = address, .port = kPort}, id), Result::kOk);
    EXPECT_EQ(manager_.Listen(id, backlog), Result::kOk);
    return id;
  }
  /// Until REQ_RCVD.
  CommId Requested() {
    Listen();
    Receive(Req());
    EXPECT_EQ(Told(), Kinds{EventKind::kConnectRequest});
    return event_.id;
  }
  AcceptParameters Acceptance() const { return {.qp = OurQp()}; }
  /// Until REP_SENT.
  CommId Accepted() {
    const CommId id = Requested();
    EXPECT_EQ(manager_.Accept(id, Acceptance(), now_), Result::kOk);
    EXPECT_EQ(Sent(), Texts{"REP"});
    return id;
  }
  /// Until ESTABLISHED, the passive side.
  CommId Passive() {
    const CommId id = Accepted();
    Receive(Rtu(id));
    EXPECT_EQ(Told(), Kinds{EventKind::kEstablished});
    return id;
  }

  // ---- messages of the peer ----
  static wire::CmReq Req() {
    wire::CmReq req{.local_comm_id = kPeerId,
                    .service_id = wire::ServiceIdOf({wire::PortSpace::kTcp, kPort}),
                    .local_ca_guid = kPeerGuid,
                    .local_qpn = kPeerQpn,
                    .responder_resources = 6,
                    .initiator_depth = 7,
                    .remote_cm_response_timeout = 20,
                    .starting_psn = wire::Psn(0x2000),
                    .local_cm_response_timeout = 20,
                    .retry_count = 7,
                    .path_mtu = 3,
                    .rnr_retry_count = 7,
                    .max_cm_retries = 15};
    req.primary = {.local = Ipv4(2), .remote = Ipv4(1), .hop_limit = 64, .local_ack_timeout = 19};
    wire::EncodeRdmaCmHeader({.source_port = 50000, .source = Ipv4(2), .destination = Ipv4(1)},
                             req.private_data);
    return req;
  }
  static wire::CmRep Rep(CommId to) {
    return {.local_comm_id = kPeerId,
            .remote_comm_id = to,
            .local_qpn = kPeerQpn,
            .starting_psn = wire::Psn(0x2000),
            .responder_resources = 3,
            .initiator_depth = 2,
            .target_ack_delay = 15,
            .local_ca_guid = kPeerGuid};
  }
  static wire::CmRtu Rtu(CommId to) { return {.local_comm_id = kPeerId, .remote_comm_id = to}; }
  static wire::CmDreq Dreq(CommId to) {
    return {.local_comm_id = kPeerId, .remote_comm_id = to, .remote_qpn = kOurQpn};
  }
  static wire::CmDrep Drep(CommId to) { return {.local_comm_id = kPeerId, .remote_comm_id = to}; }
  static wire::CmMra Mra(CommId to, wire::CmAbout about, uint8_t timeout = 20) {
    return {
        .local_comm_id = kPeerId, .remote_comm_id = to, .about = about, .service_timeout = timeout};
  }
  static wire::CmRej Rej(CommId to, wire::RejReason reason, wire::CmAbout about = {}) {
    return {.local_comm_id = kPeerId, .remote_comm_id = to, .about = about, .reason = reason};
  }
  static wire::CmSidrReq SidrReq() {
    wire::CmSidrReq request{.request_id = kPeerId,
                            .service_id = wire::ServiceIdOf({wire::PortSpace::kUdp, kPort})};
    wire::EncodeRdmaCmHeader({.source_port = 50000, .source = Ipv4(2), .destination = Ipv4(1)},
                             request.private_data);
    return request;
  }
  void Receive(const wire::CmBody& body, uint64_t transaction_id = 77) {
    ReceiveFrom(OurRoute(), body, transaction_id);
  }
  void ReceiveFrom(const Route& route, const wire::CmBody& body, uint64_t transaction_id = 77) {
    manager_.OnMad(route, wire::EncodeCm({.transaction_id = transaction_id, .body = body}), now_);
  }

  // ---- outputs ----
  /// Names of the messages sent since the last call; the last is in `sent_`.
  Texts Sent() {
    Texts names;
    while (const auto datagram = manager_.PollDatagram()) {
      sent_ = *datagram;
      names.emplace_back(wire::CmAttributeName(sent_.message.attribute()));
    }
    return names;
  }
  /// The last message sent, if it is what is expected.
  template <typename Body>
  Body Last() {
    const Body* const body = std::get_if<Body>(&sent_.message.body);
    EXPECT_NE(body, nullptr) << wire::ToString(sent_.message);
    return body == nullptr ? Body{} : *body;
  }
  /// Events since the last call; the last is in `event_`.
  Kinds Told() {
    Kinds kinds;
    while (const auto event = manager_.PollEvent()) {
      event_ = *event;
      kinds.push_back(event_.kind);
    }
    return kinds;
  }
  template <typename Body>
  Body ToldOf() const {
    const Body* const body = std::get_if<Body>(&event_.message.body);
    EXPECT_NE(body, nullptr);
    return body == nullptr ? Body{} : *body;
  }
  State StateOf(CommId id) const {
    const Connection* const connection = manager_.FindConnection(id);
    return connection == nullptr ? State::kIdle : connection->state();
  }

  uint32_t random_ = 0x11111110;
  Manager manager_;
  Nanos now_;
  Datagram sent_;
  Event event_;
};

}  // namespace uroce::nic::cm
