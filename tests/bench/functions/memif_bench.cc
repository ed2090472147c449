// SPDX-License-Identifier: Apache-2.0
// Two workers in two processes, each on its core, over a memif: WRITEs at path MTU 4096, posted and
// polled by the sender's own thread, without programs. Shows the limit of two daemons on one
// machine.
//
//   memif_bench [OPTIONS OF THE MEMIF, such as rsize=8;bsize=4352]
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <string>

#include "drivers/memif/memif_port.h"
#include "tests/datapath/testbed.h"

namespace uroce::datapath {
namespace {

constexpr uint8_t kWrite = 0;
constexpr size_t kBufferBytes = 1 << 20;
constexpr Nanos kPatience{20'000'000'000};
constexpr Nanos kRound{500'000'000};

Nanos Now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return Nanos(int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec);
}

/// The memory that both processes share.
struct Shared {
  std::atomic<bool> is_over{false};
};

template <typename T>
T* MapForBoth(size_t bytes, int sharing) {
  void* const data =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, sharing | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (data == MAP_FAILED) abort();
  return static_cast<T*>(data);
}

std::unique_ptr<drivers::Port> Open(const std::string& role, const std::string& options) {
  TestPool();
  const auto arguments = drivers::ParseDeviceArguments("net_memif0;role=" + role + ";" + options);
  absl::Status status = arguments.status();
  if (status.ok()) {
    const auto config = drivers::ParseMemifConfig(*arguments);
    status = config.status();
    if (status.ok()) {
      auto port = drivers::OpenPort(*config, {}, TestPool());
      if (port.ok()) return *std::move(port);
      status = port.status();
    }
  }
  fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  exit(2);
}

/// One process's side. Both make the same objects, so that numbers and keys are equal; only one
/// device of each has a wire.
class Side {
 public:
  Side(int device, const std::string& role, const std::string& options, uint8_t* buffer)
      : port_(Open(role, options)),
        bed_(device == 0 ? std::array<drivers::Port*, 2>{port_.get(), nullptr}
                         : std::array<drivers::Port*, 2>{nullptr, port_.get()}) {
    bed_.attributes.path_mtu_bytes = 4096;
    bed_.attributes.timeout = 18;
    for (int i = 0; i < 2; ++i) {
      ends_[i] = &bed_.AddEndpoint(i, {.sq_depth = 128, .cq_depth = 256, .max_sge = 1});
    }
    bed_.Connect(*ends_[0], *ends_[1]);
    region_ = &bed_.Register(buffer, kBufferBytes, kAllAccess, MrMode::kMapped);
    end_ = ends_[device];
    end_->hold_bell = true;
  }

  void Connect() {
    const Nanos begin = Now();
    while (!port_->Info().link_up) {
      if (Now() - begin > kPatience) abort();
      port_->Maintain([](absl::FunctionRef<void()> work) { work(); });
      sched_yield();
    }
  }
  void Serve(const std::atomic<bool>& is_over) {
    while (!is_over.load(std::memory_order_relaxed)) Turn();
  }
  /// The rate in Gb/s for `length`-byte messages, with `depth` of them posted at all times.
  double Write(uint32_t length, uint32_t depth) {
    const Endpoint::Send send{.opcode = kWrite,
                              .list = {Testbed::Sge(*region_, 0, length)},
                              .remote_addr = region_->iova,
                              .rkey = region_->key};
    uint64_t posted = 0;
    uint64_t completed = 0;
    const Nanos begin = Now();
    while (Now() - begin < kRound || completed < posted) {
      const uint64_t before = posted;
      for (; Now() - begin < kRound && posted - completed < depth; ++posted) end_->PostSend(send);
      if (posted != before) end_->RingBell();
      Turn();
      uroce_cqe cqe;
      for (; end_->PollSend(cqe); ++completed) {
        if (cqe.status != 0) abort();
      }
    }
    return static_cast<double>(completed) * length * 8 /
           static_cast<double>((Now() - begin).count());
  }

 private:
  /// Like the worker's thread, but without sleep.
  void Turn() {
    constexpr int kPollsBeforeYield = 16;
    empty_turns_ = bed_.worker->RunOnce(Now()) ? 0 : empty_turns_ + 1;
    if (empty_turns_ > kPollsBeforeYield) sched_yield();
  }

  std::unique_ptr<drivers::Port> port_;
  Testbed bed_;
  Endpoint* ends_[2];
  Endpoint* end_;
  MemoryRegion* region_;
  int empty_turns_ = 0;
};

void PinTo(int core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  sched_setaffinity(0, sizeof(cores), &cores);
}

int Main(const std::string& more) {
  char directory[] = "/tmp/uroce-memif-bench-XXXXXX";
  const std::string options =
      "socket=" + std::string(mkdtemp(directory)) + "/m.sock" + (more.empty() ? "" : ";" + more);
  auto* const shared = new (MapForBoth<Shared>(sizeof(Shared), MAP_SHARED)) Shared;
  auto* const buffer = MapForBoth<uint8_t>(kBufferBytes, MAP_PRIVATE);
  const pid_t server = fork();
  if (server == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    PinTo(1);
    Side side(0, "server", options, buffer);
    side.Connect();
    side.Serve(shared->is_over);
    return 0;
  }
  PinTo(0);
  {
    Side side(1, "client", options, buffer);
    side.Connect();
    for (const auto& [length, depth] : {std::pair(4096u, 64u), {65536u, 8u}, {1u << 20, 2u}}) {
      printf("WRITE of %7u bytes, %2u at once: %6.1f Gb/s\n", length, depth,
             side.Write(length, depth));
      fflush(stdout);
    }
    shared->is_over = true;
  }
  int status = 0;
  waitpid(server, &status, 0);
  std::filesystem::remove_all(directory);
  return status;
}

}  // namespace
}  // namespace uroce::datapath

int main(int argc, char** argv) { return uroce::datapath::Main(argc > 1 ? argv[1] : ""); }
