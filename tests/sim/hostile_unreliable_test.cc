// SPDX-License-Identifier: Apache-2.0
// Unreliable queue pairs that receive anything at any time, and whose memory fails at random, keep
// their invariants. UROCE_SIM_SEED=N replays one seed; UROCE_SIM_COUNT=N runs that many.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <string>
#include <type_traits>

#include "tests/sim/environment.h"
#include "tests/sim/hostile_shell.h"
#include "tests/sim/random.h"

namespace uroce::sim {
namespace {

using transport::QpState;

constexpr uint64_t kDefaultSeeds = 300;
constexpr int kSteps = 1'000;
constexpr std::array<uint8_t, 5000> kPayload{};

template <typename QueuePair>
class HostileUnreliableRun {
 public:
  static constexpr bool kDatagrams = std::is_same_v<QueuePair, transport::UdQueuePair>;

  explicit HostileUnreliableRun(uint64_t seed)
      : random_(seed),
        shell_({.signal_all = true, .max_send_works = 16, .shared_receive = random_.Happens(300)},
               {.remote_write = random_.Happens(900),
                .path_mtu_bytes = random_.OneOf<uint32_t>({256, 1024, 4096}),
                .rq_psn = wire::Psn(random_.OneOf<uint32_t>({0, 0xfffffe})),
                .qkey = 5}) {}

  /// Runs to the end. Returns "" when all is well.
  std::string Run() {
    for (int step = 0; step < kSteps && shell_.fault().empty(); ++step) Step();
    shell_.End();
    return shell_.fault();
  }

 private:
  void Step() {
    if (random_.Happens(400)) Post();
    for (uint32_t i = random_.Below(8); i > 0; --i) Receive();
    const uint32_t most = random_.Below(20);
    shell_.SendPackets(most, random_.Happens(100) ? random_.Below(20) : most);
    shell_.BeginLocalWork();
    shell_.EndLocalWork(random_.Happens(100));
    shell_.PollCompletions();
    if (shell_.qp().state() == QpState::kErr && random_.Happens(500)) shell_.Reconnect();
    if (random_.Happens(10)) shell_.Drain();
    if (random_.Happens(500)) shell_.Resume();
  }

  void Post() {
    transport::SendWork work;
    work.opcode = static_cast<transport::WorkOpcode>(random_.Below(random_.Happens(50) ? 11 : 4));
    work.length_bytes = random_.OneOf<uint32_t>({0, 1, 256, 5000, 1u << 31});
    work.malformed = random_.Happens(10);
    shell_.Post(work);
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
    const uint32_t mtu = shell_.attributes().path_mtu_bytes;
    const uint32_t size = random_.OneOf<uint32_t>({0, 1, mtu, mtu, mtu + 1, 5000});
    packet.payload = std::span(kPayload).first(size);
    header.reth.length_bytes = random_.OneOf<uint32_t>({size, 2 * mtu, 3 * mtu, 0xffffffff});
    return packet;
  }

  void Receive() {
    const uint32_t room = random_.OneOf<uint32_t>({7, 300, 10'000});
    shell_.Receive(MakePacket(), {.receive_bytes = random_.Happens(800) ? room : 0,
                                  .receive_malformed = random_.Happens(5),
                                  .effect_fails = random_.Happens(10)});
  }

  Random random_;
  HostileShell<QueuePair> shell_;
  wire::Psn next_psn_;
};

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
