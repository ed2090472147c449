// SPDX-License-Identifier: Apache-2.0
// Compares the kernels that copy payload with memcpy: within the first-level cache, and from memory
// to memory. The source begins where payload begins in a frame.
#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <cstring>

#include "pipeline/datapath/queue/payload.h"

namespace uroce::datapath {
namespace {

constexpr size_t kAreaBytes = size_t{256} << 20;
// Ethernet, IPv4, UDP, BTH and RETH.
constexpr size_t kPayloadOffset = 70;
constexpr size_t kPageBytes = 4096;

/// Two areas; the second one is the destination.
uint8_t* Memory() {
  static uint8_t* const memory = [] {
    void* const area =
        mmap(nullptr, 2 * kAreaBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(area, 2 * kAreaBytes, MADV_HUGEPAGE);
    memset(area, 1, 2 * kAreaBytes);
    return static_cast<uint8_t*>(area);
  }();
  return memory;
}

void ByMemcpy(uint8_t* to, const uint8_t* from, size_t length_bytes) {
  memcpy(to, from, length_bytes);
}

/// Copies from and to a place `step_bytes` further on each time.
void CopyAgainAndAgain(benchmark::State& state, const OrderedCopyKernel& kernel,
                       size_t step_bytes) {
  const auto length = static_cast<size_t>(state.range(0));
  const auto to_offset = static_cast<size_t>(state.range(1));
  size_t at = 0;
  for ([[maybe_unused]] auto iteration : state) {
    uint8_t* const to = Memory() + at + to_offset;
    kernel.copy(to, Memory() + kAreaBytes + at + kPayloadOffset, length);
    benchmark::ClobberMemory();
    at = (at + step_bytes) % (kAreaBytes - 4 * kPageBytes);
    at -= at % 64;
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void Register(const OrderedCopyKernel& kernel) {
  // Copies the same bytes repeatedly, half a page apart: addresses with equal low bits cost time.
  const auto cached = [kernel](benchmark::State& state) { CopyAgainAndAgain(state, kernel, 0); };
  const auto memory = [kernel](benchmark::State& state) {
    CopyAgainAndAgain(state, kernel, 7 * kPageBytes + 2112);
  };
  const std::string name = kernel.name;
  benchmark::RegisterBenchmark(("BM_Cached/" + name).c_str(), cached)
      ->ArgsProduct({{8, 64, 256, 1024, 4096, 8192}, {0, 8}});
  benchmark::RegisterBenchmark(("BM_Memory/" + name).c_str(), memory)
      ->ArgsProduct({{8, 64, 256, 1024, 4096, 8192}, {0, 8}});
}

}  // namespace
}  // namespace uroce::datapath

int main(int argc, char** argv) {
  uroce::datapath::Register({"memcpy", uroce::datapath::ByMemcpy});
  for (const auto& kernel : uroce::datapath::AvailableOrderedCopyKernels()) {
    uroce::datapath::Register(kernel);
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
