// SPDX-License-Identifier: Apache-2.0
// The transport of one queue pair, with one interface for all services.
#pragma once

#include <cstdint>
#include <utility>

#include "pipeline/base/types.h"
#include "pipeline/datapath/queue/queue_pair_config.h"
#include "pipeline/transport/rc_queue_pair.h"
#include "pipeline/transport/unreliable_queue_pair.h"

namespace uroce::datapath {

/// One of the transport's queue pairs, made in place. Calls are passed on by a branch that is
/// predicted for reliable connections; where services differ, callers use the member of the kind.
/// The contract with the caller is that of transport::RcQueuePair and transport::UcQueuePair.
class QueuePairCore {
 private:
  enum class Kind : uint8_t { kReliable, kUnreliable, kDatagram };
  static Kind KindOf(wire::Service service);

  template <typename Self, typename Function>
  static decltype(auto) Visit(Self& self, Function&& function) {
    if (self.kind_ == Kind::kReliable) [[likely]] {
      return std::forward<Function>(function)(self.rc);
    }
    if (self.kind_ == Kind::kDatagram) return std::forward<Function>(function)(self.ud);
    return std::forward<Function>(function)(self.uc);
  }

 public:
  explicit QueuePairCore(const QueuePairConfig& config, uint32_t max_send_works);
  ~QueuePairCore();
  QueuePairCore(const QueuePairCore&) = delete;
  QueuePairCore& operator=(const QueuePairCore&) = delete;

  // ---- the kind ----
  wire::Service service() const { return service_; }
  /// Whether this is a reliable connection, extended or not: its packets are acknowledged.
  bool is_reliable() const { return kind_ == Kind::kReliable; }
  bool is_datagram() const { return kind_ == Kind::kDatagram; }
  /// Range: is_reliable().
  transport::RcQueuePair& reliable() { return rc; }
  const transport::RcQueuePair& reliable() const { return rc; }

  // ---- state ----
  transport::QpState state() const {
    return Visit(*this, [](const auto& core) { return core.state(); });
  }
  void Modify(transport::QpState state, const Attributes& attributes) {
    Visit(*this, [&](auto& core) { core.Modify(state, attributes); });
  }
  const Attributes& attributes() const {
    return Visit(*this, [](const auto& core) -> const Attributes& { return core.attributes(); });
  }
  bool draining() const {
    return Visit(*this, [](const auto& core) { return core.draining(); });
  }

  // ---- send queue ----
  uint32_t post_room() const {
    return Visit(*this, [](const auto& core) { return core.post_room(); });
  }
  [[nodiscard]] transport::PostResult Post(const transport::SendWork& work) {
    return Visit(*this, [&](auto& core) { return core.Post(work); });
  }
  bool HasPacket() const { return is_reliable() ? rc.HasPacket() : HasUnsent(); }
  /// Whether there is a packet to send. Range: not is_reliable().
  bool HasUnsent() const { return is_datagram() ? ud.HasPacket() : uc.HasPacket(); }
  /// See transport::RcQueuePair, also for the next function.
  [[nodiscard]] bool PollLocal(transport::LocalEffect& effect) {
    return Visit(*this, [&](auto& core) { return core.PollLocal(effect); });
  }
  void OnLocalDone(transport::EffectOutcome outcome) {
    Visit(*this, [&](auto& core) { core.OnLocalDone(outcome); });
  }
  bool HasAcknowledgement() const { return is_reliable() && rc.HasAcknowledgement(); }
  [[nodiscard]] bool PollPacket(Nanos now, transport::TxPacket& packet) {
    if (is_reliable()) [[likely]]
      return rc.PollPacket(now, packet);
    return is_datagram() ? ud.PollPacket(packet) : uc.PollPacket(packet);
  }
  /// Called when the bytes of the packet polled last were read. Range: not is_reliable().
  void OnSent(const transport::TxPacket& packet) {
    if (is_datagram()) return ud.OnSent(packet);
    uc.OnSent(packet);
  }
  void OnGatherFailed(const transport::TxPacket& packet) {
    if (is_reliable()) return rc.OnGatherFailed(packet);
    is_datagram() ? ud.OnGatherFailed() : uc.OnGatherFailed();
  }

  // ---- receive ----
  /// See transport::RcQueuePair.
  bool HasKept() const { return is_reliable() && rc.HasKept(); }
  bool NeedsReceive(const wire::TransportHeader& header) const {
    return Visit(*this, [&](const auto& core) { return core.NeedsReceive(header); });
  }
  void PostReceive(const transport::ReceiveWork& work) {
    Visit(*this, [&](auto& core) { core.PostReceive(work); });
  }
  uint32_t receive_room() const {
    return Visit(*this, [](const auto& core) { return core.receive_room(); });
  }
  /// Range: not is_reliable().
  [[nodiscard]] transport::ReceiveResult OnUnreliablePacket(const wire::Packet& packet,
                                                            transport::Effect& effect) {
    if (is_datagram()) return ud.OnPacket(packet, effect);
    return uc.OnPacket(packet, effect);
  }
  void OnEffectDone(transport::EffectOutcome outcome, uint64_t original, Nanos now) {
    if (is_reliable()) [[likely]]
      return rc.OnEffectDone(outcome, original, now);
    is_datagram() ? ud.OnEffectDone(outcome) : uc.OnEffectDone(outcome);
  }

  // ---- completions, events, time ----
  [[nodiscard]] bool PollCompletion(transport::Completion& completion) {
    return Visit(*this, [&](auto& core) { return core.PollCompletion(completion); });
  }
  [[nodiscard]] bool PollEvent(transport::QpEvent& event) {
    return Visit(*this, [&](auto& core) { return core.PollEvent(event); });
  }
  /// Only reliable connections have timers.
  Nanos NextDeadline() const { return is_reliable() ? rc.NextDeadline() : kNever; }
  void OnDeadline(Nanos now) {
    if (is_reliable()) rc.OnDeadline(now);
  }
  void OnHeld(Nanos now) {
    if (is_reliable()) rc.OnHeld(now);
  }

  // ---- for dumps ----
  const Counters& counters() const {
    return Visit(*this, [](const auto& core) -> const Counters& { return core.counters(); });
  }
  /// Why a connection failed by itself.
  transport::Failure failure() const { return is_reliable() ? rc.failure() : transport::Failure{}; }
  wire::Psn next_send_psn() const {
    return Visit(*this, [](const auto& core) { return core.next_send_psn(); });
  }
  /// The next PSN that is expected; datagrams have none.
  wire::Psn expected_psn() const;

 private:
  const Kind kind_;
  const wire::Service service_;
  // `kind_` says which member is alive. Members of an unnamed union are public: no underscore.
  union {
    transport::RcQueuePair rc;
    transport::UcQueuePair uc;
    transport::UdQueuePair ud;
  };
};

}  // namespace uroce::datapath
