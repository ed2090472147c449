// SPDX-License-Identifier: Apache-2.0
// The daemon's end of a stage: how the copy helper reaches the device memory of a program, which
// only a thread of the program can access (pipeline/shm/abi/uroce_stage.h).
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <utility>

#include "pipeline/os/shared_memory.h"
#include "pipeline/shm/abi/uroce_stage.h"

namespace uroce::datapath {

struct CopyJob;

/// What has gone through a stage.
struct StageCounters {
  std::atomic<uint64_t> read_bytes{0};     ///< From the device.
  std::atomic<uint64_t> written_bytes{0};  ///< To the device.
  std::atomic<uint64_t> requests{0};       ///< That the program has answered.
  std::atomic<uint64_t> refused{0};        ///< Of these: answered with an error.
};

/// Makes the requests of one program's stage. A request may wait as long as the program likes. One
/// thread, but for `counters`.
class Stage {
 public:
  /// The thread that waits for the program: it gives up once `stop` is set, or once the process
  /// whose memory file `memory_fd` is has ended.
  struct Waiter {
    const std::atomic<bool>& stop;
    int memory_fd;
  };

  /// `memory` holds a uroce_stage.
  explicit Stage(GuardedMapping memory) : memory_(std::move(memory)) {}

  const StageCounters& counters() const { return counters_; }

  /// Moves staged pieces of `job`, from number `first` on, as many as follow each other. If the
  /// program refuses them together, then those alone that can fail the job. Of a write that ends a
  /// message, the last aligned eight bytes become visible behind all others. Returns the number of
  /// bytes; 0: the waiter gave up; -1: the program has refused.
  ssize_t Move(const CopyJob& job, uint32_t first, const Waiter& waiter);
  /// Moves eight bytes at `addr` of the device. Returns as Move.
  ssize_t MoveWord(uroce_stage_kind kind, uint64_t addr, uint64_t& word, const Waiter& waiter);

 private:
  /// A request that is being filled in. The daemon's own, since programs write to the stage.
  struct Request {
    uroce_stage_kind kind = UROCE_STAGE_READ;
    uint32_t piece_count = 0;
    uint32_t bytes = 0;
    uint32_t piece_bytes = 0;  ///< Of the newest piece.
    uint64_t next_addr = 0;    ///< Behind it.
  };

  uroce_stage& shared() const { return *reinterpret_cast<uroce_stage*>(memory_.data()); }
  ssize_t MovePieces(const CopyJob& job, uint32_t first, uint32_t end, const Waiter& waiter);
  /// Adds `length` bytes at `addr`; joins them to the piece before where they continue it.
  void Add(Request& request, uint64_t addr, const uint8_t* from, uint32_t length, bool joins) const;
  /// Has the program execute the request.
  ssize_t Execute(const Request& request, const Waiter& waiter);
  /// False: the waiter has given up.
  [[nodiscard]] bool Await(const Waiter& waiter) const;

  GuardedMapping memory_;
  uint32_t number_ = 0;  // Of the newest request.
  StageCounters counters_;
};

}  // namespace uroce::datapath
