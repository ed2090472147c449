// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "tests/gpu/memory_kinds/tests.h"

namespace uroce::memory_kinds {
namespace {

constexpr size_t kBytes = 256 << 10;

/// A kind of memory that the driver makes, or only registers.
struct Kind {
  const char* name;
  bool is_registered;  ///< Ordinary memory that cuMemHostRegister may get.
  bool is_managed;
  unsigned flags;
};

constexpr Kind kKinds[] = {
    {"cudaHostAlloc", false, false, 0},
    {"cudaHostAlloc, portable", false, false, kHostPortable},
    {"cudaHostAlloc, mapped", false, false, kHostDeviceMap},
    {"cudaHostAlloc, write-combined", false, false, kHostWriteCombined},
    {"cudaMallocManaged", false, true, 0},
};

CUresult Make(const Kind& kind, uint64_t* address) {
  const Api& api = TheApi();
  if (kind.is_managed) return api.cuMemAllocManaged(address, kBytes, kAttachGlobal);
  void* memory = nullptr;
  const CUresult result = api.cuMemHostAlloc(&memory, kBytes, kind.flags);
  *address = reinterpret_cast<uint64_t>(memory);
  return result;
}

CUresult Free(const Kind& kind, uint64_t address) {
  const Api& api = TheApi();
  return kind.is_managed ? api.cuMemFree(address)
                         : api.cuMemFreeHost(reinterpret_cast<void*>(address));
}

std::string Cell(By writer, const char* what, By reader) {
  const auto name = [](By by) { return by == By::kCpu ? "CPU" : "GPU"; };
  return std::string(name(writer)) + " " + what + " " + name(reader);
}

/// What one of CPU and GPU writes the other reads: there is one memory.
void CheckBoth(Bench& bench, const std::string& memory, const std::string& order,
               uint64_t address) {
  for (const By writer : {By::kCpu, By::kGpu}) {
    const By reader = writer == By::kCpu ? By::kGpu : By::kCpu;
    const Bytes pattern = bench.NextPattern(kBytes);
    WriteBytes(writer, address, pattern, false);
    bench.table.Add(memory, order, Cell(writer, "to", reader),
                    Difference(ReadBytes(reader, address, kBytes, false), pattern));
  }
}

void CheckNic(Bench& bench, const std::string& memory, const std::string& order, ibv_mr* mr,
              By by) {
  const Place place = {mr, reinterpret_cast<uint64_t>(mr->addr)};
  const std::string name = by == By::kCpu ? "CPU" : "GPU";
  for (const Verb verb : kVerbs) {
    bench.table.Add(memory, order, name + " to NIC by " + NameOf(verb),
                    CheckOut(bench, verb, by, place, kBytes, false));
    bench.table.Add(memory, order, "NIC to " + name + " by " + NameOf(verb),
                    CheckIn(bench, verb, by, place, kBytes, false));
  }
}

void CheckAll(Bench& bench, const std::string& memory, const std::string& order, ibv_mr* mr) {
  CheckBoth(bench, memory, order, reinterpret_cast<uint64_t>(mr->addr));
  CheckNic(bench, memory, order, mr, By::kCpu);
  CheckNic(bench, memory, order, mr, By::kGpu);
}

void Deregister(Bench& bench, const std::string& memory, const std::string& order, ibv_mr* mr) {
  const int error = ibv_dereg_mr(mr);
  bench.table.Add(memory, order, "ibv_dereg_mr", error == 0 ? "" : std::strerror(error));
}

/// Memory that the driver makes: `frees_first` before ibv_dereg_mr.
void TestMade(Bench& bench, const Kind& kind, bool frees_first) {
  const std::string order = frees_first ? "made, ibv_reg_mr, freed, ibv_dereg_mr"
                                        : "made, ibv_reg_mr, ibv_dereg_mr, freed";
  uint64_t address = 0;
  const CUresult made = Make(kind, &address);
  if (made != kCudaSuccess) {
    bench.table.AddMissing(kind.name, order, "memory", NameOf(made));
    return;
  }
  ibv_mr* const mr = bench.network.Register(0, address, kBytes);
  if (mr == nullptr) {
    bench.table.Add(kind.name, order, "ibv_reg_mr", std::strerror(errno));
    Free(kind, address);
    return;
  }
  CheckAll(bench, kind.name, order, mr);
  if (!frees_first) {
    Deregister(bench, kind.name, order, mr);
    CheckBoth(bench, kind.name, order, address);
  }
  const CUresult freed = Free(kind, address);
  bench.table.Add(kind.name, order, "free", freed == kCudaSuccess ? "" : NameOf(freed));
  if (frees_first) Deregister(bench, kind.name, order, mr);
}

/// Ordinary memory under an order of registrations: which of both is first, and which ends first.
struct Order {
  const char* name;
  bool driver_begins;
  bool driver_ends;  ///< Before ibv_dereg_mr.
};

constexpr Order kOrders[] = {
    {"cudaHostRegister, ibv_reg_mr, ibv_dereg_mr, cudaHostUnregister", true, false},
    {"cudaHostRegister, ibv_reg_mr, cudaHostUnregister, ibv_dereg_mr", true, true},
    {"ibv_reg_mr, cudaHostRegister, ibv_dereg_mr, cudaHostUnregister", false, false},
    {"ibv_reg_mr, cudaHostRegister, cudaHostUnregister, ibv_dereg_mr", false, true},
};

bool RegisterWithDriver(Bench& bench, const char* memory, const Order& order, void* address) {
  const CUresult result = TheApi().cuMemHostRegister(address, kBytes, kHostPortable);
  if (result != kCudaSuccess) {
    bench.table.AddMissing(memory, order.name, "cudaHostRegister", NameOf(result));
  }
  return result == kCudaSuccess;
}

void EndWithDriver(Bench& bench, const char* memory, const Order& order, void* address) {
  const CUresult result = TheApi().cuMemHostUnregister(address);
  bench.table.Add(memory, order.name, "cudaHostUnregister",
                  result == kCudaSuccess ? "" : NameOf(result));
}

void TestOrder(Bench& bench, const char* memory, const Order& order, void* start) {
  const auto address = reinterpret_cast<uint64_t>(start);
  std::memset(start, 1, kBytes);
  if (order.driver_begins && !RegisterWithDriver(bench, memory, order, start)) return;
  ibv_mr* const mr = bench.network.Register(0, address, kBytes);
  bench.table.Add(memory, order.name, "ibv_reg_mr", mr != nullptr ? "" : std::strerror(errno));
  if (mr == nullptr) {
    if (order.driver_begins) TheApi().cuMemHostUnregister(start);
    return;
  }
  CheckNic(bench, memory, order.name, mr, By::kCpu);
  const bool has_both = order.driver_begins || RegisterWithDriver(bench, memory, order, start);
  if (has_both) CheckAll(bench, memory, order.name, mr);
  if (order.driver_ends) {
    if (has_both) EndWithDriver(bench, memory, order, start);
    CheckNic(bench, memory, order.name, mr, By::kCpu);
    Deregister(bench, memory, order.name, mr);
  } else {
    Deregister(bench, memory, order.name, mr);
    if (has_both) CheckBoth(bench, memory, order.name, address);
    if (has_both) EndWithDriver(bench, memory, order, start);
  }
  CheckBoth(bench, memory, order.name, address);  // The driver copies pageable memory too.
}

void TestOrdinary(Bench& bench, const char* memory, int flags, int fd) {
  for (const Order& order : kOrders) {
    void* const start = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, flags, fd, 0);
    if (start == MAP_FAILED) {
      bench.table.AddMissing(memory, order.name, "mmap", std::strerror(errno));
      continue;
    }
    TestOrder(bench, memory, order, start);
    munmap(start, kBytes);
  }
}

}  // namespace

void TestHostMemory(Bench& bench) {
  UsePrimary(0);
  for (const Kind& kind : kKinds) {
    TestMade(bench, kind, /*frees_first=*/false);
    TestMade(bench, kind, /*frees_first=*/true);
  }
  TestOrdinary(bench, "private pages", MAP_PRIVATE | MAP_ANONYMOUS, -1);
  TestOrdinary(bench, "shared pages", MAP_SHARED | MAP_ANONYMOUS, -1);
}

}  // namespace uroce::memory_kinds
