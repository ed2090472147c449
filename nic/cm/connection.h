// SPDX-License-Identifier: Apache-2.0
// One connection: its states, its timers, and what each message does to it (docs/protocol/cm.md,
// section 4). Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "nic/cm/types.h"

namespace uroce::nic::cm {

/// The states of the standard. An MRA is sent only in answer to repeated messages, so the
/// standard's states "MRA sent" are merged with the states of the message that is not answered yet.
enum class State : uint8_t {
  kIdle,            ///< The connection has ended, or has not begun.
  kReqSent,         ///< Active side.
  kMraReqReceived,  ///< Active side: the peer wants more time.
  kRepReceived,     ///< Active side: the program has to move its queue pair.
  kReqReceived,     ///< Passive side: the program has to answer.
  kRepSent,         ///< Passive side.
  kMraRepReceived,  ///< Passive side: the peer wants more time.
  kEstablished,
  kDreqSent,
  kDreqReceived,  ///< The program has to disconnect too.
  kTimewait,      ///< Old packets of the queue pair may still be in the network.
};
/// The name of a state, as in "REQ_SENT".
std::string_view StateName(State state);

/// Owned by the Manager, which finds it by id, checks the source of each message and calls
/// OnDeadline. `owned_` says that the program still holds the id: without it the connection
/// completes its protocol and raises no events. It has many fields because messages of every state
/// repeat what the messages before them have said.
class Connection {
 public:
  /// MRAs that are accepted in one state, so that a peer cannot hold a connection without end.
  static constexpr uint8_t kMostMras = 16;
  /// How often a peer is asked whether it still knows a connection.
  static constexpr uint8_t kInquiries = 4;
  /// The service timeout code that our MRAs ask for, as Linux's do: 65 s.
  static constexpr uint8_t kServiceTimeout = 24;

  Connection(CommId id, Outbox& outbox) : id_(id), outbox_(&outbox) {}

  // ---- calls of the program; kWrongState changes nothing ----
  /// Sends REQ and repeats it. Call it once for each connection.
  Result Connect(const ConnectParameters& parameters, Nanos now);
  /// Begins the passive side, with a REQ for which there is a listener.
  void OnReq(const Route& route, BindingId listener, const wire::RdmaCmHeader& header,
             const wire::CmMessage& message);
  /// Sends REP. The queue pair must be in RTS: the peer's first packet may overtake its RTU.
  Result Accept(const AcceptParameters& parameters, Nanos now);
  Result Reject(wire::RejReason reason, std::span<const uint8_t> private_data,
                std::span<const uint8_t> info = {});
  /// Sends RTU, on the active side.
  Result Establish();
  /// The queue pair has received its first packet, which counts as an RTU.
  Result OnFirstPacket();
  /// Sends DREQ, or DREP if the peer's DREQ came first. The queue pair must be in ERR.
  Result Disconnect(Nanos now);
  /// The program has destroyed its id. The peer gets the message that the state requires.
  void Destroy(Nanos now);
  /// Ends what is left of a connection that its program has destroyed; the peer gets no message.
  void Forget() { Enter(State::kIdle); }
  /// The device is gone; nothing more can be sent.
  void OnDeviceGone();

  // ---- messages of this connection ----
  void OnRepeatedReq(const wire::CmMessage& message);
  void OnRep(const wire::CmMessage& message);
  /// The REP names a queue pair that is in another connection.
  void OnStaleRep(const wire::CmMessage& message, Nanos now);
  void OnRtu();
  void OnMra(const wire::CmMra& mra, Nanos now);
  void OnRej(const wire::CmMessage& message, Nanos now);
  void OnDreq(const wire::CmMessage& message, Nanos now);
  void OnDrep(Nanos now);
  void OnLap(const wire::CmMessage& message);
  /// Another connection names the peer's queue pair, so the peer may have forgotten this one. The
  /// peer is asked. Only its answer that it knows no such connection ends this one.
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
  /// None before the peer's queue pair is known. Until Accept, the numbers of READs and atomics of
  /// the passive side are those that the REQ asks for.
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
  /// Whether the peer may not know our id: its REQ came, but no answer to our REP.
  bool is_half_known() const {
    return state_ == State::kReqReceived || state_ == State::kRepSent ||
           state_ == State::kMraRepReceived;
  }
  /// Whether it is only what is left of a connection that its program has destroyed.
  bool is_remains() const { return !owned_ && state_ != State::kIdle; }
  /// Whether the connection can be freed.
  bool finished() const { return !owned_ && state_ == State::kIdle; }

 private:
  bool awaits_rtu() const { return state_ == State::kRepSent || state_ == State::kMraRepReceived; }
  void Enter(State state);
  void EnterTimewait(Nanos now);
  void Send(wire::CmBody body, uint64_t transaction_id);
  /// Sends a message, and repeats it after each `interval` until another event stops that.
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
  bool inquires_ = false;  ///< In kEstablished: we are asking whether the peer still knows it.
  uint8_t packet_life_time_ = 0;
  CommId remote_id_;
  uint64_t local_ca_guid_ = 0;
  uint64_t remote_ca_guid_ = 0;
  Qpn local_qpn_;
  QueuePairAttributes attributes_;  ///< As far as they are known.
  uint64_t service_id_ = 0;
  Route route_;
  BindingId listener_{};
  uint64_t transaction_id_ = 0;       ///< Of the exchange that connects.
  uint64_t dreq_transaction_id_ = 0;  ///< Of the peer's DREQ.
  Nanos interval_;                    ///< Between transmissions.
  Nanos deadline_ = kNever;
  wire::CmMessage repeated_;  ///< The message that is sent again.
};

}  // namespace uroce::nic::cm
