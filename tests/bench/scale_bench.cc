// SPDX-License-Identifier: Apache-2.0
// One worker over the in-process wire, with 1 to 10,000 connected queue pairs that all send WRITEs
// of 4 KB, and with one queue pair of one program against a thousand of another. Both ends of each
// connection are on the worker; the program's posts and polls are not counted.
//
//   scale_bench [ROUNDS]
#include <time.h>
#include <x86intrin.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "drivers/wire_port.h"
#include "tests/datapath/testbed.h"

namespace uroce::datapath {
namespace {

constexpr uint8_t kWrite = 0;
constexpr uint32_t kLength = 4096;
constexpr size_t kBufferBytes = 1 << 20;  // Payload stays in cache: the crowd is what is measured.
constexpr Nanos kRound{300'000'000};
constexpr int kTurnsPerLook = 64;

/// Of this thread alone: others on a busy machine do not count.
Nanos Now() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return Nanos(int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec);
}

/// The queue pairs of one program, each with `depth` messages posted at any time, on one CQ.
class Crowd {
 public:
  Crowd(Testbed* bed, Session* session, uint32_t count, uint32_t depth)
      : bed_(*bed), entries_(std::bit_ceil(count * depth)) {
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

  /// Posts anew what is complete.
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
    const uint64_t offset = next_++ * kLength % (kBufferBytes - kLength);
    senders_[sender]->PostSend({.opcode = kWrite,
                                .list = {Testbed::Sge(*region_, offset, kLength)},
                                .remote_addr = region_->iova + offset,
                                .rkey = region_->key});
  }

  Testbed& bed_;
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
    bed.attributes.path_mtu_bytes = kLength;
    bed.attributes.timeout = 20;  // 4.3 s: nothing is lost here.
  }
  ~Scene() { bed.RemoveEndpoints(); }

  /// Turns for a while; messages of each crowd per second of the worker.
  std::vector<double> Run() {
    std::vector<uint64_t> before;
    for (const auto& crowd : crowds) before.push_back(crowd->completed());
    const Nanos start = Now();
    Nanos end = start;
    uint64_t worker_ticks = 0;
    const uint64_t first_tick = __rdtsc();
    while (end - start < kRound) {
      for (int i = 0; i < kTurnsPerLook; ++i) {
        const uint64_t turn = __rdtsc();
        bed.Turn();
        worker_ticks += __rdtsc() - turn;
        for (const auto& crowd : crowds) crowd->Refill();
      }
      end = Now();
    }
    const double share =
        static_cast<double>(worker_ticks) / static_cast<double>(__rdtsc() - first_tick);
    const double seconds = share * static_cast<double>((end - start).count()) / 1e9;
    std::vector<double> rates;
    for (size_t i = 0; i < crowds.size(); ++i) {
      rates.push_back(static_cast<double>(crowds[i]->completed() - before[i]) / seconds);
    }
    return rates;
  }

  drivers::Wire wire = (TestPool(), drivers::MakeWire({}, {}).value());
  Testbed bed{{wire.first.get(), wire.second.get()}};
  std::vector<std::unique_ptr<Crowd>> crowds;
};

void Scale(int rounds) {
  constexpr uint32_t kCounts[] = {1, 100, 1000, 10000};
  std::vector<std::unique_ptr<Scene>> scenes;
  std::vector<double> best;
  for (const uint32_t count : kCounts) {
    scenes.push_back(std::make_unique<Scene>());
    Scene& scene = *scenes.back();
    scene.crowds.push_back(
        std::make_unique<Crowd>(&scene.bed, scene.bed.session.get(), count, count == 1 ? 64 : 16));
    best.push_back(scene.Run()[0]);  // Warms up.
  }
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < scenes.size(); ++i) best[i] = std::max(best[i], scenes[i]->Run()[0]);
  }
  for (size_t i = 0; i < scenes.size(); ++i) {
    printf("%6u queue pairs, WRITEs of %u bytes: %5.2f M/s, %5.1f Gb/s, %3.0f %% of one\n",
           kCounts[i], kLength, best[i] / 1e6, best[i] * kLength * 8 / 1e9,
           100 * best[i] / best[0]);
  }
}

void Share() {
  Scene scene;
  scene.crowds.push_back(std::make_unique<Crowd>(&scene.bed, scene.bed.session.get(), 1, 64));
  scene.crowds.push_back(std::make_unique<Crowd>(&scene.bed, &scene.bed.AddSession(), 1000, 2));
  scene.Run();
  const std::vector<double> rates = scene.Run();
  printf("1 queue pair of one program against 1000 of another: %.1f %% and %.1f %% of the bytes\n",
         100 * rates[0] / (rates[0] + rates[1]), 100 * rates[1] / (rates[0] + rates[1]));
}

}  // namespace
}  // namespace uroce::datapath

int main(int argc, char** argv) {
  uroce::datapath::Scale(argc > 1 ? atoi(argv[1]) : 3);
  uroce::datapath::Share();
}
