// SPDX-License-Identifier: Apache-2.0
// A queue pair whose peer sends anything at any time, and whose memory fails at random: what must
// hold all the same. UROCE_SIM_SEED=N replays one seed; UROCE_SIM_COUNT=N runs that many.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <string>

#include "pipeline/transport/rc_queue_pair.h"
#include "pipeline/wire/aeth_syndrome.h"
#include "tests/sim/random.h"

namespace uroce::sim {
namespace {

using transport::Completion;
using transport::Effect;
using transport::EffectOutcome;
using transport::QpState;
using transport::RcQueuePair;
using transport::SendWork;
using transport::TxPacket;
using transport::WorkOpcode;

constexpr uint64_t kDefaultSeeds = 1'000;
constexpr int kSteps = 1'000;
constexpr uint32_t kSendWorks = 16;
constexpr std::array<uint8_t, 5000> kPayload{};

class HostileRun {
 public:
  explicit HostileRun(uint64_t seed)
      : random_(seed),
        xrc_(random_.Happens(100)),
        qp_({.signal_all = true,
             .max_send_works = kSendWorks,
             .shared_receive = random_.Happens(200),
             .service = xrc_ ? wire::Service::kXrc : wire::Service::kRc}) {
    attributes_.remote_write = !random_.Happens(50);
    attributes_.remote_read = !random_.Happens(50);
    attributes_.remote_atomic = !random_.Happens(50);
    attributes_.path_mtu_bytes = random_.OneOf<uint32_t>({256, 1024, 4096});
    attributes_.rq_psn = wire::Psn(random_.OneOf<uint32_t>({0, 0xfffffe, 0x7fffff}));
    attributes_.sq_psn = wire::Psn(random_.OneOf<uint32_t>({0, 0xfffffe, 0x7fffff}));
    attributes_.max_rd_atomic = random_.OneOf<uint8_t>({0, 1, 16, 16});
    attributes_.max_dest_rd_atomic = random_.OneOf<uint8_t>({1, 16, 16});
    attributes_.timeout = random_.OneOf<uint8_t>({0, 1});
    attributes_.retry_count = random_.OneOf<uint8_t>({0, 7});
    attributes_.rnr_retry = random_.OneOf<uint8_t>({0, 7});
    Connect();
  }

  uint64_t connections() const { return connections_; }

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

  /// Into the error state, if it is not there: all that was posted has completed.
  void End() {
    const bool refused = qp_.state() == QpState::kErr;
    qp_.Modify(QpState::kErr, attributes_);
    PollCompletions();
    if (sends_completed_ != sends_posted_) Fault("a send work has no completion");
    if (receives_completed_ != receives_posted_) Fault("a receive work has no completion");
    if (qp_.NextDeadline() != kNever) Fault("a deadline in ERR");
    TxPacket packet;
    if (!refused && qp_.PollPacket(now_, packet)) Fault("a packet leaves in ERR");
  }

  /// The application makes a new connection of the old queue pair.
  void Reconnect() {
    End();
    qp_.Modify(QpState::kReset, attributes_);
    local_under_way_ = false;
    sends_posted_ = sends_completed_ = receives_posted_ = receives_completed_ = 0;
    Connect();
    ++connections_;
  }

  void Step() {
    now_ = now_ + Nanos(random_.Below(20'000));
    if (qp_.NextDeadline() <= now_) qp_.OnDeadline(now_);
    if (random_.Happens(300)) Post();
    if (random_.Happens(300)) qp_.OfferCredits(random_.Below(40));
    DoLocalWorks();
    for (uint32_t i = random_.Below(8); i > 0; --i) ReceivePacket();
    SendPackets();
    PollCompletions();
    if (qp_.state() == QpState::kErr && random_.Happens(500)) Reconnect();
    if (qp_.state() == QpState::kRts && random_.Happens(10)) {
      qp_.Modify(QpState::kSqd, attributes_);
    }
    if (qp_.state() == QpState::kSqd && !qp_.draining()) qp_.Modify(QpState::kRts, attributes_);
  }

  void DoLocalWorks() {
    transport::LocalEffect local;
    if (!local_under_way_ && qp_.PollLocal(local)) {
      local_under_way_ = true;
      if (!qp_.Holds(local.slot)) Fault("a local work that is not held");
    } else if (qp_.HasLocal()) {
      Fault("two local works at a time");
    }
    if (!local_under_way_ || random_.Happens(300)) return;
    local_under_way_ = false;
    qp_.OnLocalDone(random_.Happens(20) ? EffectOutcome::kLocalProtection : EffectOutcome::kDone);
  }

  void Post() {
    if (qp_.post_room() == 0) return;
    SendWork work;
    work.slot = sends_posted_++;
    work.opcode = static_cast<WorkOpcode>(random_.Below(random_.Happens(20) ? 11 : 7));
    work.length_bytes = random_.OneOf<uint32_t>({0, 1, 5000, 1u << 31, random_.Below(100'000)});
    work.fence = random_.Happens(200);
    work.malformed = random_.Happens(10);
    if (qp_.Post(work) != transport::PostResult::kPosted) Fault("post refused in spite of room");
  }

  /// Near what is expected in either direction, so that many are taken.
  wire::Packet RandomPacket() {
    wire::Packet packet;
    wire::TransportHeader& header = packet.header;
    header.opcode = static_cast<wire::Opcode>(random_.Below(random_.Happens(20) ? 256 : 0x18));
    const bool response = header.opcode >= wire::Opcode::kReadResponseFirst &&
                          header.opcode <= wire::Opcode::kAtomicAcknowledge;
    const wire::Psn near = response ? qp_.next_send_psn() - 1 : qp_.expected_psn();
    header.psn = near + random_.OneOf<uint32_t>({0, 0, 0, 0, 1, 0xffffff, 0xfffffe, 0x7fffff,
                                                 0x800000, random_.Below(1 << 24)});
    header.ack_request = random_.Happens(500);
    header.aeth.syndrome = random_.OneOf<uint8_t>({wire::kCreditsUnlimited, wire::kCreditsUnlimited,
                                                   wire::kNakSequence, wire::kSyndromeRnrNak | 1,
                                                   static_cast<uint8_t>(random_.Next())});
    header.aeth.msn = static_cast<uint32_t>(random_.Next()) & 0xffffff;
    header.xrc_srqn = random_.Below(2);
    const uint32_t mtu = attributes_.path_mtu_bytes;
    const uint32_t size =
        random_.OneOf<uint32_t>({0, 0, 1, 64, mtu, mtu, mtu, mtu - 1, mtu + 1, 5000});
    packet.payload = std::span(kPayload).first(size);
    header.reth.length_bytes = random_.OneOf<uint32_t>(
        {size, size, 2 * mtu, 1u << 31, static_cast<uint32_t>(random_.Next())});
    header.atomic.va = random_.OneOf<uint64_t>({0, 8, random_.Next()});
    if (header.opcode == wire::Opcode::kReadRequest && random_.Happens(900)) packet.payload = {};
    return packet;
  }

  /// What an honest peer might send; without these a connection ends with its first packets.
  wire::Packet PolitePacket() {
    using wire::Opcode;
    wire::Packet packet;
    wire::TransportHeader& header = packet.header;
    header.opcode = random_.OneOf({Opcode::kSendOnly, Opcode::kWriteOnly, Opcode::kWriteOnlyWithImm,
                                   Opcode::kReadRequest, Opcode::kFetchAdd, Opcode::kAcknowledge});
    header.psn = qp_.expected_psn() - (random_.Happens(200) ? random_.Below(5) : 0);
    if (random_.Happens(50)) header.psn = header.psn + random_.Below(5);
    header.ack_request = random_.Happens(800);
    const uint32_t size = random_.OneOf<uint32_t>({0, 8, 64});
    header.reth.length_bytes = size;
    if (header.opcode == Opcode::kReadRequest) {
      header.reth.length_bytes = random_.Below(20'000);
    } else if (header.opcode == Opcode::kAcknowledge) {
      header.psn = qp_.next_send_psn() - 1 - random_.Below(4);
      header.aeth.syndrome =
          random_.OneOf<uint8_t>({wire::kCreditsUnlimited, static_cast<uint8_t>(random_.Below(31)),
                                  wire::kNakSequence, wire::kSyndromeRnrNak | 1});
    } else if (header.opcode != Opcode::kFetchAdd) {
      packet.payload = std::span(kPayload).first(size);
    }
    return packet;
  }

  void ReceivePacket() {
    wire::Packet packet = random_.Happens(970) ? PolitePacket() : RandomPacket();
    if (xrc_ && wire::ServiceOf(packet.header.opcode) == wire::Service::kRc) {
      packet.header.opcode = wire::OpcodeOf(wire::Service::kXrc, packet.header.opcode);
    }
    const bool needs = qp_.NeedsReceive(packet.header);
    if (needs && xrc_ && random_.Happens(5)) {
      qp_.DenyReceive();
    } else if (needs && random_.Happens(800)) {
      const uint32_t room = random_.Happens(10) ? 7 : 10'000;
      qp_.PostReceive(
          {.slot = receives_posted_++, .length_bytes = room, .malformed = random_.Happens(5)});
    }
    Effect effect;
    static_cast<void>(qp_.OnPacket(packet, now_, effect));
    if (effect.kind == Effect::Kind::kNone) return;
    CheckEffect(effect, packet);
    EffectOutcome outcome = EffectOutcome::kDone;
    if (random_.Happens(4)) outcome = FailureOf(effect);
    qp_.OnEffectDone(outcome, random_.Next(), now_);
  }

  EffectOutcome FailureOf(const Effect& effect) {
    switch (effect.kind) {
      case Effect::Kind::kPlaceReceive:
        return effect.invalidate ? EffectOutcome::kInvalidateFailed
                                 : EffectOutcome::kLocalProtection;
      case Effect::Kind::kInvalidate:
        return EffectOutcome::kInvalidateFailed;
      case Effect::Kind::kPlaceSend:
      case Effect::Kind::kPlaceOriginal:
        return EffectOutcome::kLocalProtection;
      default:
        return EffectOutcome::kRemoteAccess;
    }
  }

  void CheckEffect(const Effect& effect, const wire::Packet& packet) {
    const bool places =
        effect.kind == Effect::Kind::kPlaceReceive || effect.kind == Effect::Kind::kPlaceSend;
    if (places && effect.local.length_bytes != packet.payload.size()) Fault("other bytes placed");
    if (effect.kind == Effect::Kind::kPlaceSend && !qp_.Holds(effect.local.slot)) {
      Fault("placed into a work that is not held");
    }
    const bool remote =
        effect.kind == Effect::Kind::kPlaceRemote || effect.kind == Effect::Kind::kCheckRemote;
    if (remote && effect.check_length_bytes < effect.remote.length_bytes) Fault("check too short");
    if (remote && effect.remote.length_bytes == 0) Fault("a key checked for nothing");
  }

  void SendPackets() {
    TxPacket packet;
    for (uint32_t i = random_.Below(40); i > 0 && qp_.PollPacket(now_, packet); --i) {
      if (packet.payload_bytes() > attributes_.path_mtu_bytes) Fault("a packet above the MTU");
      const bool gathers = packet.source != TxPacket::Source::kNone;
      if (packet.source == TxPacket::Source::kSend && !qp_.Holds(packet.local.slot)) {
        Fault("a packet of a work that is not held");
      }
      if (gathers && random_.Happens(2)) qp_.OnGatherFailed(packet, now_);
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
  bool xrc_;
  transport::RcAttributes attributes_;
  RcQueuePair qp_;
  Nanos now_;
  uint32_t sends_posted_ = 0;
  uint32_t sends_completed_ = 0;
  uint32_t receives_posted_ = 0;
  uint32_t receives_completed_ = 0;
  uint64_t connections_ = 1;
  bool local_under_way_ = false;
  std::string fault_;
};

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 0);
}

TEST(HostilePeer, EveryWorkCompletesOnceAndNothingElseIsTouched) {
  const bool replay = std::getenv("UROCE_SIM_SEED") != nullptr;
  const uint64_t first = FromEnvironment("UROCE_SIM_SEED", 1);
  const uint64_t count = replay ? 1 : FromEnvironment("UROCE_SIM_COUNT", kDefaultSeeds);
  uint64_t connections = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    HostileRun run(seed);
    EXPECT_EQ(run.Run(), "") << "replay with UROCE_SIM_SEED=" << seed;
    connections += run.connections();
  }
  // Long enough connections to get deep, short enough to see many ends.
  if (replay) return;
  EXPECT_GT(connections, 10 * count);
  EXPECT_LT(connections, 200 * count);
}

}  // namespace
}  // namespace uroce::sim
