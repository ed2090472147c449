// SPDX-License-Identifier: Apache-2.0
// Compares one worker with two. Each is a thread with its own queue pairs that send WRITEs of 64 B
// over the in-process wire, and posts and polls itself: the gain of a second core.
//
//   workers_bench [PAIRS]
//   workers_bench turns WORKERS own|across
//   workers_bench one-way
//
// "turns": one thread runs turns of all workers, so that instructions can be counted, which other
// load does not disturb: valgrind --tool=callgrind --collect-atstart=no
// --toggle-collect='uroce::datapath::Worker::RunOnce*', divided by the messages. `run-scale --only
// cores` does that for 1 to 16 workers.
// "one-way": one worker sends WRITEs of 64 KiB to the other, both in one thread, each turn in its
// own function, by which tests/tree/modules-on-the-way tells the ends apart. "own": both ends of a
// connection on one worker. "across": the ends on different workers, so that every frame changes
// cores. On a machine with other load, read the thread's time per message, which excludes the time
// of others; the rate needs cores that are free.
#include <rte_lcore.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "drivers/cable/cable_port.h"
#include "tests/datapath/testbed.h"

namespace uroce::datapath {
namespace {

constexpr uint8_t kWrite = 0;
constexpr uint32_t kLength = 64;
constexpr uint32_t kLongLength = 65536;
constexpr uint32_t kQueuePairs = 4;  // Of each worker.
constexpr uint32_t kDepth = 64;
constexpr auto kStretch = std::chrono::milliseconds(30);
constexpr int kTurnsPerLook = 256;

int64_t ThreadNanoseconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

/// Of one worker or of all: the messages, and the time that they took.
struct Cost {
  uint64_t messages = 0;
  int64_t thread_ns = 0;
  double seconds = 0;

  double rate() const { return static_cast<double>(messages) / seconds; }
  double ns_each() const { return static_cast<double>(thread_ns) / static_cast<double>(messages); }
};

/// The messages of one worker.
class Load {
 public:
  Load(Testbed* bed, uint32_t worker, uint32_t peer, uint32_t length_bytes = kLength)
      : worker_(bed->workers->at(worker)),
        length_bytes_(length_bytes),
        bytes_(Pattern(size_t{2} * length_bytes, 1)) {
    for (uint32_t i = 0; i < kQueuePairs; ++i) {
      senders_.push_back(&bed->AddEndpoint(0, {.sq_depth = kDepth, .max_inline = 0}, worker));
      bed->Connect(*senders_.back(), bed->AddEndpoint(1, {}, peer));
    }
    region_ = &bed->Register(bytes_.data(), bytes_.size(), kAllAccess, MrMode::kMapped);
    for (Endpoint* sender : senders_) {
      sender->hold_bell = true;
      Post(*sender, kDepth);
    }
  }

  /// Runs on the worker's thread, until `stop`.
  Cost Run(const std::atomic<bool>& stop) {
    // With a cache of frames, like the daemon's workers.
    const bool registered = rte_thread_register() == 0;
    Cost cost;
    const int64_t start = ThreadNanoseconds();
    while (!stop.load(std::memory_order_relaxed)) {
      for (int i = 0; i < kTurnsPerLook; ++i) cost.messages += Turn();
    }
    cost.thread_ns = ThreadNanoseconds() - start;
    if (registered) rte_thread_unregister();
    return cost;
  }

  /// The next turn begins later by `time`.
  void Skip(Nanos time) { now_ = now_ + time; }

  /// A turn of the worker, and new messages for those that are complete.
  uint64_t Turn() {
    now_ = now_ + Nanos(1000);
    // The worker found no work, and the other end may need this core.
    if (!worker_.RunOnce(now_)) sched_yield();
    uint64_t completed = 0;
    for (Endpoint* sender : senders_) {
      uint32_t count = 0;
      for (uroce_cqe cqe; sender->PollSend(cqe); ++count) {
        if (cqe.status != 0) abort();
      }
      if (count != 0) Post(*sender, count);
      completed += count;
    }
    return completed;
  }

 private:
  void Post(Endpoint& sender, uint32_t count) {
    for (; count != 0; --count) {
      sender.PostSend({.opcode = kWrite,
                       .list = {Testbed::Sge(*region_, 0, length_bytes_)},
                       .remote_addr = region_->iova + length_bytes_,
                       .rkey = region_->key});
    }
    sender.RingBell();
  }

  Worker& worker_;
  const uint32_t length_bytes_;
  std::vector<Endpoint*> senders_;
  std::vector<uint8_t> bytes_;
  MemoryRegion* region_ = nullptr;
  Nanos now_{1'000'000'000};
};

/// Some workers with their loads.
class Scene {
 public:
  Scene(uint32_t workers, bool across)
      : wire_(drivers::MakeCable({}, {}, {.queues = static_cast<uint16_t>(workers)}).value()),
        bed_({wire_.first.get(), wire_.second.get()}, workers) {
    bed_.attributes.path_mtu_bytes = 4096;
    bed_.attributes.timeout = 0;  // Nothing is lost here, even if a thread has no core for long.
    // The daemon's wires have no ICRC inside either, unless `icrc=always` says otherwise.
    for (const auto& device : bed_.devices) device->leaves_icrc_out = true;
    for (uint32_t worker = 0; worker < workers; ++worker) {
      const uint32_t peer = across ? (worker + 1) % workers : worker;
      loads_.push_back(std::make_unique<Load>(&bed_, worker, peer));
    }
  }
  ~Scene() { bed_.RemoveEndpoints(); }

  Cost Run() {
    std::atomic<bool> stop{false};
    std::vector<Cost> costs(loads_.size());
    std::vector<std::thread> threads;
    const auto start = std::chrono::steady_clock::now();
    for (size_t i = 0; i < loads_.size(); ++i) {
      threads.emplace_back([&, i] { costs[i] = loads_[i]->Run(stop); });
    }
    std::this_thread::sleep_for(kStretch);
    stop = true;
    for (std::thread& thread : threads) thread.join();
    Cost all;
    for (const Cost& cost : costs) {
      all.messages += cost.messages;
      all.thread_ns += cost.thread_ns;
    }
    all.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return all;
  }
  void Skip(Nanos time) {
    for (const auto& load : loads_) load->Skip(time);
  }
  /// The messages of `turns` turns of each worker.
  uint64_t RunTurns(int turns) {
    uint64_t messages = 0;
    for (; turns != 0; --turns) {
      for (const auto& load : loads_) messages += load->Turn();
    }
    return messages;
  }

 private:
  drivers::Cable wire_;
  Testbed bed_;
  std::vector<std::unique_ptr<Load>> loads_;
};

void Compare(const char* name, bool across, int pairs) {
  Scene one(1, false);
  Scene two(2, across);
  one.Run();
  two.Run();
  double best_ratio = 0;
  double first_rate = 0;
  double second_rate = 0;
  double first_ns = 1e9;
  double second_ns = 1e9;
  for (int i = 0; i < pairs; ++i) {
    const Cost first = one.Run();
    const Cost second = two.Run();
    first_rate = std::max(first_rate, first.rate());
    second_rate = std::max(second_rate, second.rate());
    best_ratio = std::max(best_ratio, second.rate() / first.rate());
    first_ns = std::min(first_ns, first.ns_each());
    second_ns = std::min(second_ns, second.ns_each());
  }
  printf("%-7s 1 worker: %5.2f M/s, %4.0f ns of thread each; 2 workers: %5.2f M/s, %4.0f ns\n",
         name, first_rate / 1e6, first_ns, second_rate / 1e6, second_ns);
  printf("%-7s 2 against 1: %.2f of the best rates, %.2f in the best pair, %.2f by thread time\n",
         "", second_rate / first_rate, best_ratio, 2 * first_ns / second_ns);
}

void RunTurns(uint32_t workers, bool across) {
  constexpr int kTurns = 4000;
  Scene scene(workers, across);
  uint64_t messages = 0;
  // Valgrind makes the first turns long, which a worker takes for waits for memory: it measures its
  // accesses for a hundred times as long (StallWatch), and delivers no packet without a frame
  // meanwhile. A skip ends that, but may itself look like a long turn, so the next one is longer.
  for (Nanos time(10'000'000'000); time < Nanos(1'000'000'000'000'000'000); time = time * 150) {
    constexpr int kFirstTurns = 20;
    messages += scene.RunTurns(kFirstTurns);
    scene.Skip(time);
  }
  messages += scene.RunTurns(kTurns);
  printf("%lu messages\n", messages);
}

[[gnu::noinline]] uint64_t SendersTurn(Load& load) { return load.Turn(); }
[[gnu::noinline]] void ReceiversTurn(Worker& worker, Nanos now) { worker.RunOnce(now); }

void RunOneWay() {
  constexpr int kTurns = 1000;
  const drivers::Cable wire = drivers::MakeCable({}, {}, {.queues = 2}).value();
  Testbed bed({wire.first.get(), wire.second.get()}, 2);
  bed.attributes.path_mtu_bytes = 4096;
  bed.attributes.timeout = 0;
  Load load(&bed, 0, 1, kLongLength);
  uint64_t messages = 0;
  Nanos now{1'000'000'000};
  for (int turn = 0; turn < kTurns; ++turn) {
    now = now + Nanos(1000);
    messages += SendersTurn(load);
    ReceiversTurn(bed.workers->at(1), now);
  }
  bed.RemoveEndpoints();
  printf("%lu messages\n", messages);
}

}  // namespace
}  // namespace uroce::datapath

int main(int argc, char** argv) {
  uroce::datapath::TestPool();
  if (argc == 4 && strcmp(argv[1], "turns") == 0) {
    uroce::datapath::RunTurns(static_cast<uint32_t>(atoi(argv[2])), strcmp(argv[3], "across") == 0);
    return 0;
  }
  if (argc == 2 && strcmp(argv[1], "one-way") == 0) {
    uroce::datapath::RunOneWay();
    return 0;
  }
  const int pairs = argc > 1 ? atoi(argv[1]) : 20;
  uroce::datapath::Compare("own", false, pairs);
  uroce::datapath::Compare("across", true, pairs);
}
