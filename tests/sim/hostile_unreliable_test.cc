// SPDX-License-Identifier: Apache-2.0
// Unreliable queue pairs to which anything comes at any time, and whose memory fails at random:
// what must hold all the same. UROCE_SIM_SEED=N replays one seed; UROCE_SIM_COUNT=N runs that many.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <string>
#include <type_traits>

#include "pipeline/transport/uc_queue_pair.h"
#include "pipeline/transport/ud_queue_pair.h"
#include "tests/sim/random.h"

namespace uroce::sim {
namespace {

using transport::Completion;
using transport::Effect;
using transport::EffectOutcome;
using transport::QpState;
using transport::TxPacket;

constexpr uint64_t kDefaultSeeds = 300;
constexpr int kSteps = 1'000;
constexpr std::array<uint8_t, 5000> kPayload{};

template <typename QueuePair>
class HostileUnreliableRun {
 public:
  static constexpr bool kDatagrams = std::is_same_v<QueuePair, transport::UdQueuePair>;

  explicit HostileUnreliableRun(uint64_t seed)
      : random_(seed),
        qp_({.signal_all = true, .max_send_works = 16, .shared_receive = random_.Happens(300)}) {
    attributes_.remote_write = random_.Happens(900);
    attributes_.path_mtu_bytes = random_.OneOf<uint32_t>({256, 1024, 4096});
    attributes_.rq_psn = wire::Psn(random_.OneOf<uint32_t>({0, 0xfffffe}));
    attributes_.qkey = 5;
    Connect();
  }

  /// Empty when all went well.
  std::string Run() {
    for (int step = 0; step < kSteps && fault_.empty(); ++step) Step();
    End();
    return fault_;
  }

 private:
  void Connect() {
    for (const QpState state : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
      qp_.Modify(state, attributes_);
    }
  }

  void End() {
    qp_.Modify(QpState::kErr, attributes_);
    PollCompletions();
    if (sends_completed_ != sends_posted_) Fault("a send work has no completion");
    if (receives_completed_ != receives_posted_) Fault("a receive work has no completion");
    TxPacket packet;
    if (qp_.PollPacket(Nanos(), packet)) Fault("a packet leaves in ERR");
  }

  void Step() {
    if (random_.Happens(400)) Post();
    for (uint32_t i = random_.Below(8); i > 0; --i) Receive();
    SendPackets();
    DoLocalWorks();
    PollCompletions();
    const QpState state = qp_.state();
    if (state == QpState::kErr && random_.Happens(500)) Reconnect();
    if (state == QpState::kSqe && random_.Happens(500)) qp_.Modify(QpState::kRts, attributes_);
    if (state == QpState::kRts && random_.Happens(10)) qp_.Modify(QpState::kSqd, attributes_);
    if (state == QpState::kSqd && !qp_.draining()) qp_.Modify(QpState::kRts, attributes_);
  }

  void Reconnect() {
    End();
    qp_.Modify(QpState::kReset, attributes_);
    sends_posted_ = sends_completed_ = receives_posted_ = receives_completed_ = 0;
    Connect();
  }

  void Post() {
    if (qp_.post_room() == 0) return;
    transport::SendWork work;
    work.slot = sends_posted_++;
    work.opcode = static_cast<transport::WorkOpcode>(random_.Below(random_.Happens(50) ? 11 : 4));
    work.length_bytes = random_.OneOf<uint32_t>({0, 1, 256, 5000, 1u << 31});
    work.malformed = random_.Happens(10);
    if (qp_.Post(work) != transport::PostResult::kPosted) Fault("post refused in spite of room");
  }

  wire::Packet MakePacket() {
    wire::Packet packet;
    wire::TransportHeader& header = packet.header;
    const auto service = kDatagrams ? wire::Service::kUd : wire::Service::kUc;
    const uint32_t operation = kDatagrams ? 4 + random_.Below(2) : random_.Below(0x20);
    header.opcode = wire::OpcodeOf(service, static_cast<wire::Opcode>(operation));
    if (random_.Happens(20)) header.opcode = static_cast<wire::Opcode>(random_.Below(256));
    next_psn_ = next_psn_ + (random_.Happens(100) ? random_.Below(5) : 1);
    header.psn = next_psn_;
    header.deth.qkey = random_.Happens(900) ? 5 : 6;
    const uint32_t mtu = attributes_.path_mtu_bytes;
    const uint32_t size = random_.OneOf<uint32_t>({0, 1, mtu, mtu, mtu + 1, 5000});
    packet.payload = std::span(kPayload).first(size);
    header.reth.length_bytes = random_.OneOf<uint32_t>({size, 2 * mtu, 3 * mtu, 0xffffffff});
    return packet;
  }

  void Receive() {
    const wire::Packet packet = MakePacket();
    if (qp_.NeedsReceive(packet.header) && random_.Happens(800)) {
      room_ = random_.OneOf<uint32_t>({7, 300, 10'000});
      qp_.PostReceive(
          {.slot = receives_posted_++, .length_bytes = room_, .malformed = random_.Happens(5)});
    }
    Effect effect;
    static_cast<void>(qp_.OnPacket(packet, Nanos(), effect));
    if (effect.kind == Effect::Kind::kNone) return;
    if (effect.kind == Effect::Kind::kPlaceReceive) {
      if (effect.local.offset_bytes + effect.local.length_bytes > room_) Fault("placed too far");
      if (effect.local.length_bytes != packet.payload.size()) Fault("other bytes placed");
    } else if (effect.check_length_bytes < effect.remote.length_bytes) {
      Fault("check too short");
    }
    const bool remote = effect.kind == Effect::Kind::kPlaceRemote;
    const auto failure = remote ? EffectOutcome::kRemoteAccess : EffectOutcome::kLocalProtection;
    qp_.OnEffectDone(random_.Happens(10) ? failure : EffectOutcome::kDone, 0, Nanos());
  }

  void SendPackets() {
    TxPacket packet;
    for (uint32_t i = random_.Below(20); i > 0 && qp_.PollPacket(Nanos(), packet); --i) {
      if (packet.payload_bytes() > attributes_.path_mtu_bytes) Fault("a packet above the MTU");
      if (!qp_.Holds(packet.local.slot)) Fault("a packet of a work that is not held");
      if (random_.Happens(10)) {
        qp_.OnGatherFailed(packet, Nanos());
      } else {
        qp_.OnSent(packet);
      }
    }
  }

  void DoLocalWorks() {
    transport::LocalEffect local;
    while (qp_.PollLocal(local)) {
      const bool fails = random_.Happens(100);
      qp_.OnLocalDone(fails ? EffectOutcome::kLocalProtection : EffectOutcome::kDone);
    }
  }

  void PollCompletions() {
    Completion completion;
    while (qp_.PollCompletion(completion)) {
      uint32_t& completed = completion.is_receive ? receives_completed_ : sends_completed_;
      if (completion.slot != completed++) Fault("completion out of order");
    }
  }

  void Fault(const char* what) {
    if (fault_.empty()) fault_ = what;
  }

  Random random_;
  transport::UnreliableAttributes attributes_;
  QueuePair qp_;
  wire::Psn next_psn_;
  uint32_t room_ = 0;
  uint32_t sends_posted_ = 0;
  uint32_t sends_completed_ = 0;
  uint32_t receives_posted_ = 0;
  uint32_t receives_completed_ = 0;
  std::string fault_;
};

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 0);
}

template <typename QueuePair>
void RunSeeds() {
  const bool replay = std::getenv("UROCE_SIM_SEED") != nullptr;
  const uint64_t first = FromEnvironment("UROCE_SIM_SEED", 1);
  const uint64_t count = FromEnvironment("UROCE_SIM_COUNT", replay ? 1 : kDefaultSeeds);
  for (uint64_t seed = first; seed < first + count; ++seed) {
    EXPECT_EQ(HostileUnreliableRun<QueuePair>(seed).Run(), "")
        << "replay with UROCE_SIM_SEED=" << seed;
  }
}

TEST(HostileUnreliable, EveryWorkOfAConnectionCompletesOnce) { RunSeeds<transport::UcQueuePair>(); }

TEST(HostileUnreliable, EveryWorkOfDatagramsCompletesOnce) { RunSeeds<transport::UdQueuePair>(); }

}  // namespace
}  // namespace uroce::sim
