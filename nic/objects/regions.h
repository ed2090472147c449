// SPDX-License-Identifier: Apache-2.0
// Memory regions of a program.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nic/objects/contexts.h"
#include "nic/objects/handle_table.h"
#include "nic/objects/program_core.h"
#include "nic/objects/program_part.h"
#include "nic/objects/remapped_regions.h"
#include "nic/objects/segments.h"
#include "pipeline/datapath/memory/memory_region.h"
#include "pipeline/shm/abi/uroce_commands.h"

namespace uroce::nic {

struct MemoryObject {
  ProtectionDomain* pd = nullptr;
  datapath::MemoryRegion region;
  uint64_t addr = 0;
  std::unique_ptr<QuotaShare> parts;               ///< The share of its user's parts that it takes.
  std::shared_ptr<Quota> program_quota;            ///< The program may be destroyed first.
  std::unique_ptr<QuotaShare> parts_of_program;    ///< The share of its program's parts.
  std::vector<std::shared_ptr<Segment>> segments;  ///< The targets of pointers in region.segments.
  Domain::Use copied;              ///< Set if the program's helper reaches parts of it, or did.
  uint32_t replaces = UROCE_NONE;  ///< Handle of the region that this one will replace.
  /// A region without rights; keeps the key's place while `region` is being replaced.
  std::unique_ptr<datapath::MemoryRegion> stand_in;
  const datapath::MemoryRegion* published() const { return stand_in ? stand_in.get() : &region; }
  /// Set by Hide and BeginDereg: the memory is free once Session::CopiesDone confirms this number
  /// of copies.
  uint64_t copies_begun = 0;
  /// Counted by workers. It is outside of `region`, which is copied.
  std::unique_ptr<std::atomic<uint32_t>> bound_windows = std::make_unique<std::atomic<uint32_t>>(0);
};

/// Control thread. The steps of a registration: nic/control/registrations.h.
class Regions : public ProgramPart {
 public:
  Regions(ProgramCore& core, const Contexts& contexts, const Segments& segments,
          RemappedRegions& remapped);

  /// Checks a region and finds the memory behind its segments.
  absl::StatusOr<std::unique_ptr<MemoryObject>> Plan(const uroce_reg_mr& request,
                                                     const uroce_mr_segment* segments) const;
  /// Hides the region that `memory` will replace from peers and workers, and lets older regions
  /// reach the memory they copy by the mappings of `memory`. False: copies up to
  /// memory.copies_begun may still be writing into that memory.
  bool MakeWay(MemoryObject& memory);
  /// Publishes the region to peers and workers. Its pages must be populated, and no copy may be
  /// running. A replacement takes the handle and key of the old region. Errors: ResourceExhausted.
  absl::StatusOr<uroce_reg_mr_reply> Publish(std::unique_ptr<MemoryObject> memory);
  absl::StatusOr<MemoryObject*> Find(uint32_t handle) const { return mrs_.Find(handle); }
  /// Hides the region from peers and workers. The memory is the program's again once CopiesDone is
  /// true and the object is destroyed. Errors: FailedPrecondition while windows are bound.
  absl::StatusOr<std::unique_ptr<MemoryObject>> BeginDereg(uint32_t handle);
  /// BeginDereg for all regions of a context, even with bound windows. They are kept here until
  /// TakeEnded.
  void EndAllOf(const Context& context) override;
  std::vector<std::unique_ptr<MemoryObject>> TakeEnded() { return std::exchange(ended_, {}); }
  /// False: a copy that began before is still running; ask again.
  bool CopiesDone(const std::vector<std::unique_ptr<MemoryObject>>& memory) const;
  bool CopiesDone(uint64_t copies) const { return core_.session().CopiesDone(copies); }

  void Unpublish() override;
  void Release() override;

  /// For dumps.
  const HandleTable<MemoryObject>& table() const { return mrs_; }

 private:
  absl::Status CountParts(uint32_t count, MemoryObject& memory) const;
  static absl::Status CheckRequest(const uroce_reg_mr& request, const uroce_mr_segment* segments);
  absl::StatusOr<datapath::MrSegment> Resolve(const uroce_reg_mr& request,
                                              const uroce_mr_segment& segment,
                                              MemoryObject& memory) const;
  static absl::Status CheckUnbound(const MemoryObject& memory);
  /// BeginDereg, even with bound windows.
  std::unique_ptr<MemoryObject> Take(uint32_t handle);
  void HideReplaced(const MemoryObject& memory);
  uroce_reg_mr_reply PublishReplacement(std::unique_ptr<MemoryObject> memory);
  bool CopiesDone(const MemoryObject& memory) const;

  ProgramCore& core_;
  const Contexts& contexts_;
  const Segments& segments_;
  RemappedRegions& remapped_;
  std::shared_ptr<Quota> mr_parts_;  ///< Each region counts its own parts.
  HandleTable<MemoryObject> mrs_;
  std::vector<std::unique_ptr<MemoryObject>> ended_;  ///< Regions of contexts that ended.
};

/// The number of bytes of the region that the daemon maps.
uint64_t MappedBytes(const MemoryObject& memory);
/// Populates all pages of the region: a worker must never page-fault. Any thread; takes about 0.1
/// to 0.5 ms per MB. Errors: ResourceExhausted.
absl::Status PopulateRegion(const MemoryObject& memory);

}  // namespace uroce::nic
