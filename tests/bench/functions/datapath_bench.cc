// SPDX-License-Identifier: Apache-2.0
// Measures a worker's whole loop over the in-process wire, with both ends of the connection and the
// program's posts and polls on one core: what a core can carry, without the cost of crossing cores.
#include <benchmark/benchmark.h>
#include <malloc.h>

#include <algorithm>
#include <vector>

#include "tests/bench/functions/wire_loop.h"

namespace uroce::datapath {
namespace {

void Messages(benchmark::State& state, uint8_t opcode, bool leaves_icrc_out = false) {
  const auto length = static_cast<uint32_t>(state.range(0));
  const auto depth = static_cast<uint32_t>(state.range(1));
  WireLoop loop(std::max<size_t>(length, 4096));
  if (leaves_icrc_out) loop.LeaveIcrcOut();
  for ([[maybe_unused]] auto iteration : state) loop.Move(opcode, length, depth, depth * 8);
  const double messages = static_cast<double>(state.iterations()) * depth * 8;
  state.counters["msg/s"] = benchmark::Counter(messages, benchmark::Counter::kIsRate);
  state.counters["Gb/s"] =
      benchmark::Counter(messages * length * 8 / 1e9, benchmark::Counter::kIsRate);
}

void BM_Write(benchmark::State& state) { Messages(state, WireLoop::kWrite); }
void BM_Read(benchmark::State& state) { Messages(state, WireLoop::kRead); }
void BM_Send(benchmark::State& state) { Messages(state, WireLoop::kSend); }
BENCHMARK(BM_Write)->Args({8, 1})->Args({64, 1})->Args({64, 32})->Args({64, 128});
BENCHMARK(BM_Write)->Args({4096, 32})->Args({65536, 16})->Args({1 << 20, 4});
BENCHMARK(BM_Send)->Args({64, 1})->Args({64, 32})->Args({64, 128});
BENCHMARK(BM_Read)->Args({64, 32})->Args({65536, 16})->Args({1 << 20, 4});

/// Without ICRC, as frames between NICs of one daemon are.
void Inside(benchmark::State& state, uint8_t opcode) { Messages(state, opcode, true); }
BENCHMARK_CAPTURE(Inside, write, WireLoop::kWrite)->Args({64, 1})->Args({64, 32})->Args({64, 128});
BENCHMARK_CAPTURE(Inside, write, WireLoop::kWrite)->Args({4096, 32})->Args({65536, 16});
BENCHMARK_CAPTURE(Inside, write, WireLoop::kWrite)->Args({1 << 20, 4});
BENCHMARK_CAPTURE(Inside, send, WireLoop::kSend)->Args({64, 32})->Args({65536, 16});
BENCHMARK_CAPTURE(Inside, read, WireLoop::kRead)->Args({64, 32})->Args({65536, 16});

/// With the packet history on both ends; compare with BM_Write of the same arguments.
void BM_WriteRecorded(benchmark::State& state) {
  const auto length = static_cast<uint32_t>(state.range(0));
  const auto depth = static_cast<uint32_t>(state.range(1));
  WireLoop loop(std::max<size_t>(length, 4096));
  loop.RecordHistories();
  for ([[maybe_unused]] auto iteration : state)
    loop.Move(WireLoop::kWrite, length, depth, depth * 8);
  state.counters["msg/s"] = benchmark::Counter(static_cast<double>(state.iterations()) * depth * 8,
                                               benchmark::Counter::kIsRate);
}
BENCHMARK(BM_WriteRecorded)->Args({64, 32})->Args({65536, 16});

/// With congestion control that has nothing to do; compare the profiles, and `off`, in one run.
void Controlled(benchmark::State& state, congestion::Profile profile, bool is_paced) {
  const auto length = static_cast<uint32_t>(state.range(0));
  const auto depth = static_cast<uint32_t>(state.range(1));
  WireLoop loop(std::max<size_t>(length, 4096), profile);
  if (is_paced) loop.Pace();
  for ([[maybe_unused]] auto iteration : state)
    loop.Move(WireLoop::kWrite, length, depth, depth * 8);
  const uint32_t packets = depth * 8 * ((length + 4095) / 4096);
  state.counters["packets/s"] = benchmark::Counter(
      static_cast<double>(state.iterations()) * packets, benchmark::Counter::kIsRate);
}
using congestion::Profile;
BENCHMARK_CAPTURE(Controlled, off, Profile::kOff, false)->Args({64, 32})->Args({65536, 16});
BENCHMARK_CAPTURE(Controlled, dcqcn, Profile::kDcqcn, false)->Args({64, 32})->Args({65536, 16});
BENCHMARK_CAPTURE(Controlled, delay, Profile::kDelay, false)->Args({64, 32})->Args({65536, 16});
BENCHMARK_CAPTURE(Controlled, paced, Profile::kDcqcn, true)->Args({64, 32})->Args({65536, 16});

/// A turn that finds no work: the cost of polling.
void BM_EmptyTurn(benchmark::State& state) {
  TestPool();
  Testbed bed;
  for ([[maybe_unused]] auto iteration : state) bed.Turn();
}
BENCHMARK(BM_EmptyTurn);

/// The same beside programs that do nothing, each with two connected queue pairs: parked, or polled
/// all the time. A turn takes some 40 ns of the worker's time, which says how often it looks
/// around.
void BM_TurnBesideIdlePrograms(benchmark::State& state) {
  TestPool();
  const bool parks = state.range(1) != 0;
  Testbed bed({nullptr, nullptr}, 1, parks ? Nanos(100'000) : kNever);
  bed.Turn();  // From here on the worker's time is the testbed's.
  for (int64_t i = 0; i < state.range(0); ++i) {
    const Endpoint::Limits limits{.has_events = false, .session = &bed.AddSession()};
    bed.Connect(bed.AddEndpoint(0, limits), bed.AddEndpoint(1, limits));
  }
  for (int i = 0; i < 10; ++i) bed.Turn(Nanos(100'000));
  for ([[maybe_unused]] auto iteration : state) bed.Turn(Nanos(40));
}
BENCHMARK(BM_TurnBesideIdlePrograms)->ArgsProduct({{0, 100, 1000}, {1}})->Args({1000, 0});

/// Heap of the worker for one connected queue pair of 128 + 128 work requests of one SGE. Rings and
/// pages in the arena come on top: 8 KB, 4 KB and what the allocator of the arena rounds up to.
void BM_QueuePairMemory(benchmark::State& state) {
  TestPool();
  Testbed bed;
  QueuePairConfig config;
  uroce_qp_page page{};
  config.page = &page;
  config.sq_depth = config.rq_depth = 128;
  config.max_send_sge = config.max_receive_sge = 1;
  size_t bytes = 0;
  for ([[maybe_unused]] auto iteration : state) {
    const size_t before = mallinfo2().uordblks;
    auto qp = std::make_unique<QueuePair>(config);
    bytes = mallinfo2().uordblks - before;
  }
  state.counters["heap_bytes"] = static_cast<double>(bytes);
  state.counters["sizeof"] = sizeof(QueuePair);
}
BENCHMARK(BM_QueuePairMemory)->Iterations(3);

}  // namespace
}  // namespace uroce::datapath
