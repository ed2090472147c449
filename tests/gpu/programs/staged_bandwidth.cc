// SPDX-License-Identifier: Apache-2.0
// How fast messages move between two devices of verbs in this program, whose memory is the host's
// or a GPU's. Prints one line for each direction: NAME GBITS_PER_SECOND.
// Usage: staged_bandwidth DEVICE_A DEVICE_B [BYTES [SECONDS [NAME]]], under `uroce run`. NAME:
// this direction alone. Exit status 3: no GPU.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/gpu/verbs/api.h"
#include "tests/gpu/verbs/end.h"

namespace uroce::memory_kinds {
namespace {

constexpr uint32_t kWindow = 16;

using Clock = std::chrono::steady_clock;

struct Buffer {
  uint64_t address;
  ibv_mr* mr;
};

Buffer Make(End& end, size_t bytes, bool is_device) {
  Buffer buffer = {};
  if (is_device) {
    Check(TheApi().cuMemAlloc(&buffer.address, bytes), "cuMemAlloc");
  } else {
    buffer.address = reinterpret_cast<uint64_t>(new uint8_t[bytes]());
  }
  buffer.mr = end.Register(buffer.address, bytes);
  if (buffer.mr == nullptr) {
    std::perror("ibv_reg_mr");
    std::exit(2);
  }
  return buffer;
}

/// One direction: end `a` posts, with a window of requests.
void Measure(const char* name, End& a, End& b, ibv_wr_opcode opcode, const Buffer& local,
             const Buffer& remote, uint32_t bytes, double seconds) {
  const bool sends = opcode == IBV_WR_SEND;
  const auto post = [&]() -> std::string {
    ibv_sge sge = {local.address, bytes, local.mr->lkey};
    if (!sends) return a.PostOneSided(opcode, sge, remote.address, remote.mr->rkey);
    ibv_sge place = {remote.address, bytes, remote.mr->lkey};
    ibv_recv_wr receive = {};
    receive.sg_list = &place;
    receive.num_sge = 1;
    if (!b.Receive(receive)) return "ibv_post_recv";
    ibv_send_wr request = {};
    request.sg_list = &sge;
    request.num_sge = 1;
    request.opcode = opcode;
    return a.Post(request);
  };
  const auto await = [&] {
    const std::string failed = a.Await();
    return failed.empty() && sends ? b.Await() : failed;
  };
  std::string failed;
  for (uint32_t i = 0; i < kWindow && failed.empty(); ++i) failed = post();
  uint64_t messages = 0;
  const auto begin = Clock::now();
  std::chrono::duration<double> spent{};
  while (failed.empty() && spent.count() < seconds) {
    failed = await();
    ++messages;
    if (failed.empty()) failed = post();
    spent = Clock::now() - begin;
  }
  for (uint32_t i = 0; i < kWindow && failed.empty(); ++i) failed = await();
  if (!failed.empty()) {
    std::printf("%s failed: %s\n", name, failed.c_str());
    std::exit(1);
  }
  constexpr double kBits = 8e-9;
  std::printf("%s %.2f\n", name, kBits * static_cast<double>(messages * bytes) / spent.count());
}

int Main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: staged_bandwidth DEVICE_A DEVICE_B [BYTES [SECONDS [NAME]]]\n");
    return 2;
  }
  const auto bytes = static_cast<uint32_t>(argc > 3 ? std::atoi(argv[3]) : 1 << 20);
  const double seconds = argc > 4 ? std::atof(argv[4]) : 2;
  const std::string missing = LoadApi();
  if (!missing.empty()) {
    std::printf("no GPU: %s\n", missing.c_str());
    return 3;
  }
  const std::string only = argc > 5 ? argv[5] : "";
  UsePrimary(0);
  End a(argv[1]);
  End b(argv[2]);
  a.Connect(b.info(), 18);
  b.Connect(a.info(), 18);
  const Buffer host_a = Make(a, bytes, false);
  const Buffer host_b = Make(b, bytes, false);
  const Buffer device_a = Make(a, bytes, true);
  const Buffer device_b = Make(b, bytes, true);
  const auto measure = [&](const char* name, ibv_wr_opcode opcode, const Buffer& local,
                           const Buffer& remote) {
    if (only.empty() || only == name) Measure(name, a, b, opcode, local, remote, bytes, seconds);
  };
  measure("WRITE host-host", IBV_WR_RDMA_WRITE, host_a, host_b);
  measure("WRITE host-device", IBV_WR_RDMA_WRITE, host_a, device_b);
  measure("WRITE device-host", IBV_WR_RDMA_WRITE, device_a, host_b);
  measure("WRITE device-device", IBV_WR_RDMA_WRITE, device_a, device_b);
  measure("SEND host-device", IBV_WR_SEND, host_a, device_b);
  measure("SEND device-host", IBV_WR_SEND, device_a, host_b);
  measure("READ host-device", IBV_WR_RDMA_READ, device_a, host_b);
  measure("READ device-host", IBV_WR_RDMA_READ, host_a, device_b);
  return 0;
}

}  // namespace
}  // namespace uroce::memory_kinds

int main(int argc, char** argv) { return uroce::memory_kinds::Main(argc, argv); }
