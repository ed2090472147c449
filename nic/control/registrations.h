// SPDX-License-Identifier: Apache-2.0
// Registers and deregisters memory regions of one program.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nic/base/event_loop.h"
#include "nic/base/reply.h"
#include "nic/control/memory_socket.h"
#include "nic/objects/program.h"
#include "nic/objects/regions.h"
#include "pipeline/base/types.h"
#include "pipeline/os/side_thread.h"
#include "pipeline/shm/abi/uroce_commands.h"

namespace uroce::nic {

/// Collects the segments of a region that precede REG_MR when one message cannot hold all of them.
/// Bounded by UROCE_MAX_MR_PARTS. Pure.
class SegmentList {
 public:
  /// Adds the `count` segments in `bytes` as numbers `first` and following; `first` 0 starts a new
  /// list. Errors: InvalidArgument.
  absl::Status Add(uint32_t first, uint32_t count, std::span<const uint8_t> bytes);
  /// Returns all `count` segments of a region; `bytes` holds the last ones. If `bytes` holds all of
  /// them, the collected segments stay for another region. Errors: InvalidArgument.
  absl::StatusOr<std::vector<uroce_mr_segment>> Take(uint32_t count,
                                                     std::span<const uint8_t> bytes);

 private:
  std::vector<uroce_mr_segment> collected_;
};

/// Registers and deregisters memory regions, step by step.
///
/// To register, a region is planned; its pages are populated on the program's side thread, which
/// may have to wait for what the program does to its files; it is published once no earlier copy
/// into its memory is running. To deregister, a region is hidden, and released once no copy into it
/// is running: the answer says that the memory belongs to the program alone again. One at a time.
/// Control thread.
class Registrations {
 public:
  /// Runs work until a time, if the program's user has time left in this turn of the loop. Returns
  /// whether the work is done.
  using InTurn = std::function<bool(absl::FunctionRef<bool(Nanos until)> work)>;

  /// `thread` populates pages, and acts for `lender` then.
  Registrations(Program& program, BackgroundTasks& tasks, DeferredReply& deferred, InTurn in_turn,
                std::shared_ptr<SideThread> thread, const Lender& lender)
      : regions_(program.regions()),
        program_segments_(program.segments()),
        tasks_(tasks),
        deferred_(deferred),
        in_turn_(std::move(in_turn)),
        thread_(std::move(thread)),
        lender_(lender) {}

  /// Adds segments of the next region; `list` has their bytes.
  absl::Status AddSegments(const uroce_add_mr_segments& request, std::span<const uint8_t> list);
  absl::Status Register(const uroce_reg_mr& request, std::span<const uint8_t> list, Reply& reply);
  absl::Status Deregister(uint32_t handle, Reply& reply);
  absl::Status DestroySegment(uint32_t handle, Reply& reply);
  absl::Status TrimSegment(const uroce_trim_segment& request, Reply& reply);
  /// Releases the regions that are hidden.
  absl::Status LetGo(Reply& reply);

 private:
  struct Arrival;
  void PopulateLater(std::unique_ptr<MemoryObject> memory);
  void OnPopulated(const std::shared_ptr<Arrival>& arrival);
  /// Publishes the region once no other use of its memory is in its way: now, within `turn`, or
  /// later.
  absl::Status MakeWay(const std::shared_ptr<Arrival>& arrival, const InTurn& turn, Reply& reply);
  absl::Status Release(Reply& reply);
  absl::Status PublishFree(const std::shared_ptr<Arrival>& arrival, Reply& reply);
  absl::Status Publish(std::unique_ptr<MemoryObject> memory, Reply& reply);
  /// Calls `step`, which works until `is_over`, until it returns true; then calls `write`. Now,
  /// within `turn`, or later in the user's turns.
  using Step = std::function<absl::StatusOr<bool>(RemappedRegions::IsOver is_over)>;
  absl::Status InPieces(const Step& step, const DeferredReply::Writer& write, const InTurn& turn,
                        Reply& reply);

  Regions& regions_;
  Segments& program_segments_;
  BackgroundTasks& tasks_;
  DeferredReply& deferred_;
  const InTurn in_turn_;
  const std::shared_ptr<SideThread> thread_;
  const Lender lender_;
  SegmentList segments_;  ///< Segments of the next region.
};

}  // namespace uroce::nic
