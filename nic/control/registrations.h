// SPDX-License-Identifier: Apache-2.0
// Registers and deregisters memory regions, step by step.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "nic/base/background_tasks.h"
#include "nic/base/message.h"
#include "nic/control/deferred_reply.h"
#include "nic/control/segment_list.h"
#include "nic/objects/regions.h"
#include "pipeline/shm/abi/uroce_commands.h"

namespace uroce::nic {

/// A region is planned; its pages are brought in, on a side thread where that takes long; when no
/// older copy into its memory is under way any more it is published. On its way back it is hidden,
/// and let go when no copy into it is under way any more: the answer says that the memory is the
/// program's alone again. One at a time. Control thread.
class Registrations {
 public:
  Registrations(Regions& regions, BackgroundTasks& tasks, DeferredReply& deferred)
      : regions_(regions), tasks_(tasks), deferred_(deferred) {}

  /// Segments of the next region, `list` being their bytes.
  absl::Status AddSegments(const uroce_add_mr_segments& request, std::span<const uint8_t> list);
  absl::Status Register(const uroce_reg_mr& request, std::span<const uint8_t> list, Reply& reply);
  absl::Status Deregister(uint32_t handle);
  /// For regions that are hidden.
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
  SegmentList segments_;  ///< Of the next region.
};

}  // namespace uroce::nic
