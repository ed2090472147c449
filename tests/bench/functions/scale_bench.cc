// SPDX-License-Identifier: Apache-2.0
// One worker over the in-process wire, with 1 to 10,000 connected queue pairs that all send WRITEs
// of 64 B or 4 KB, and with one queue pair of one program against a thousand of another. Both ends
// of each connection are on the worker; the program's posts and polls are not counted.
//
//   scale_bench [ROUNDS [DEPTH [COUNT]]]
//
// DEPTH: the messages that each of several queue pairs has posted. COUNT: only that many queue
// pairs, and 10; to be profiled.
#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "drivers/cable/cable_port.h"
#include "pipeline/base/cpu.h"
#include "tests/datapath/testbed.h"

namespace uroce::datapath {
namespace {

constexpr uint8_t kWrite = 0;
constexpr uint32_t kPathMtu = 4096;
constexpr uint32_t kReference = 10;       // Queue pairs whose rate the others are compared with.
constexpr size_t kBufferBytes = 1 << 20;  // Payload stays in cache: the crowd is what is measured.
constexpr int kTurnsPerStretch = 64;      // About a millisecond.
constexpr int kStretches = 20;
constexpr int kWarmUp = 300;

/// The queue pairs of one program, each with `depth` messages posted at all times, on one CQ.
class Crowd {
 public:
  Crowd(Testbed* bed, Session* session, uint32_t count, uint32_t depth, uint32_t length)
      : bed_(*bed), length_(length), entries_(std::bit_ceil(count * depth)) {
    const rings::CqeRingLayout layout{&ring_page_, entries_.data(),
                                      static_cast<uint32_t>(entries_.size())};
    const Endpoint::Limits sends{.sq_depth = std::bit_ceil(depth),
                                 .rq_depth = 1,
                                 .cq_depth = 1,
                                 .max_sge = 1,
                                 .max_inline = 0,
                                 .has_events = false,
                                 .session = session,
                                 .send_ring = &queue_.AddRing(0, layout)};
    const Endpoint::Limits receives{.sq_depth = 1,
                                    .rq_depth = 1,
                                    .cq_depth = 1,
                                    .max_sge = 1,
                                    .max_inline = 0,
                                    .has_events = false,
                                    .session = session};
    ring_ = rings::CqeConsumer(layout);
    for (uint32_t i = 0; i < count; ++i) senders_.push_back(&bed_.AddEndpoint(0, sends));
    for (uint32_t i = 0; i < count; ++i) {
      bed_.Connect(*senders_[i], bed_.AddEndpoint(1, receives));
    }
    region_ = &bed_.Register(buffer_.data(), buffer_.size(), kAllAccess, MrMode::kMapped);
    for (uint32_t message = 0; message < depth; ++message) {
      for (uint32_t i = 0; i < count; ++i) Post(i);
    }
  }

  /// Posts a new message for each complete one.
  void Refill() {
    while (const uroce_cqe* entry = ring_.Peek()) {
      if (entry->status != 0) abort();
      Post(entry->qp_handle - senders_.front()->qp->qpn().value());
      ring_.Advance();
      ++completed_;
    }
    ring_.Publish();
  }
  uint64_t completed() const { return completed_; }

 private:
  void Post(uint32_t sender) {
    const uint64_t offset = next_++ * length_ % (kBufferBytes - length_);
    senders_[sender]->PostSend({.opcode = kWrite,
                                .list = {Testbed::Sge(*region_, offset, length_)},
                                .remote_addr = region_->iova + offset,
                                .rkey = region_->key});
  }

  Testbed& bed_;
  const uint32_t length_;
  uroce_cq_page page_{};
  uroce_cq_ring_page ring_page_{};
  std::vector<uroce_cqe> entries_;
  CompletionQueue queue_{{.page = &page_}};
  rings::CqeConsumer ring_;
  std::vector<Endpoint*> senders_;
  std::vector<uint8_t> buffer_ = Pattern(kBufferBytes, 1);
  MemoryRegion* region_ = nullptr;
  uint64_t next_ = 0;
  uint64_t completed_ = 0;
};

/// A worker with two devices on a wire, and its crowds.
struct Scene {
  Scene() {
    bed.attributes.path_mtu_bytes = kPathMtu;
    bed.attributes.timeout = 20;  // 4.3 s: nothing is lost here.
  }
  ~Scene() { bed.RemoveEndpoints(); }

  uint64_t completed() const {
    uint64_t sum = 0;
    for (const auto& crowd : crowds) sum += crowd->completed();
    return sum;
  }
  /// Runs turns for a while; adds the worker's time per message of each stretch, in ticks, to
  /// `costs`.
  void Run(int stretches) {
    for (int stretch = 0; stretch < stretches; ++stretch) {
      const uint64_t before = completed();
      uint64_t ticks = 0;
      for (int i = 0; i < kTurnsPerStretch; ++i) {
        const uint64_t turn = cpu::ReadCounter();
        bed.Turn();
        ticks += cpu::ReadCounter() - turn;
        for (const auto& crowd : crowds) crowd->Refill();
      }
      costs.push_back(static_cast<double>(ticks) / static_cast<double>(completed() - before));
    }
  }
  /// In ticks per message: the 10th percentile, which other load disturbs least.
  double Cost() {
    const auto tenth = costs.begin() + static_cast<ptrdiff_t>(costs.size() / 10);
    std::ranges::nth_element(costs, tenth);
    return *tenth;
  }

  drivers::Cable wire = (TestPool(), drivers::MakeCable({}, {}).value());
  Testbed bed{{wire.first.get(), wire.second.get()}};
  std::vector<std::unique_ptr<Crowd>> crowds;
  std::vector<double> costs;
};

double TicksPerNanosecond() {
  const auto start = std::chrono::steady_clock::now();
  const uint64_t first = cpu::ReadCounter();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const auto ticks = static_cast<double>(cpu::ReadCounter() - first);
  return ticks /
         std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
}

void Scale(int rounds, uint32_t depth, uint32_t length, const std::vector<uint32_t>& counts) {
  std::vector<std::unique_ptr<Scene>> scenes;
  for (const uint32_t count : counts) {
    scenes.push_back(std::make_unique<Scene>());
    Scene& scene = *scenes.back();
    scene.crowds.push_back(std::make_unique<Crowd>(&scene.bed, scene.bed.session.get(), count,
                                                   count == 1 ? 64 : depth, length));
    scene.Run(kWarmUp);
    scene.costs.clear();
  }
  // The scenes take turns, so that load on the machine disturbs all of them alike.
  for (int round = 0; round < rounds; ++round) {
    for (const auto& scene : scenes) scene->Run(kStretches);
  }
  const double tick_ns = 1 / TicksPerNanosecond();
  const double reference = scenes[std::ranges::find(counts, kReference) - counts.begin()]->Cost();
  for (size_t i = 0; i < scenes.size(); ++i) {
    const double ns = scenes[i]->Cost() * tick_ns;
    printf("%6u queue pairs, WRITEs of %u bytes: %4.0f ns each, %5.1f Gb/s, %3.0f %% of %u\n",
           counts[i], length, ns, length * 8 / ns, 100 * reference / scenes[i]->Cost(), kReference);
  }
}

void Share() {
  Scene scene;
  scene.crowds.push_back(
      std::make_unique<Crowd>(&scene.bed, scene.bed.session.get(), 1, 64, kPathMtu));
  scene.crowds.push_back(
      std::make_unique<Crowd>(&scene.bed, &scene.bed.AddSession(), 1000, 2, kPathMtu));
  scene.Run(kWarmUp);
  const uint64_t first = scene.crowds[0]->completed();
  const uint64_t all = scene.completed();
  scene.Run(kWarmUp);
  const double share = static_cast<double>(scene.crowds[0]->completed() - first) /
                       static_cast<double>(scene.completed() - all);
  printf("1 queue pair of one program against 1000 of another: %.1f %% and %.1f %% of the bytes\n",
         100 * share, 100 - 100 * share);
}

}  // namespace
}  // namespace uroce::datapath

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? atoi(argv[1]) : 10;
  const auto depth = static_cast<uint32_t>(argc > 2 ? atoi(argv[2]) : 16);
  using uroce::datapath::kReference;
  std::vector<uint32_t> counts = {1, kReference, 100, 1000, 10000};
  if (argc > 3) counts = {kReference, static_cast<uint32_t>(atoi(argv[3]))};
  for (const uint32_t length : {64u, 4096u}) uroce::datapath::Scale(rounds, depth, length, counts);
  uroce::datapath::Share();
}
