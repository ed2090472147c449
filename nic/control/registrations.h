// SPDX-License-Identifier: Apache-2.0
// Registers and deregisters memory regions of one program, on a side thread if that takes long.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nic/base/event_loop.h"
#include "nic/base/reply.h"
#include "nic/objects/regions.h"
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
/// To register, a region is planned; its pages are populated, on a side thread if that takes long;
/// it is published once no earlier copy into its memory is running. To deregister, a region is
/// hidden, and released once no copy into it is running: the answer says that the memory belongs to
/// the program alone again. One at a time. Control thread.
class Registrations {
 public:
  Registrations(Regions& regions, BackgroundTasks& tasks, DeferredReply& deferred)
      : regions_(regions), tasks_(tasks), deferred_(deferred) {}

  /// Adds segments of the next region; `list` has their bytes.
  absl::Status AddSegments(const uroce_add_mr_segments& request, std::span<const uint8_t> list);
  absl::Status Register(const uroce_reg_mr& request, std::span<const uint8_t> list, Reply& reply);
  absl::Status Deregister(uint32_t handle);
  /// Releases regions that are hidden.
  absl::Status LetGo(std::vector<std::unique_ptr<MemoryObject>> memory);

 private:
  struct Arrival;
  void PopulateLater(std::unique_ptr<MemoryObject> memory);
  void OnPopulated(const std::shared_ptr<Arrival>& arrival);
  void PublishLater(const std::shared_ptr<Arrival>& arrival);
  absl::Status Publish(std::unique_ptr<MemoryObject> memory, Reply& reply);

  Regions& regions_;
  BackgroundTasks& tasks_;
  DeferredReply& deferred_;
  SegmentList segments_;  ///< Segments of the next region.
};

}  // namespace uroce::nic
