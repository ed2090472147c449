// SPDX-License-Identifier: Apache-2.0
// Two ends of a reliable connection over a faulty wire, in virtual time, from a seed.
// UROCE_SIM_SEED=N replays one seed; UROCE_SIM_COUNT=N runs that many.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>

#include "tests/sim/endpoint.h"

namespace uroce::sim {
namespace {

constexpr uint64_t kDefaultSeeds = 200;
constexpr Nanos kLongestRun{60'000'000'000};
constexpr uint32_t kDataBytes = 600'000;

/// A whole run: both ends post a workload of their own, and serve the other's.
class Simulation {
 public:
  explicit Simulation(uint64_t seed)
      : random_(seed),
        faults_{.drop = random_.OneOf<uint32_t>({0, 0, 5, 20, 50}),
                .duplicate = random_.OneOf<uint32_t>({0, 0, 10, 50}),
                .delay = random_.OneOf<uint32_t>({0, 0, 20, 100})},
        to_b_(faults_, random_.Next()),
        to_a_(faults_, random_.Next()),
        memory_a_(kDataBytes, Rkey(0x1a), random_),
        memory_b_(kDataBytes, Rkey(0x2b), random_),
        config_{.signal_all = random_.Happens(300),
                .max_send_works = random_.OneOf<uint32_t>({4, 16, 128}),
                .max_in_flight_packets = random_.OneOf<uint32_t>({1, 2, 9, 64, 256})},
        a_(config_, memory_a_, random_.Next()),
        b_(config_, memory_b_, random_.Next()) {
    Connect();
    const WorkloadConfig workload{.path_mtu = path_mtu_, .signal_all = config_.signal_all};
    plan_a_ = MakeWorkload(workload, memory_b_, random_);
    plan_b_ = MakeWorkload(workload, memory_a_, random_);
    if (random_.Happens(300)) plan_b_ = {};  // One side only serves.
    a_.SetWorkload(&plan_a_, &plan_b_);
    b_.SetWorkload(&plan_b_, &plan_a_);
  }

  /// Empty when all went well.
  std::string Run() {
    Nanos now;
    while (true) {
      if (now > kLongestRun) return "hang: a " + a_.Describe() + "; b " + b_.Describe();
      const Nanos next_a = a_.Turn(now, to_a_, to_b_);
      const Nanos next_b = b_.Turn(now, to_b_, to_a_);
      if (!a_.fault().empty()) return "a: " + a_.fault() + "; " + a_.Describe();
      if (!b_.fault().empty()) return "b: " + b_.fault() + "; " + b_.Describe();
      if (a_.finished() && b_.finished()) break;
      const Nanos wire = std::min(to_a_.NextArrival(), to_b_.NextArrival());
      const Nanos next = std::min({next_a, next_b, wire});
      if (next == kNever)
        return "nothing will ever happen: a " + a_.Describe() + "; b " + b_.Describe();
      now = std::max(next, now + Nanos(1));
    }
    a_.CheckMemory(memory_b_);
    b_.CheckMemory(memory_a_);
    return a_.fault() + b_.fault();
  }

  const transport::RcCounters& counters() const { return a_.counters(); }

 private:
  void Connect() {
    // Often so near to the end of the PSN space that it wraps.
    const wire::Psn psn_a(
        random_.OneOf<uint32_t>({0xffffff, 0xffffe0, 0x7ffff0, random_.Below(1 << 24)}));
    const wire::Psn psn_b(random_.OneOf<uint32_t>({0xffffff, 0xffff80, random_.Below(1 << 24)}));
    path_mtu_ = random_.OneOf<uint32_t>({256, 256, 512, 1024, 4096});
    transport::RcAttributes attributes{.remote_write = true,
                                       .remote_read = true,
                                       .remote_atomic = true,
                                       .path_mtu_bytes = path_mtu_,
                                       .rq_psn = psn_b,
                                       .sq_psn = psn_a,
                                       .max_rd_atomic = random_.OneOf<uint8_t>({1, 2, 5, 16}),
                                       .max_dest_rd_atomic = 16,
                                       .min_rnr_timer = random_.OneOf<uint8_t>({1, 6, 12}),
                                       .timeout = 8,
                                       .retry_count = 7,
                                       .rnr_retry = 7};
    // Just as many as the peer sends, or room to spare.
    if (random_.Happens(700)) attributes.max_dest_rd_atomic = attributes.max_rd_atomic;
    a_.Connect(attributes);
    std::swap(attributes.rq_psn, attributes.sq_psn);
    b_.Connect(attributes);
  }

  Random random_;
  LinkFaults faults_;
  Link to_b_;
  Link to_a_;
  RemoteMemory memory_a_;
  RemoteMemory memory_b_;
  transport::RcConfig config_;
  Endpoint a_;
  Endpoint b_;
  uint32_t path_mtu_ = 1024;
  Workload plan_a_;
  Workload plan_b_;
};

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 0);
}

TEST(RcSimulation, EveryWorkIsExecutedExactlyOnceAndInOrder) {
  const bool replay = std::getenv("UROCE_SIM_SEED") != nullptr;
  const uint64_t first = FromEnvironment("UROCE_SIM_SEED", 1);
  const uint64_t count = replay ? 1 : FromEnvironment("UROCE_SIM_COUNT", kDefaultSeeds);
  uint64_t retransmitted = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    Simulation simulation(seed);
    const std::string fault = simulation.Run();
    EXPECT_EQ(fault, "") << "replay with UROCE_SIM_SEED=" << seed;
    retransmitted += simulation.counters().retransmitted_pkts;
  }
  // A wire that never fails proves nothing.
  if (!replay) {
    EXPECT_GT(retransmitted, 0u);
  }
}

}  // namespace
}  // namespace uroce::sim
