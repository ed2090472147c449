// SPDX-License-Identifier: Apache-2.0
// Measures the cost of registering memory for the application, without the daemon's part.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "verbs-shim/memory/memory.h"

namespace uroce::memory {
namespace {

int CreateSegment(void*, const uroce_create_segment&, SegmentGrant& grant) {
  grant.memfd = memfd_create(UROCE_SEGMENT_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  grant.handle = 1;
  if (ftruncate(grant.memfd, 1ll << 40) != 0) return ENOMEM;
  return fcntl(grant.memfd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
}

Daemon MakeDaemon() {
  static int connection;
  return {.connection = &connection,
          .userfaultfd_device = -1,
          .create_segment = CreateSegment,
          .destroy_segment = [](void*, uint32_t) { return 0; },
          .register_region = [](void*, const uroce_reg_mr&, const uroce_mr_segment*,
                                uroce_reg_mr_reply&) { return 0; },
          .deregister_region = [](void*, uint32_t) { return 0; },
          .send_memory_fd = [](void*, int) { return 0; },
          .open_copies = [](void*) { return EOPNOTSUPP; },
          .share_file = [](void*, const SharedFile&, SharedGrant&) { return EOPNOTSUPP; }};
}

char* MapPages(size_t bytes, bool touch) {
  void* pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (touch) memset(pages, 1, bytes);
  return static_cast<char*>(pages);
}

MemoryRequest RequestFor(const void* address, size_t bytes) {
  const auto addr = reinterpret_cast<uint64_t>(address);
  return {.pd = 1, .access = 7, .addr = addr, .length = bytes, .iova = addr};
}

/// Registers fresh pages each time; `touch`: the program wrote to them before.
void Register(benchmark::State& state, bool touch) {
  const auto bytes = static_cast<size_t>(state.range(0));
  const Daemon daemon = MakeDaemon();
  for (auto _ : state) {
    state.PauseTiming();
    char* pages = MapPages(bytes, touch);
    MemoryRegistration mr = {};
    state.ResumeTiming();
    if (RegisterMemory(daemon, RequestFor(pages, bytes), mr) != 0) abort();
    state.PauseTiming();
    if (DeregisterMemory(daemon, mr) != 0) abort();
    munmap(pages, bytes);
    state.ResumeTiming();
  }
}

void BM_RegisterTouched(benchmark::State& state) { Register(state, true); }
void BM_RegisterUntouched(benchmark::State& state) { Register(state, false); }
BENCHMARK(BM_RegisterTouched)->Arg(4 << 10)->Arg(64 << 10)->Arg(1 << 20)->Arg(64 << 20);
BENCHMARK(BM_RegisterUntouched)->Arg(4 << 10)->Arg(64 << 10)->Arg(1 << 20)->Arg(64 << 20);

/// The cost for a program that registers the same buffer for each use of it.
void BM_RegisterAndDeregister(benchmark::State& state) {
  const auto bytes = static_cast<size_t>(state.range(0));
  const Daemon daemon = MakeDaemon();
  char* pages = MapPages(bytes, true);
  for (auto _ : state) {
    MemoryRegistration mr = {};
    if (RegisterMemory(daemon, RequestFor(pages, bytes), mr) != 0) abort();
    if (DeregisterMemory(daemon, mr) != 0) abort();
  }
  munmap(pages, bytes);
}
BENCHMARK(BM_RegisterAndDeregister)->Arg(4 << 10)->Arg(1 << 20)->Arg(1 << 30);

/// A second region over pages that already are a segment.
void BM_RegisterAgain(benchmark::State& state) {
  const Daemon daemon = MakeDaemon();
  char* pages = MapPages(64 << 10, true);
  MemoryRegistration first = {}, second = {};
  if (RegisterMemory(daemon, RequestFor(pages, 64 << 10), first) != 0) abort();
  for (auto _ : state) {
    if (RegisterMemory(daemon, RequestFor(pages, 64 << 10), second) != 0) abort();
    if (DeregisterMemory(daemon, second) != 0) abort();
  }
  (void)DeregisterMemory(daemon, first);
  munmap(pages, 64 << 10);
}
BENCHMARK(BM_RegisterAgain);

/// The program's first write to every page after the registration.
void BM_TouchAfterRegister(benchmark::State& state) {
  const auto bytes = static_cast<size_t>(state.range(0));
  const Daemon daemon = MakeDaemon();
  for (auto _ : state) {
    state.PauseTiming();
    char* pages = MapPages(bytes, true);
    MemoryRegistration mr = {};
    if (RegisterMemory(daemon, RequestFor(pages, bytes), mr) != 0) abort();
    state.ResumeTiming();
    for (size_t i = 0; i < bytes; i += 4096) pages[i] = 2;
    state.PauseTiming();
    if (DeregisterMemory(daemon, mr) != 0) abort();
    munmap(pages, bytes);
    state.ResumeTiming();
  }
}
BENCHMARK(BM_TouchAfterRegister)->Arg(1 << 20)->Iterations(100);

}  // namespace
}  // namespace uroce::memory
