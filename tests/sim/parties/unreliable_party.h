// SPDX-License-Identifier: Apache-2.0
// A simulated program on an unreliable queue pair. Messages may be lost; each that arrives must be
// complete, must have been sent, and must not have been refused.
#pragma once

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/transport/queue_pair_types.h"
#include "pipeline/transport/work.h"
#include "tests/sim/parties/party.h"
#include "tests/sim/parties/receive_pool.h"
#include "tests/sim/random.h"

namespace uroce::sim {

/// One message: its work, its bytes, and its outcome.
struct Message {
  transport::SendWork work;
  std::vector<uint8_t> bytes;  ///< The first four bytes hold its index, if it is long enough.
  transport::WcStatus failure = transport::WcStatus::kSuccess;  ///< Of an illegal one.
  bool gather_fails = false;
  bool sent = false;
  uint32_t received = 0;
};

/// `size` bytes that no other message has; the first four are `index`.
inline std::vector<uint8_t> BytesOf(uint32_t tag, uint32_t index, uint32_t size) {
  std::vector<uint8_t> bytes(size);
  Random(uint64_t{tag} << 32 | index).Fill(bytes);
  if (size >= sizeof index) std::memcpy(bytes.data(), &index, sizeof index);
  return bytes;
}

/// Posts its messages, and restarts the send queue whenever a message has stopped it.
template <typename QueuePair>
class UnreliableParty : public Party {
 public:
  UnreliableParty(uint32_t host, const transport::UnreliableConfig& config,
                  const transport::QueuePairAttributes& attributes, ReceivePool& pool,
                  uint64_t seed)
      : Party(host),
        qp_(config),
        attributes_(attributes),
        signal_all_(config.signal_all),
        pool_(pool),
        random_(seed) {
    using transport::QpState;
    for (const QpState state : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
      qp_.Modify(state, attributes);
    }
  }

  std::vector<Message>& messages() { return messages_; }
  uint32_t posted() const { return posted_; }

  Nanos Turn(Nanos now) override {
    pool_.Refill(now);
    PollCompletions();
    if (qp_.state() == transport::QpState::kSqe) qp_.Modify(transport::QpState::kRts, attributes_);
    while (posted_ != messages_.size() && qp_.post_room() != 0 && !random_.Happens(200)) Post();
    SendPackets(now);
    PollCompletions();
    return finished() ? kNever : now + Nanos(1'000);
  }
  bool finished() const override { return completed_ == messages_.size(); }
  std::string Describe() const override {
    return "posted " + std::to_string(posted_) + " completed " + std::to_string(completed_);
  }

 protected:
  virtual Path& PathOf(const transport::TxPacket& packet) = 0;
  virtual void OnReceived(const transport::Completion& completion) = 0;

  /// Gives a packet to the core, and returns the effect to execute.
  transport::Effect Give(const wire::Packet& packet) {
    if (qp_.NeedsReceive(packet.header)) {
      if (const auto work = pool_.Take()) qp_.PostReceive(*work);
    }
    transport::Effect effect;
    static_cast<void>(qp_.OnPacket(packet, effect));
    return effect;
  }
  /// Writes the bytes at `offset_bytes` of a receive work.
  void PlaceReceive(const transport::LocalRange& local, std::span<const uint8_t> payload) {
    std::vector<uint8_t>& buffer = pool_.Buffer(local.slot);
    if (local.offset_bytes + payload.size() > buffer.size() ||
        local.length_bytes != payload.size()) {
      return Fault("placed behind the end of a receive work");
    }
    std::copy(payload.begin(), payload.end(), buffer.begin() + local.offset_bytes);
  }

  QueuePair qp_;
  transport::QueuePairAttributes attributes_;
  bool signal_all_;
  ReceivePool& pool_;
  Random random_;

 private:
  void Post() {
    transport::SendWork work = messages_[posted_].work;
    work.slot = posted_++;
    if (qp_.Post(work) != transport::PostResult::kPosted) Fault("post refused in spite of room");
  }

  void SendPackets(Nanos now) {
    transport::TxPacket packet;
    for (uint32_t i = 0; i < 32 && qp_.PollPacket(packet); ++i) {
      const transport::LocalRange& local = packet.local;
      Message& message = messages_[local.slot];
      if (!qp_.Holds(local.slot)) Fault("packet of a work that is not held");
      if (packet.payload_bytes() > attributes_.path_mtu_bytes) Fault("a packet above the MTU");
      if (message.failure != transport::WcStatus::kSuccess && !message.gather_fails) {
        Fault("a packet of an illegal work");
      }
      if (message.gather_fails && random_.Happens(500)) {
        qp_.OnGatherFailed();
        continue;
      }
      const std::span<const uint8_t> bytes(message.bytes);
      PathOf(packet).Send(packet.header, bytes.subspan(local.offset_bytes, packet.payload_bytes()),
                          now);
      qp_.OnSent(packet);
    }
  }

  void PollCompletions() {
    transport::Completion completion;
    while (qp_.PollCompletion(completion)) {
      if (completion.is_receive) {
        OnReceived(completion);
        pool_.Release(completion.slot);
      } else {
        OnSendCompletion(completion);
      }
    }
  }

  void OnSendCompletion(const transport::Completion& completion) {
    using transport::WcStatus;
    if (completion.slot < completed_ || completion.slot >= posted_) {
      return Fault("send completion out of order");
    }
    for (; completed_ < completion.slot; ++completed_) {
      if (signal_all_ || messages_[completed_].work.signaled) Fault("a completion is missing");
      messages_[completed_].sent = true;
    }
    Message& message = messages_[completed_++];
    message.sent = completion.status == WcStatus::kSuccess;
    if (completion.status != WcStatus::kSuccess) stopped_ = true;
    const bool fits = message.sent ? message.failure == WcStatus::kSuccess || message.gather_fails
                                   : completion.status == message.failure ||
                                         completion.status == WcStatus::kWrFlushErr;
    if (!fits) Fault("send completion of status " + std::to_string(int(completion.status)));
    if (completion.status == WcStatus::kWrFlushErr && !stopped_) Fault("flushed without an error");
  }

  std::vector<Message> messages_;
  uint32_t posted_ = 0;
  uint32_t completed_ = 0;
  bool stopped_ = false;  ///< A work has failed.
};

}  // namespace uroce::sim
