// SPDX-License-Identifier: Apache-2.0
// A queue pair whose peer sends anything at any time, and whose memory fails at random, keeps its
// invariants. UROCE_SIM_SEED=N replays one seed; UROCE_SIM_COUNT=N runs that many.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>

#include "pipeline/wire/packet.h"
#include "tests/sim/environment.h"
#include "tests/sim/hostile_shell.h"
#include "tests/sim/random.h"

namespace uroce::sim {
namespace {

using transport::QpState;
using transport::SendWork;
using transport::WorkOpcode;

constexpr uint64_t kDefaultSeeds = 1'000;
constexpr int kSteps = 1'000;
constexpr uint32_t kSendWorks = 16;
constexpr std::array<uint8_t, 5000> kPayload{};

class HostileRun {
 public:
  explicit HostileRun(uint64_t seed)
      : random_(seed), xrc_(random_.Happens(100)), shell_(DrawConfig(), DrawAttributes()) {}

  uint64_t connections() const { return shell_.connections(); }

  /// Runs to the end. Returns "" when all is well.
  std::string Run() {
    for (int step = 0; step < kSteps && shell_.fault().empty(); ++step) Step();
    shell_.End();
    return shell_.fault();
  }

 private:
  transport::RcConfig DrawConfig() {
    return {.signal_all = true,
            .max_send_works = kSendWorks,
            .shared_receive = random_.Happens(200),
            .service = xrc_ ? wire::Service::kXrc : wire::Service::kRc,
            .selective_repeat = random_.Happens(500),
            .congestion = random_.Happens(500) ? &ByDelay() : nullptr};
  }

  transport::QueuePairAttributes DrawAttributes() {
    transport::QueuePairAttributes attributes;
    attributes.remote_write = !random_.Happens(50);
    attributes.remote_read = !random_.Happens(50);
    attributes.remote_atomic = !random_.Happens(50);
    attributes.path_mtu_bytes = random_.OneOf<uint32_t>({256, 1024, 4096});
    attributes.rq_psn = wire::Psn(random_.OneOf<uint32_t>({0, 0xfffffe, 0x7fffff}));
    attributes.sq_psn = wire::Psn(random_.OneOf<uint32_t>({0, 0xfffffe, 0x7fffff}));
    attributes.max_rd_atomic = random_.OneOf<uint8_t>({0, 1, 16, 16});
    attributes.max_dest_rd_atomic = random_.OneOf<uint8_t>({1, 16, 16});
    attributes.timeout = random_.OneOf<uint8_t>({0, 1});
    attributes.retry_count = random_.OneOf<uint8_t>({0, 7});
    attributes.rnr_retry = random_.OneOf<uint8_t>({0, 7});
    attributes.selective_repeat = random_.Happens(800);
    return attributes;
  }

  void Step() {
    shell_.Pass(Nanos(random_.Below(20'000)));
    if (random_.Happens(300)) Post();
    if (random_.Happens(300)) shell_.qp().OfferCredits(random_.Below(40));
    shell_.BeginLocalWork();
    if (random_.Happens(700)) shell_.EndLocalWork(random_.Happens(20));
    for (uint32_t i = random_.Below(8); i > 0; --i) ReceivePacket();
    const uint32_t most = random_.Below(40);
    shell_.SendPackets(most, random_.Happens(20) ? random_.Below(40) : most);
    shell_.PollCompletions();
    const bool failed = shell_.qp().state() == QpState::kErr;
    if (failed && random_.Happens(500)) shell_.Reconnect();
    if (random_.Happens(10)) shell_.Drain();
    shell_.Resume();
  }

  void Post() {
    SendWork work;
    work.opcode = static_cast<WorkOpcode>(random_.Below(random_.Happens(20) ? 11 : 7));
    work.length_bytes = random_.OneOf<uint32_t>({0, 1, 5000, 1u << 31, random_.Below(100'000)});
    work.fence = random_.Happens(200);
    work.malformed = random_.Happens(10);
    shell_.Post(work);
  }

  /// A packet near what is expected in either direction, so that many are accepted.
  wire::Packet RandomPacket() {
    wire::Packet packet;
    wire::TransportHeader& header = packet.header;
    header.opcode = static_cast<wire::Opcode>(random_.Below(random_.Happens(20) ? 256 : 0x18));
    const bool response = header.opcode >= wire::Opcode::kReadResponseFirst &&
                          header.opcode <= wire::Opcode::kAtomicAcknowledge;
    const wire::Psn near = response ? shell_.qp().next_send_psn() - 1 : shell_.qp().expected_psn();
    header.psn = near + random_.OneOf<uint32_t>({0, 0, 0, 0, 1, 0xffffff, 0xfffffe, 0x7fffff,
                                                 0x800000, random_.Below(1 << 24)});
    header.ack_request = random_.Happens(500);
    header.aeth.syndrome = random_.OneOf<uint8_t>({wire::kCreditsUnlimited, wire::kCreditsUnlimited,
                                                   wire::kNakSequence, wire::kSyndromeRnrNak | 1,
                                                   static_cast<uint8_t>(random_.Next())});
    header.aeth.msn = static_cast<uint32_t>(random_.Next()) & 0xffffff;
    header.xrc_srqn = random_.Below(2);
    const uint32_t mtu = shell_.attributes().path_mtu_bytes;
    const uint32_t size =
        random_.OneOf<uint32_t>({0, 0, 1, 64, mtu, mtu, mtu, mtu - 1, mtu + 1, 5000});
    packet.payload = std::span(kPayload).first(size);
    header.reth.length_bytes = random_.OneOf<uint32_t>(
        {size, size, 2 * mtu, 1u << 31, static_cast<uint32_t>(random_.Next())});
    header.atomic.va = random_.OneOf<uint64_t>({0, 8, random_.Next()});
    if (header.opcode == wire::Opcode::kReadRequest && random_.Happens(900)) packet.payload = {};
    return packet;
  }

  /// A packet that an honest peer might send. Without these a connection ends with its first
  /// packets.
  wire::Packet PolitePacket() {
    using wire::Opcode;
    wire::Packet packet;
    wire::TransportHeader& header = packet.header;
    header.opcode = random_.OneOf({Opcode::kSendOnly, Opcode::kWriteOnly, Opcode::kWriteOnlyWithImm,
                                   Opcode::kReadRequest, Opcode::kFetchAdd, Opcode::kAtomicWrite,
                                   Opcode::kAcknowledge, Opcode::kSelectiveAcknowledge});
    header.psn = shell_.qp().expected_psn() - (random_.Happens(200) ? random_.Below(5) : 0);
    if (random_.Happens(50)) header.psn = header.psn + random_.Below(5);
    header.ack_request = random_.Happens(800);
    const bool is_atomic_write = header.opcode == Opcode::kAtomicWrite;
    const uint32_t size = is_atomic_write ? 8 : random_.OneOf<uint32_t>({0, 8, 64});
    header.reth.length_bytes = size;
    if (header.opcode == Opcode::kReadRequest) {
      header.reth.length_bytes = random_.Below(20'000);
    } else if (header.opcode == Opcode::kAcknowledge) {
      header.psn = shell_.qp().next_send_psn() - 1 - random_.Below(4);
      header.aeth.syndrome =
          random_.OneOf<uint8_t>({wire::kCreditsUnlimited, static_cast<uint8_t>(random_.Below(31)),
                                  wire::kNakSequence, wire::kSyndromeRnrNak | 1});
    } else if (header.opcode == Opcode::kSelectiveAcknowledge) {
      header.psn = shell_.qp().next_send_psn() - random_.Below(4);
      packet.payload = RandomMap();
    } else if (header.opcode != Opcode::kFetchAdd) {
      packet.payload = std::span(kPayload).first(size);
    }
    return packet;
  }

  std::span<const uint8_t> RandomMap() {
    const uint32_t packets = random_.Below(random_.Happens(20) ? 3000 : 70);
    const uint32_t within = std::min(packets, wire::kMaxKeptPackets);
    const uint32_t bytes = wire::WriteKeptMap(
        within, [this](uint32_t) { return random_.Next(); }, map_);
    if (packets != within) map_[2] = 0xff;  // More bits than allowed.
    return std::span(map_).first(bytes - (random_.Happens(20) ? 1 : 0));
  }

  void ReceivePacket() {
    wire::Packet packet = random_.Happens(970) ? PolitePacket() : RandomPacket();
    if (xrc_ && wire::ServiceOf(packet.header.opcode) == wire::Service::kRc) {
      packet.header.opcode = wire::OpcodeOf(wire::Service::kXrc, packet.header.opcode);
    }
    const uint32_t room = random_.Happens(10) ? 7 : 10'000;
    shell_.Receive(packet, {.receive_bytes = random_.Happens(800) ? room : 0,
                            .receive_malformed = random_.Happens(5),
                            .srq_denied = xrc_ && random_.Happens(5),
                            .effect_fails = random_.Happens(4),
                            .original = random_.Next()});
  }

  Random random_;
  bool xrc_;
  std::array<uint8_t, wire::kMaxKeptMapBytes> map_{};
  HostileShell<transport::RcQueuePair> shell_;
};

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
  // Connections are long enough to reach late states, and short enough for many ends.
  if (replay) return;
  EXPECT_GT(connections, 10 * count);
  EXPECT_LT(connections, 200 * count);
}

}  // namespace
}  // namespace uroce::sim
