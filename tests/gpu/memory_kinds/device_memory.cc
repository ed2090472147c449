// SPDX-License-Identifier: Apache-2.0
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <functional>

#include "tests/gpu/memory_kinds/tests.h"

namespace uroce::memory_kinds {
namespace {

constexpr size_t kBytes = 4 << 20;
constexpr size_t kMostBytes = 64 << 20;
constexpr size_t kSizes[] = {1, 8, 100, 4096, 65536, (1 << 20) + 3};
constexpr size_t kOffsets[] = {0, 1, 13, 4092};
constexpr const char* kOrder = "made, ibv_reg_mr";

/// Memory of a device while it is tested.
struct Memory {
  uint64_t address = 0;
  size_t bytes = kBytes;
};

std::string WithSize(const std::string& wrong, size_t length, size_t offset) {
  if (wrong.empty()) return wrong;
  return wrong + " (" + std::to_string(length) + " B at offset " + std::to_string(offset) + ")";
}

/// All verbs both ways, and sizes at offsets.
void CheckMoves(Bench& bench, const std::string& memory, const std::string& order, ibv_mr* mr,
                uint64_t address, size_t bytes) {
  for (const Verb verb : kVerbs) {
    const auto check = [&](size_t length, size_t offset) {
      if (offset + length > bytes) return;
      const Place place = {mr, address + offset};
      bench.table.Add(
          memory, order, std::string("out by ") + NameOf(verb),
          WithSize(CheckOut(bench, verb, By::kGpu, place, length, true), length, offset));
      bench.table.Add(
          memory, order, std::string("in by ") + NameOf(verb),
          WithSize(CheckIn(bench, verb, By::kGpu, place, length, true), length, offset));
    };
    for (const size_t length : kSizes) {
      for (const size_t offset : kOffsets) check(length, offset);
    }
    if (bytes >= kMostBytes) check(kMostBytes, 0);
  }
}

/// Bytes around those that are written stay.
void CheckEdges(Bench& bench, const std::string& memory, const std::string& order, ibv_mr* mr,
                uint64_t address) {
  constexpr size_t kWhole = 16384;
  Bytes wanted = bench.NextPattern(kWhole);
  WriteBytes(By::kGpu, address, wanted, true);
  std::string failed;
  for (const size_t offset : {size_t{5}, size_t{4000}, size_t{9001}}) {
    const Bytes part = bench.NextPattern(offset / 3 + 1);
    bench.peer.Write(0, part);
    std::copy(part.begin(), part.end(), wanted.begin() + static_cast<long>(offset));
    if (failed.empty()) {
      failed = bench.network.Move(Verb::kWrite, 1, bench.peer.place(), {mr, address + offset},
                                  static_cast<uint32_t>(part.size()));
    }
  }
  if (failed.empty()) failed = Difference(ReadBytes(By::kGpu, address, kWhole, true), wanted);
  bench.table.Add(memory, order, "bytes around", failed);
}

void CheckAtomics(Bench& bench, const std::string& memory, const std::string& order, ibv_mr* mr,
                  uint64_t address) {
  const auto read = [&](uint64_t at) {
    uint64_t word = 0;
    std::memcpy(&word, ReadBytes(By::kGpu, at, sizeof(word), true).data(), sizeof(word));
    return word;
  };
  Bytes start(sizeof(uint64_t), 0);
  start[0] = 40;
  WriteBytes(By::kGpu, address + 8, start, true);
  std::string failed = bench.network.Atomic(1, false, bench.peer.place(), {mr, address + 8}, 2, 0);
  if (failed.empty()) failed = Difference(bench.peer.Read(0, 8), start);
  if (failed.empty() && read(address + 8) != 42) failed = "no sum";
  bench.table.Add(memory, order, "fetch and add", failed);
  failed = bench.network.Atomic(1, true, bench.peer.place(), {mr, address + 8}, 42, 7);
  if (failed.empty() && read(address + 8) != 7) failed = "not swapped";
  if (failed.empty()) {
    failed = bench.network.Atomic(1, true, bench.peer.place(), {mr, address + 8}, 42, 9);
  }
  if (failed.empty() && read(address + 8) != 7) failed = "swapped in spite of another value";
  bench.table.Add(memory, order, "compare and swap", failed);
}

/// Lists of SGEs in which memory of the host and of the device follow each other.
void CheckMixed(Bench& bench, const std::string& memory, const std::string& order, ibv_mr* mr,
                uint64_t address) {
  constexpr uint32_t kPart = 3001;
  constexpr size_t kParts = 4;
  static Bytes host(kPart * kParts);
  ibv_mr* const host_mr =
      bench.network.Register(0, reinterpret_cast<uint64_t>(host.data()), host.size());
  std::vector<ibv_sge> list;
  for (size_t i = 0; i < kParts; ++i) {
    const bool is_device = i % 2 == 1;
    const uint64_t start = is_device ? address : reinterpret_cast<uint64_t>(host.data());
    list.push_back({start + i * kPart, kPart, is_device ? mr->lkey : host_mr->lkey});
  }
  for (const Verb verb : kVerbs) {
    const Bytes pattern = bench.NextPattern(kPart * kParts);
    for (size_t i = 0; i < kParts; ++i) {
      const Bytes part(pattern.begin() + static_cast<long>(i * kPart),
                       pattern.begin() + static_cast<long>((i + 1) * kPart));
      WriteBytes(i % 2 == 1 ? By::kGpu : By::kCpu, list[i].addr, part, i % 2 == 1);
    }
    std::string failed;
    if (verb != Verb::kRead) {  // The requester's list is what a READ fills in.
      failed = bench.network.Gather(verb, 0, list, bench.peer.place());
      if (failed.empty()) failed = Difference(bench.peer.Read(0, pattern.size()), pattern);
      bench.table.Add(memory, order, std::string("mixed list out by ") + NameOf(verb), failed);
    }
    if (verb != Verb::kRead && verb != Verb::kSend) continue;
    const Bytes other = bench.NextPattern(kPart * kParts);
    bench.peer.Write(0, other);
    failed = bench.network.Scatter(verb, 1, bench.peer.place(), list);
    for (size_t i = 0; i < kParts && failed.empty(); ++i) {
      const Bytes part(other.begin() + static_cast<long>(i * kPart),
                       other.begin() + static_cast<long>((i + 1) * kPart));
      failed = Difference(
          ReadBytes(i % 2 == 1 ? By::kGpu : By::kCpu, list[i].addr, kPart, i % 2 == 1), part);
    }
    bench.table.Add(memory, order, std::string("mixed list in by ") + NameOf(verb), failed);
  }
  ibv_dereg_mr(host_mr);
}

/// A kernel that polls the last eight bytes of a message sees all others then.
void CheckOrder(Bench& bench, const std::string& memory, const std::string& order, ibv_mr* mr,
                uint64_t address) {
  const char* const what = "last eight bytes last";
  if (TheApi().uroceTestPoll == nullptr) {
    bench.table.AddMissing(memory, order, what, "needs a kernel of the driver for tests");
    return;
  }
  std::string failed;
  for (uint64_t round = 1; round <= 60 && failed.empty(); ++round) {
    const size_t length = 8 * (1 + round * round * 5 % 9000);
    Bytes pattern = bench.NextPattern(length);
    const uint64_t flag = round << 32 | 1;
    std::memcpy(pattern.data() + length - 8, &flag, sizeof(flag));
    bench.peer.Write(0, pattern);
    Bytes seen(length);
    WriteBytes(By::kGpu, address, Bytes(length, 0), true);
    Check(TheApi().uroceTestPoll(address + length - 8, flag, address, length, seen.data(), nullptr),
          "uroceTestPoll");
    failed = bench.network.Move(round % 2 == 0 ? Verb::kWrite : Verb::kSend, 1, bench.peer.place(),
                                {mr, address}, static_cast<uint32_t>(length));
    if (!failed.empty()) WriteBytes(By::kGpu, address, pattern, true);
    Check(TheApi().cuStreamSynchronize(nullptr), "cuStreamSynchronize");
    if (failed.empty()) failed = WithSize(Difference(seen, pattern), length, 0);
  }
  bench.table.Add(memory, order, what, failed);
}

/// NCCL waits for the bytes of a transfer by a small READ of a queue pair that is connected to
/// itself, from memory of the device to that of the host. Here, to the device too.
void CheckSelf(Bench& bench, const std::string& memory, const std::string& order, ibv_mr* mr,
               uint64_t address) {
  static Bytes host(kBytes / 2);
  const auto host_address = reinterpret_cast<uint64_t>(host.data());
  ibv_mr* const host_mr = bench.network.Register(0, host_address, host.size());
  std::string failed;
  for (const uint32_t length : {1u, 4096u, static_cast<uint32_t>(kBytes / 2)}) {
    const Bytes pattern = bench.NextPattern(length);
    WriteBytes(By::kGpu, address, pattern, true);
    const uint64_t behind = address + kBytes / 2;
    if (failed.empty()) {
      failed = bench.network.ReadFromSelf({mr, address}, {host_mr, host_address}, length);
    }
    if (failed.empty()) failed = Difference(Bytes(host.begin(), host.begin() + length), pattern);
    if (failed.empty()) failed = bench.network.ReadFromSelf({mr, address}, {mr, behind}, length);
    if (failed.empty()) failed = Difference(ReadBytes(By::kGpu, behind, length, true), pattern);
  }
  bench.table.Add(memory, order, "READ from itself", failed);
  ibv_dereg_mr(host_mr);
}

void CheckRegion(Bench& bench, const std::string& memory, const std::string& order, ibv_mr* mr,
                 const Memory& its) {
  CheckMoves(bench, memory, order, mr, its.address, its.bytes);
  CheckEdges(bench, memory, order, mr, its.address);
  CheckAtomics(bench, memory, order, mr, its.address);
  CheckMixed(bench, memory, order, mr, its.address);
  CheckOrder(bench, memory, order, mr, its.address);
  CheckSelf(bench, memory, order, mr, its.address);
}

/// The memory of a device as a whole; then it is deregistered.
void TestRegion(Bench& bench, const std::string& memory, const Memory& its) {
  ibv_mr* const mr = bench.network.Register(0, its.address, its.bytes);
  bench.table.Add(memory, kOrder, "ibv_reg_mr", mr != nullptr ? "" : std::strerror(errno));
  if (mr == nullptr) return;
  CheckRegion(bench, memory, kOrder, mr, its);
  const int error = ibv_dereg_mr(mr);
  bench.table.Add(memory, kOrder, "ibv_dereg_mr", error == 0 ? "" : std::strerror(error));
}

// ---- Kinds ----

void TestAllocated(Bench& bench, const char* name, size_t bytes) {
  Memory its{.bytes = bytes};
  Check(TheApi().cuMemAlloc(&its.address, bytes), "cuMemAlloc");
  TestRegion(bench, name, its);
  TheApi().cuMemFree(its.address);
}

/// A responder that refuses a request leaves its queue pair in the error state: it answers once. If
/// the network loses that answer, the requester runs out of retries.
bool IsRefusal(const Bench& bench, const std::string& status) {
  return status == ibv_wc_status_str(IBV_WC_REM_ACCESS_ERR) ||
         (bench.is_lossy && status == ibv_wc_status_str(IBV_WC_RETRY_EXC_ERR));
}

/// Memory that ends while it is registered: accesses fail, and the registration ends as others do.
void TestEnded(Bench& bench, const char* name, const char* order,
               const std::function<void(uint64_t)>& end) {
  uint64_t address = 0;
  Check(TheApi().cuMemAlloc(&address, kBytes), "cuMemAlloc");
  ibv_mr* const mr = bench.network.Register(0, address, kBytes);
  bench.table.Add(name, order, "ibv_reg_mr", mr != nullptr ? "" : std::strerror(errno));
  if (mr == nullptr) return;
  const Place place = {mr, address};
  bench.table.Add(name, order, "before by WRITE",
                  CheckIn(bench, Verb::kWrite, By::kGpu, place, 4096, true));
  end(address);
  for (const Verb verb : {Verb::kWrite, Verb::kRead}) {
    const std::string failed = verb == Verb::kWrite
                                   ? bench.network.Move(verb, 1, bench.peer.place(), place, 4096)
                                   : bench.network.Move(verb, 0, place, bench.peer.place(), 4096);
    const bool is_right = IsRefusal(bench, failed);
    bench.table.Add(name, order, std::string("refused ") + NameOf(verb),
                    is_right ? "" : "the status is: " + (failed.empty() ? "success" : failed));
  }
  const int error = ibv_dereg_mr(mr);
  bench.table.Add(name, order, "ibv_dereg_mr", error == 0 ? "" : std::strerror(error));
}

void TestEnds(Bench& bench) {
  TestEnded(bench, "cudaMalloc", "made, ibv_reg_mr, freed, ibv_dereg_mr",
            [](uint64_t address) { Check(TheApi().cuMemFree(address), "cuMemFree"); });
  CUcontext context = nullptr;
  if (TheApi().cuCtxCreate(&context, 0, 0) == kCudaSuccess) {
    TestEnded(bench, "cuMemAlloc, context of cuCtxCreate",
              "made, ibv_reg_mr, cuCtxDestroy, ibv_dereg_mr",
              [context](uint64_t) { Check(TheApi().cuCtxDestroy(context), "cuCtxDestroy"); });
  }
  UsePrimary(0);
  TestEnded(bench, "cudaMalloc", "made, ibv_reg_mr, cudaDeviceReset, ibv_dereg_mr", [](uint64_t) {
    Check(TheApi().cuDevicePrimaryCtxReset(0), "cuDevicePrimaryCtxReset");
  });
  UsePrimary(0);
  TestAllocated(bench, "cudaMalloc behind cudaDeviceReset", kBytes);
}

void TestFreed(Bench& bench) {
  Memory its;
  Check(TheApi().cuMemAlloc(&its.address, its.bytes), "cuMemAlloc");
  Check(TheApi().cuMemFree(its.address), "cuMemFree");
  const ibv_mr* const mr = bench.network.Register(0, its.address, its.bytes);
  bench.table.Add("cudaMalloc", "made, freed, ibv_reg_mr", "gives EFAULT",
                  mr == nullptr && errno == EFAULT ? "" : std::strerror(mr ? 0 : errno));
}

void TestSecondDevice(Bench& bench) {
  const char* const name = "cudaMalloc, second device";
  int count = 0;
  TheApi().cuDeviceGetCount(&count);
  if (count < 2) {
    bench.table.AddMissing(name, kOrder, "memory", "one device");
    return;
  }
  UsePrimary(1);
  TestAllocated(bench, name, kBytes);
  UsePrimary(0);
}

void TestOwnContext(Bench& bench) {
  const char* const name = "cuMemAlloc, context of cuCtxCreate";
  CUcontext context = nullptr;
  const CUresult made = TheApi().cuCtxCreate(&context, 0, 0);
  if (made != kCudaSuccess) {
    bench.table.AddMissing(name, kOrder, "memory", NameOf(made));
    return;
  }
  TestAllocated(bench, name, kBytes);
  Check(TheApi().cuCtxDestroy(context), "cuCtxDestroy");
  UsePrimary(0);
}

void TestPool(Bench& bench) {
  const char* const name = "cudaMallocAsync";
  Memory its;
  const CUresult made = TheApi().cuMemAllocAsync(&its.address, its.bytes, nullptr);
  if (made != kCudaSuccess) {
    bench.table.AddMissing(name, kOrder, "memory", NameOf(made));
    return;
  }
  Check(TheApi().cuStreamSynchronize(nullptr), "cuStreamSynchronize");
  TestRegion(bench, name, its);
  Check(TheApi().cuMemFreeAsync(its.address, nullptr), "cuMemFreeAsync");
}

/// Two allocations side by side, so that transfers cross the seam.
void TestVirtual(Bench& bench) {
  const char* const name = "cuMemMap";
  const Api& api = TheApi();
  CUmemAllocationProp properties = {};
  properties.type = kAllocationPinned;
  properties.location = {kLocationDevice, 0};
  properties.flags.is_gpu_direct_capable = 1;
  size_t part = 0;
  Memory its;
  CUresult result = api.cuMemGetAllocationGranularity(&part, &properties, 0);
  if (result == kCudaSuccess) result = api.cuMemAddressReserve(&its.address, 2 * part, 0, 0, 0);
  for (size_t i = 0; i < 2 && result == kCudaSuccess; ++i) {
    CUmemGenericAllocationHandle handle;
    result = api.cuMemCreate(&handle, part, &properties, 0);
    if (result == kCudaSuccess) result = api.cuMemMap(its.address + i * part, part, 0, handle, 0);
    if (result == kCudaSuccess) result = api.cuMemRelease(handle);
  }
  const CUmemAccessDesc rights = {properties.location, kAccessReadWrite};
  if (result == kCudaSuccess) result = api.cuMemSetAccess(its.address, 2 * part, &rights, 1);
  if (result != kCudaSuccess) {
    bench.table.AddMissing(name, kOrder, "memory", NameOf(result));
    return;
  }
  its.bytes = 2 * part;
  TestRegion(bench, name, its);
  ibv_mr* const mr = bench.network.Register(0, its.address, its.bytes);
  if (mr != nullptr) {
    const Place seam = {mr, its.address + part - 5000};
    for (const Verb verb : kVerbs) {
      bench.table.Add(name, "across two mappings", std::string("out by ") + NameOf(verb),
                      CheckOut(bench, verb, By::kGpu, seam, 10000, true));
      bench.table.Add(name, "across two mappings", std::string("in by ") + NameOf(verb),
                      CheckIn(bench, verb, By::kGpu, seam, 10000, true));
    }
    ibv_dereg_mr(mr);
  }
  api.cuMemUnmap(its.address, its.bytes);
  api.cuMemAddressFree(its.address, its.bytes);
}

void TestDmabuf(Bench& bench) {
  const char* const name = "cudaMalloc, DMA-buf";
  const char* const order = "made, ibv_reg_dmabuf_mr";
  ibv_mr* mr = bench.network.RegisterDmabuf(0, 0x10000, 4096, -1);
  bench.table.Add(name, order, "fd -1 gives EBADF",
                  mr == nullptr && errno == EBADF ? "" : std::strerror(mr ? 0 : errno));
  Memory its;
  Check(TheApi().cuMemAlloc(&its.address, its.bytes), "cuMemAlloc");
  int fd = -1;
  const CUresult made =
      TheApi().cuMemGetHandleForAddressRange(&fd, its.address, its.bytes, kRangeDmabufFd, 0);
  if (made != kCudaSuccess) {
    bench.table.AddMissing(name, order, "DMA-buf", NameOf(made));
  } else {
    mr = bench.network.RegisterDmabuf(0, its.address, its.bytes, fd);
    bench.table.Add(name, order, "ibv_reg_dmabuf_mr", mr != nullptr ? "" : std::strerror(errno));
    close(fd);
    if (mr != nullptr) CheckRegion(bench, name, order, mr, its);
    if (mr != nullptr) ibv_dereg_mr(mr);
  }
  TheApi().cuMemFree(its.address);
}

// ---- Memory of another process ----

/// A process with ends of two pipes.
struct Child {
  pid_t pid;
  int to;
  int from;
};

Child Start(const char* self) {
  int to[2];
  int from[2];
  if (pipe(to) != 0 || pipe(from) != 0) return {-1, -1, -1};
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(to[0], STDIN_FILENO);
    dup2(from[1], STDOUT_FILENO);
    for (const int fd : {to[0], to[1], from[0], from[1]}) close(fd);
    execl(self, self, "--export", nullptr);
    _exit(2);
  }
  close(to[0]);
  close(from[1]);
  return {pid, to[1], from[0]};
}

void TestImported(Bench& bench, const char* self) {
  const char* const name = "cudaIpcOpenMemHandle";
  const Child child = Start(self);
  CUipcMemHandle handle;
  Memory its;
  CUresult result = kCudaInvalidHandle;
  if (child.pid > 0 && read(child.from, &handle, sizeof(handle)) == sizeof(handle)) {
    result = TheApi().cuIpcOpenMemHandle(&its.address, handle, kIpcLazyPeerAccess);
  }
  if (result != kCudaSuccess) {
    bench.table.AddMissing(name, kOrder, "memory", NameOf(result));
  } else {
    bench.table.Add(name, kOrder, "the other's bytes",
                    Difference(ReadBytes(By::kGpu, its.address, 4096, true), Pattern(4096, 0)));
    TestRegion(bench, name, its);
    TheApi().cuIpcCloseMemHandle(its.address);
  }
  close(child.to);
  close(child.from);
  if (child.pid > 0) waitpid(child.pid, nullptr, 0);
}

}  // namespace

int ExportMemory() {
  UsePrimary(0);
  uint64_t address = 0;
  CUipcMemHandle handle;
  Check(TheApi().cuMemAlloc(&address, kBytes), "cuMemAlloc");
  WriteBytes(By::kGpu, address, Pattern(4096, 0), true);
  Check(TheApi().cuIpcGetMemHandle(&handle, address), "cuIpcGetMemHandle");
  if (write(STDOUT_FILENO, &handle, sizeof(handle)) != sizeof(handle)) return 2;
  char byte;
  while (read(STDIN_FILENO, &byte, 1) > 0) continue;
  return 0;
}

void TestDeviceMemory(Bench& bench, const char* self) {
  UsePrimary(0);
  TestAllocated(bench, "cudaMalloc", kMostBytes);
  TestSecondDevice(bench);
  TestOwnContext(bench);
  TestPool(bench);
  TestVirtual(bench);
  TestDmabuf(bench);
  TestFreed(bench);
  TestImported(bench, self);
  TestEnds(bench);  // Last: the reset ends all memory.
}

}  // namespace uroce::memory_kinds
