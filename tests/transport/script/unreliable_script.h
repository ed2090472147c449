// SPDX-License-Identifier: Apache-2.0
// An unreliable queue pair under a script, as script.h has it for reliable ones.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <vector>

#include "pipeline/transport/queue_pair_types.h"
#include "pipeline/wire/to_string.h"
#include "tests/transport/script/packet_text.h"
#include "tests/transport/script/script.h"
#include "tests/transport/script/value_text.h"

namespace uroce::transport {

struct UnreliableScriptConfig {
  QueuePairAttributes attributes = {.remote_write = true,
                                    .path_mtu_bytes = 1024,
                                    .rq_psn = wire::Psn(0x200),
                                    .sq_psn = wire::Psn(0x100),
                                    .qkey = 0x11,
                                    .notify_drained = true};
  bool signal_all = true;
  bool shared_receive = false;
  QpState state = QpState::kRts;
};

/// Runs the shell's contract on one queue pair. Every expectation covers all there is.
template <typename QueuePair>
class UnreliableScript {
 public:
  explicit UnreliableScript(const UnreliableScriptConfig& config = {})
      : attributes_(config.attributes),
        qp_({.signal_all = config.signal_all,
             .max_send_works = 128,
             .shared_receive = config.shared_receive,
             .qpn = Qpn(0x77)}) {
    for (const QpState state : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
      if (state <= config.state) qp_.Modify(state, attributes_);
    }
  }

  UnreliableScript& Post(SendWork work) {
    work.slot = next_send_slot_++;
    work.wr_id = work.slot;
    EXPECT_EQ(qp_.Post(work), PostResult::kPosted);
    return *this;
  }
  UnreliableScript& PostReceive(uint32_t length_bytes = 4096, bool malformed = false) {
    const uint32_t slot = next_receive_slot_++;
    receives_.push_back(
        {.wr_id = slot, .slot = slot, .length_bytes = length_bytes, .malformed = malformed});
    return *this;
  }
  /// A packet arrives, is `result`, and its effect ends as told.
  UnreliableScript& Receive(const std::string& text,
                            ReceiveResult result = ReceiveResult::kAccepted) {
    wire::Packet packet = PacketOf(text);
    packet.destination.bytes[0] = 0xfd;
    if (qp_.NeedsReceive(packet.header) && !receives_.empty()) TakeReceive();
    Effect effect;
    EXPECT_EQ(qp_.OnPacket(packet, effect), result) << text;
    effect_ = TextOf(effect);
    if (effect.kind == Effect::Kind::kNone) return *this;
    qp_.OnEffectDone(std::exchange(outcome_, EffectOutcome::kDone));
    return *this;
  }
  UnreliableScript& NextOutcome(EffectOutcome outcome) {
    outcome_ = outcome;
    return *this;
  }
  UnreliableScript& Does(const std::string& effect) {
    EXPECT_EQ(effect_, effect);
    return *this;
  }
  UnreliableScript& Modify(QpState state) {
    qp_.Modify(state, attributes_);
    return *this;
  }

  /// All packets that can leave now; their bytes can be read.
  UnreliableScript& Sends(const Texts& packets) {
    Texts sent;
    while (qp_.PollPacket(sent_)) {
      sent.push_back(wire::ToString(sent_.header, sent_.payload_bytes()));
      qp_.OnSent(sent_);
    }
    EXPECT_EQ(sent, packets);
    EXPECT_FALSE(qp_.HasPacket());
    return *this;
  }
  UnreliableScript& Quiet() { return Sends({}); }
  /// One packet, which is not sent before Leaves or GatherFails.
  UnreliableScript& Polls(const std::string& packet) {
    EXPECT_TRUE(qp_.PollPacket(sent_));
    EXPECT_EQ(wire::ToString(sent_.header, sent_.payload_bytes()), packet);
    return *this;
  }
  UnreliableScript& Leaves() {
    qp_.OnSent(sent_);
    return *this;
  }
  UnreliableScript& GatherFails() {
    qp_.OnGatherFailed();
    return *this;
  }
  UnreliableScript& AddressIsRefused() {
    qp_.OnAddressRefused();
    return *this;
  }
  UnreliableScript& Completes(const Texts& completions) {
    Texts polled;
    Completion completion;
    while (qp_.PollCompletion(completion)) polled.push_back(TextOf(completion));
    while (qp_.state() == QpState::kErr && !receives_.empty()) {
      TakeReceive();
      while (qp_.PollCompletion(completion)) polled.push_back(TextOf(completion));
    }
    EXPECT_EQ(polled, completions);
    return *this;
  }
  UnreliableScript& Nothing() { return Completes({}); }
  UnreliableScript& Raises(const std::vector<QpEvent>& events) {
    std::vector<QpEvent> raised;
    QpEvent event;
    while (qp_.PollEvent(event)) raised.push_back(event);
    EXPECT_EQ(raised, events);
    return *this;
  }
  UnreliableScript& State(QpState state) {
    EXPECT_EQ(qp_.state(), state);
    return *this;
  }

  QueuePair& qp() { return qp_; }
  const QueuePairCounters& counters() const { return qp_.counters(); }
  const TxPacket& sent() const { return sent_; }

 private:
  void TakeReceive() {
    qp_.PostReceive(receives_.front());
    receives_.pop_front();
  }

  QueuePairAttributes attributes_;
  QueuePair qp_;
  uint32_t next_send_slot_ = 0;
  uint32_t next_receive_slot_ = 0;
  std::deque<ReceiveWork> receives_;
  EffectOutcome outcome_ = EffectOutcome::kDone;
  TxPacket sent_;
  std::string effect_;
};

}  // namespace uroce::transport
