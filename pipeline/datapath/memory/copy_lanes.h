// SPDX-License-Identifier: Apache-2.0
// The daemon's end of a program's copy lanes, through which a thread of the program makes large
// copies in the program's own memory (pipeline/shm/abi/uroce_copies.h), and all copies of memory of
// the program's devices (uroce_stage.h).
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "pipeline/os/shared_memory.h"
#include "pipeline/shm/abi/uroce_copies.h"

namespace uroce::datapath {

struct CopyJob;

/// What has gone through a program's lanes.
struct LaneCounters {
  std::atomic<uint64_t> read_bytes{0};      ///< From the program's memory.
  std::atomic<uint64_t> written_bytes{0};   ///< To it.
  std::atomic<uint64_t> left_to_helper{0};  ///< Copies that the program did not begin, or refused.
};

/// One lane for each of the first UROCE_COPY_LANES workers. A call with a worker is for the lane of
/// the worker that calls; none waits. A worker without a lane has no room.
class CopyLanes {
 public:
  using Time = std::chrono::steady_clock::time_point;
  /// How long a worker waits until the program's thread begins a copy. Then the helper does it, and
  /// the lane rests: the thread is stopped, or has no CPU.
  static constexpr std::chrono::milliseconds kPatience{1};
  static constexpr std::chrono::milliseconds kRest{100};
  /// The same for memory of devices, which the helper reaches by the same thread: it is no faster,
  /// but learns that the process has ended.
  static constexpr std::chrono::milliseconds kPatienceWithStage{50};

  /// The number of bytes that the memory takes in a daemon with so many workers.
  static constexpr uint64_t BytesFor(uint32_t workers) {
    return sizeof(uroce_copies) + BytesOfLanes(workers);
  }
  /// The same for a stage and the lanes behind it.
  static constexpr uint64_t BytesWithStage(uint32_t workers) {
    return sizeof(uroce_stage) + BytesOfLanes(workers);
  }

  /// `memory` has BytesFor(workers) bytes, which were zeros when the program got them.
  CopyLanes(GuardedMapping memory, uint32_t workers);
  /// The lanes behind a stage. `memory` has BytesWithStage(workers) bytes.
  static std::unique_ptr<CopyLanes> OfStage(std::shared_ptr<const GuardedMapping> memory,
                                            uint32_t workers);

  /// Whether the lane takes a copy now, of a size that it can take.
  bool HasRoom(uint32_t worker, Time now) const {
    return worker < lanes_.size() && now >= lanes_[worker].rests_until &&
           FreeSlot(worker) != UROCE_COPY_SLOTS;
  }
  /// Whether the lane takes `job` now: a read or write of the memory that the lanes are for.
  bool Takes(uint32_t worker, const CopyJob& job, Time now) const;
  /// Has the program execute `job`, which Takes has accepted and which the lane owns until Take.
  void Post(uint32_t worker, CopyJob* job, Time now);

  struct Taken {
    CopyJob* job = nullptr;      ///< Null: none has ended.
    bool is_for_helper = false;  ///< The program did not do it, or could not.
  };
  /// Takes a job that has ended, or that the program's thread does not begin.
  Taken Take(uint32_t worker, Time now);

  /// Takes `job` back if the program has not begun it; Take returns it, as not done. A write that
  /// the program has begun is late until the program has made it.
  void Abandon(uint32_t worker, const CopyJob& job);
  /// Whether late writes are under way. They may never end. Any thread.
  bool HasLateWrites() const;

  bool HasDone(uint32_t worker) const;
  const LaneCounters& counters() const { return counters_; }
  uint32_t in_flight(uint32_t worker) const {
    return worker < lanes_.size() ? lanes_[worker].in_flight : 0;
  }

  /// Calls `use(CopyJob*)` for each job that the lanes own, and forgets them. No worker uses them.
  template <typename Use>
  void TakeAll(Use&& use) {
    for (Lane& lane : lanes_) {
      for (CopyJob*& job : lane.jobs) {
        if (job != nullptr) use(std::exchange(job, nullptr));
      }
    }
  }

 private:
  /// A worker's own part.
  struct alignas(64) Lane {
    std::array<CopyJob*, UROCE_COPY_SLOTS> jobs{};  ///< The job in each slot, or null.
    std::array<Time, UROCE_COPY_SLOTS> posted_at{};
    std::array<uint32_t, UROCE_COPY_SLOTS> numbers{};  ///< Of the newest copy, above its phase.
    uint32_t in_flight = 0;
    Time rests_until{};
    std::array<std::atomic<uint32_t>, UROCE_COPY_SLOTS> late{};  ///< The state of a late write.
  };

  /// Words by which the program's thread is woken.
  struct Words {
    uint32_t& program_sleeps;
    uint32_t& wakes;
  };

  CopyLanes(const std::shared_ptr<const GuardedMapping>& memory, uint32_t workers);
  CopyLanes(std::shared_ptr<const GuardedMapping> memory, uroce_copy_lane* shared, Words words,
            uint32_t workers, bool is_with_stage);
  static constexpr uint64_t BytesOfLanes(uint32_t workers) {
    return std::min(workers, UROCE_COPY_LANES) * sizeof(uroce_copy_lane);
  }
  uroce_copy_lane& shared(uint32_t worker) const { return shared_[worker]; }
  void NoteEnd(const CopyJob& job, bool is_for_helper);
  enum class End : uint8_t { kNotYet, kDone, kForHelper };
  /// How the copy in `slot` has ended. The slot is free then, or its copy stays claimed.
  End EndOf(uint32_t worker, uint32_t slot, Time now);
  /// A slot that neither side uses, or UROCE_COPY_SLOTS.
  uint32_t FreeSlot(uint32_t worker) const;

  const std::shared_ptr<const GuardedMapping> memory_;
  uroce_copy_lane* const shared_;
  const Words words_;
  const bool is_with_stage_;  ///< For memory of devices alone.
  const Time::duration patience_;
  std::vector<Lane> lanes_;
  LaneCounters counters_;
};

}  // namespace uroce::datapath
