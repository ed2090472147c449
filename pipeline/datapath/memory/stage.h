// SPDX-License-Identifier: Apache-2.0
// The daemon's end of a stage: how the copy helper reaches the device memory of a program, which
// only a thread of the program can access (pipeline/shm/abi/uroce_stage.h).
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

#include "pipeline/base/spin.h"
#include "pipeline/os/shared_memory.h"
#include "pipeline/shm/abi/uroce_stage.h"

namespace uroce::datapath {

struct CopyJob;

/// The time for a SpinPolicy.
inline int64_t SpinTimeNs() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

/// What has gone through a stage.
struct StageCounters {
  std::atomic<uint64_t> read_bytes{0};     ///< From the device.
  std::atomic<uint64_t> written_bytes{0};  ///< To the device.
  std::atomic<uint64_t> requests{0};       ///< That the program has answered.
  std::atomic<uint64_t> refused{0};        ///< Of these: answered with an error.
};

/// Writes pieces of a copy job as those of a request to the program, one behind the other. The
/// caller sees to the room.
class PieceWriter {
 public:
  /// `pieces` and `data` are memory that the program writes to as well: never read.
  PieceWriter(uroce_stage_piece* pieces, uint8_t* data) : pieces_(pieces), data_(data) {}

  /// Adds the pieces [first, end) of `job`, and the bytes of a kWrite. Where a message ends, the
  /// last aligned eight bytes are a separate piece, since programs poll on them.
  void Add(const CopyJob& job, uint32_t first, uint32_t end);
  /// Adds eight bytes at `addr`; `from` is null for a request that reads.
  void AddWord(uint64_t addr, const uint8_t* from);

  uint32_t piece_count() const { return piece_count_; }
  uint32_t bytes() const { return bytes_; }

 private:
  /// Adds `length` bytes at `addr`. With `joins` they join the piece before where they continue it,
  /// and may be joined; without, they are a piece alone.
  void Add(uint64_t addr, const uint8_t* from, uint32_t length, bool joins);

  uroce_stage_piece* pieces_;
  uint8_t* data_;
  uint32_t piece_count_ = 0;
  uint32_t bytes_ = 0;
  uint32_t piece_bytes_ = 0;  // Of the newest piece.
  uint64_t next_addr_ = 0;    // Behind it.
  bool may_be_joined_ = false;
};

/// Copies the bytes of the pieces [first, end) of a kRead from `data`, where they follow each
/// other.
void TakeRead(const CopyJob& job, uint32_t first, uint32_t end, const uint8_t* data);

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
  explicit Stage(std::shared_ptr<const GuardedMapping> memory) : memory_(std::move(memory)) {}
  explicit Stage(GuardedMapping memory)
      : Stage(std::make_shared<const GuardedMapping>(std::move(memory))) {}

  const StageCounters& counters() const { return counters_; }

  /// Moves staged pieces of `job`, from number `first` on, as many as follow each other. If the
  /// program refuses them together, then those alone that can fail the job. Of a write that ends a
  /// message, the last aligned eight bytes become visible behind all others. Returns the number of
  /// bytes; 0: the waiter gave up; -1: the program has refused.
  ssize_t Move(const CopyJob& job, uint32_t first, const Waiter& waiter);
  /// Moves eight bytes at `addr` of the device. Returns as Move.
  ssize_t MoveWord(uroce_stage_kind kind, uint64_t addr, uint64_t& word, const Waiter& waiter);

 private:
  uroce_stage& shared() const { return *reinterpret_cast<uroce_stage*>(memory_->data()); }
  ssize_t MovePieces(const CopyJob& job, uint32_t first, uint32_t end, const Waiter& waiter);
  /// Has the program execute the request whose pieces were written.
  ssize_t Execute(uroce_stage_kind kind, const PieceWriter& pieces, const Waiter& waiter);
  /// False: the waiter has given up.
  [[nodiscard]] bool Await(const Waiter& waiter);

  const std::shared_ptr<const GuardedMapping> memory_;
  uint32_t number_ = 0;  // Of the newest request.
  SpinPolicy spin_;
  StageCounters counters_;
};

}  // namespace uroce::datapath
