// SPDX-License-Identifier: Apache-2.0
#include "verbs-shim/gpu_stage.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "pipeline/base/spin.h"
#include "pipeline/shm/abi/uroce_stage.h"
#include "pipeline/shm/rings/shared_word.h"
#include "verbs-shim/daemon_connection.h"
#include "verbs-shim/gpu_driver.h"
#include "verbs-shim/memory/system_call.h"
#include "verbs-shim/served_memory.h"
#include "verbs-shim/support.h"

namespace uroce::gpu {
namespace {

using memory::SystemCall;
using shim::DaemonConnection;

constexpr int64_t kSpinNs = 200'000;  // As long as the daemon takes between two requests.

/// A stage and its thread.
class Server {
 public:
  /// `address`: see OpenStage.
  Server(DaemonConnection& connection, uroce_stage& stage, uint64_t address)
      : connection_(connection), stage_(stage), copies_(FoundDriver()), address_(address) {}

  void Run() {
    PinHost(address_, stage_.data, sizeof(stage_.data));
    uint32_t number = 0;
    while (Await(number)) {
      number = rings::LoadAcquire(stage_.requested);
      const int error = Execute();
      if (error == kEnded) break;
      stage_.error = error;
      rings::StoreRelease(stage_.served, number);
      rings::FullFence();
      if (rings::LoadRelaxed(stage_.daemon_sleeps) != 0) {
        SystemCall(SYS_futex, &stage_.served, FUTEX_WAKE, INT32_MAX);
      }
    }
  }

 private:
  static constexpr int kEnded = -1;

  static int64_t NowNs() { return static_cast<int64_t>(shim::ClockNs(CLOCK_MONOTONIC)); }

  /// Waits for a request after `number`. False: the daemon is gone.
  bool Await(uint32_t number) {
    spin_.BeginWait(NowNs());
    for (bool is_made = false; !is_made;) {
      is_made = rings::LoadAcquire(stage_.requested) != number;
      const IdleStep step = spin_.AfterLook(is_made, NowNs(), kSpinNs);
      if (step == IdleStep::kYield) sched_yield();
      if (step != IdleStep::kSleep) continue;
      rings::StoreRelaxed(stage_.program_sleeps, uint32_t{1});
      rings::FullFence();
      const bool waits = rings::LoadAcquire(stage_.requested) == number;
      const bool is_late = waits && !shim::AwaitWake(stage_.requested, number);
      rings::StoreRelaxed(stage_.program_sleeps, uint32_t{0});
      if (is_late && !connection_.is_live()) return false;
    }
    return true;
  }

  /// Returns 0, an errno, or kEnded.
  int Execute() {
    const uint32_t kind = rings::LoadRelaxed(stage_.kind);
    const uint32_t count = rings::LoadRelaxed(stage_.piece_count);
    const bool is_known = kind == UROCE_STAGE_READ || kind == UROCE_STAGE_WRITE;
    if (!is_known || count > UROCE_STAGE_PIECES) return EINVAL;
    int result = kSuccess;
    for (uint32_t i = 0; i < count && result == kSuccess; ++i) {
      uroce_stage_piece piece;
      rings::CopyOnce(&piece, &stage_.pieces[i], sizeof(piece));
      if (piece.offset > UROCE_STAGE_DATA_BYTES ||
          piece.length > UROCE_STAGE_DATA_BYTES - piece.offset) {
        result = kOutOfStage;
      } else {
        result = copies_.Begin(kind == UROCE_STAGE_WRITE, piece.addr, stage_.data + piece.offset,
                               piece.length);
      }
    }
    const int finished = copies_.Finish();
    if (result == kDeinitialized || finished == kDeinitialized) return kEnded;
    return result == kSuccess && finished == kSuccess ? 0 : EFAULT;
  }

  static constexpr int kOutOfStage = -2;

  DaemonConnection& connection_;
  uroce_stage& stage_;
  Copies copies_;
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
  constexpr size_t kLine = 64;
  void* memory = nullptr;
  error = posix_memalign(&memory, kLine, sizeof(Server));
  if (error == 0) {
    error = shim::StartServingThread(RunServer, new (memory) Server(connection, stage, address));
  }
  if (error == 0) return 0;
  shim::Log("no thread for device memory: errno %d", error);
  free(memory);
  munmap(served.mapped, served.bytes);
  return error;
}

}  // namespace uroce::gpu
