// SPDX-License-Identifier: Apache-2.0
// One communication between two queue pairs, from REQ to the end of time wait: the state machine of
// IBTA vol. 1, 12.9 (docs/protocol/cm.md, section 7). Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "nic/cm/outbox.h"
#include "nic/cm/types.h"

namespace uroce::nic::cm {

/// The standard's states. MRA is sent in answer to repeated messages alone, so that the states
/// "MRA sent" are those of the message that is not answered yet.
enum class State : uint8_t {
  kIdle,            ///< Over, or not begun.
  kReqSent,         ///< Active.
  kMraReqReceived,  ///< Active: the peer wants more time.
  kRepReceived,     ///< Active: the program has to move its queue pair.
  kReqReceived,     ///< Passive: the program has to answer.
  kRepSent,         ///< Passive.
  kMraRepReceived,  ///< Passive: the peer wants more time.
  kEstablished,
  kDreqSent,
  kDreqReceived,  ///< The program has to disconnect too.
  kTimewait,      ///< Old packets of the queue pair may still be under way.
};
/// "REQ_SENT" and so on.
std::string_view StateName(State state);

/// Owned by the Manager, which finds it by id, checks where messages come from and calls
/// OnDeadline. The program's end is `owned`: without it the connection goes on to its proper end,
/// and raises no events.
class Connection {
 public:
  /// MRAs that are believed in one state: a peer cannot hold a connection for ever.
  static constexpr uint8_t kMostMras = 16;
  /// Times that a peer is asked whether it still knows a connection.
  static constexpr uint8_t kInquiries = 4;
  /// What our MRAs ask for, as Linux's do: 65 s.
  static constexpr uint8_t kServiceTimeout = 24;

  Connection(CommId id, Outbox& outbox) : id_(id), outbox_(&outbox) {}

  // ---- the program's calls; kWrongState changes nothing ----
  /// Sends REQ, again and again. Once for each connection.
  Result Connect(const ConnectParameters& parameters, Nanos now);
  /// Begins on the passive side, with a REQ that somebody listens for.
  void OnReq(const Route& route, BindingId listener, const wire::RdmaCmHeader& header,
             const wire::CmMessage& message);
  /// Sends REP. The queue pair is in RTS by then: the peer's first packet may overtake its RTU.
  Result Accept(const AcceptParameters& parameters, Nanos now);
  Result Reject(wire::RejReason reason, std::span<const uint8_t> private_data,
                std::span<const uint8_t> info = {});
  /// Sends RTU, on the active side.
  Result Establish();
  /// The queue pair has received its first packet: as good as an RTU.
  Result OnFirstPacket();
  /// Sends DREQ, or DREP where the peer was first. The queue pair is in ERR by then.
  Result Disconnect(Nanos now);
  /// The program's id is gone. The peer is told in the way that the state demands.
  void Destroy(Nanos now);
  /// The device is gone, nothing can be sent any more.
  void OnDeviceGone();

  // ---- messages of this connection ----
  void OnRepeatedReq(const wire::CmMessage& message);
  void OnRep(const wire::CmMessage& message);
  /// The REP was of a queue pair that is in another connection.
  void OnStaleRep(const wire::CmMessage& message, Nanos now);
  void OnRtu();
  void OnMra(const wire::CmMra& mra, Nanos now);
  void OnRej(const wire::CmMessage& message, Nanos now);
  void OnDreq(const wire::CmMessage& message, Nanos now);
  void OnDrep(Nanos now);
  void OnLap(const wire::CmMessage& message);
  /// The peer's queue pair is named for another connection, so that the peer may have forgotten
  /// this one. It is asked; only its word that it knows of none ends the connection.
  void OnStale(Nanos now);

  void OnDeadline(Nanos now);
  Nanos NextDeadline() const { return deadline_; }

  // ---- queries ----
  CommId id() const { return id_; }
  CommId remote_id() const { return remote_id_; }  ///< 0 before the REP.
  uint64_t remote_ca_guid() const { return remote_ca_guid_; }
  Qpn local_qpn() const { return local_qpn_; }
  Qpn remote_qpn() const { return attributes_.dest_qpn; }
  uint64_t service_id() const { return service_id_; }
  /// None before the peer's queue pair is known. Until Accept the READs and atomics of the passive
  /// side are those that the REQ asks for.
  std::optional<QueuePairAttributes> attributes() const {
    return remote_id_ == CommId() ? std::nullopt : std::optional(attributes_);
  }
  /// The peer's queue pair, as a REP to this connection's REQ names it.
  Qpn QpnIn(const wire::CmRep& rep) const { return xrc_ ? Qpn(rep.local_eecn) : rep.local_qpn; }
  const Route& route() const { return route_; }
  State state() const { return state_; }
  bool active() const { return active_; }
  bool awaits_reply() const {
    return state_ == State::kReqSent || state_ == State::kMraReqReceived;
  }
  /// Whether the peer may not have our number: its REQ came, and nothing that answers our REP.
  bool is_half_known() const {
    return state_ == State::kReqReceived || state_ == State::kRepSent ||
           state_ == State::kMraRepReceived;
  }
  /// Nobody needs it any more.
  bool finished() const { return !owned_ && state_ == State::kIdle; }

 private:
  bool awaits_rtu() const { return state_ == State::kRepSent || state_ == State::kMraRepReceived; }
  void Enter(State state);
  void EnterTimewait(Nanos now);
  void Send(wire::CmBody body, uint64_t transaction_id);
  /// Sends, and again after each `interval` until something else happens.
  void SendRepeatedly(wire::CmBody body, uint64_t transaction_id, Nanos interval, Nanos now);
  void SendAgain();
  wire::CmDreq DreqNaming(Qpn remote_qpn) const;
  void SendDreq(Nanos now);
  void SendDrep(const wire::CmMessage& dreq);
  void SendRej(wire::CmAbout about, wire::RejReason reason,
               std::span<const uint8_t> private_data = {}, std::span<const uint8_t> info = {});
  void SendGivingUp(wire::CmAbout about);
  void SendMra(wire::CmAbout about);
  void GiveUp(Nanos now);
  void Raise(EventKind kind, const wire::CmMessage& message = {}, bool timed_out = false);

  CommId id_;
  Outbox* outbox_;
  State state_ = State::kIdle;
  bool owned_ = true;
  bool active_ = false;
  bool xrc_ = false;
  uint8_t max_cm_retries_ = 0;
  uint8_t transmissions_left_ = 0;
  uint8_t mras_ = 0;       ///< Received in this state.
  bool inquires_ = false;  ///< In kEstablished: whether the peer knows of it.
  uint8_t packet_life_time_ = 0;
  CommId remote_id_;
  uint64_t local_ca_guid_ = 0;
  uint64_t remote_ca_guid_ = 0;
  Qpn local_qpn_;
  QueuePairAttributes attributes_;  ///< What is known of them yet.
  uint64_t service_id_ = 0;
  Route route_;
  BindingId listener_{};
  uint64_t transaction_id_ = 0;       ///< Of the exchange that connects.
  uint64_t dreq_transaction_id_ = 0;  ///< Of the peer's DREQ.
  Nanos interval_;                    ///< Between transmissions.
  Nanos deadline_ = kNever;
  wire::CmMessage repeated_;  ///< What is sent again.
};

}  // namespace uroce::nic::cm
