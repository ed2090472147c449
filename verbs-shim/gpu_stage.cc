// SPDX-License-Identifier: Apache-2.0
#include "verbs-shim/gpu_stage.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "pipeline/base/spin.h"
#include "pipeline/shm/abi/uroce_copies.h"
#include "pipeline/shm/abi/uroce_stage.h"
#include "pipeline/shm/rings/shared_word.h"
#include "verbs-shim/daemon_connection.h"
#include "verbs-shim/gpu_driver.h"
#include "verbs-shim/gpu_requests.h"
#include "verbs-shim/memory/system_call.h"
#include "verbs-shim/served_memory.h"
#include "verbs-shim/support.h"

namespace uroce::gpu {
namespace {

using memory::SystemCall;
using shim::DaemonConnection;

constexpr int64_t kSpinNs = 200'000;  // As long as the daemon takes between two requests.

/// A stage, the lanes behind it, and their thread.
class Server {
 public:
  /// `lanes`: how many lie behind the stage. `address`: see OpenStage.
  Server(DaemonConnection& connection, uroce_stage& stage, uint32_t lanes, uint64_t address)
      : connection_(connection),
        stage_(stage),
        lanes_(lanes),
        requests_(stage, lanes, FoundDriver()),
        address_(address) {}

  void Run() {
    PinHost(address_, stage_.data, sizeof(stage_.data) + lanes_ * sizeof(uroce_copy_lane));
    uint32_t ended = 0;
    while (Await() && requests_.Serve(&ended)) {
      for (; ended != 0; ended &= ended - 1) {
        shim::WakeWorker(connection_, static_cast<uint32_t>(__builtin_ctz(ended)));
      }
    }
  }

 private:
  static int64_t NowNs() { return static_cast<int64_t>(shim::ClockNs(CLOCK_MONOTONIC)); }

  /// Waits until there is something to do. False: the daemon is gone.
  bool Await() {
    spin_.BeginWait(NowNs());
    for (bool is_there = false; !is_there;) {
      is_there = requests_.HasAny();
      const IdleStep step = spin_.AfterLook(is_there, NowNs(), kSpinNs);
      if (step == IdleStep::kYield) sched_yield();
      if (step != IdleStep::kSleep) continue;
      rings::StoreRelaxed(stage_.program_sleeps, uint32_t{1});
      const uint32_t wakes = rings::LoadRelaxed(stage_.wakes);
      rings::FullFence();
      const bool is_late = !requests_.HasAny() && !shim::AwaitWake(stage_.wakes, wakes);
      rings::StoreRelaxed(stage_.program_sleeps, uint32_t{0});
      if (is_late && !connection_.is_live()) return false;
    }
    return true;
  }

  DaemonConnection& connection_;
  uroce_stage& stage_;
  const uint32_t lanes_;
  Requests requests_;
  SpinPolicy spin_;
  const uint64_t address_;
};

void* RunServer(void* argument) {
  auto* const server = static_cast<Server*>(argument);
  pthread_setname_np(pthread_self(), "uroce-stage");
  server->Run();
  return nullptr;  // The server stays: requests may still be written to its stage.
}

}  // namespace

int OpenStage(DaemonConnection& connection, uint64_t address) {
  const shim::ErrnoKeeper keeper;
  shim::ServedMemory served;
  int error = shim::MapServedMemory(connection, UROCE_CREATE_STAGE, sizeof(uroce_stage), &served);
  if (error != 0) return error;
  SystemCall(SYS_close, served.fd);
  auto& stage = *static_cast<uroce_stage*>(served.mapped);
  uint32_t workers = connection.worker_count();
  if (workers > UROCE_COPY_LANES) workers = UROCE_COPY_LANES;
  constexpr size_t kLine = 64;
  void* memory = nullptr;
  error = posix_memalign(&memory, kLine, sizeof(Server));
  if (error == 0) {
    const size_t lanes = (served.bytes - sizeof(uroce_stage)) / sizeof(uroce_copy_lane);
    const auto count = static_cast<uint32_t>(lanes < workers ? lanes : workers);
    error =
        shim::StartServingThread(RunServer, new (memory) Server(connection, stage, count, address));
  }
  if (error == 0) return 0;
  shim::Log("no thread for device memory: errno %d", error);
  free(memory);
  munmap(served.mapped, served.bytes);
  return error;
}

}  // namespace uroce::gpu
