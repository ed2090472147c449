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
  std::unique_ptr<QuotaShare> parts;               ///< How many of its user's parts it takes.
  std::shared_ptr<Quota> program_quota;            ///< The program may go before it.
  std::unique_ptr<QuotaShare> parts_of_program;    ///< The same of its program's.
  std::vector<std::shared_ptr<Segment>> segments;  ///< Those that region.segments point into.
  Domain::Use copied;              ///< Where its program's helper reaches parts of it, or did.
  uint32_t replaces = UROCE_NONE;  ///< Handle of the region that this one is to become.
  /// Grants nothing; keeps the key's place while `region` is being replaced.
  std::unique_ptr<datapath::MemoryRegion> stand_in;
  const datapath::MemoryRegion* published() const { return stand_in ? stand_in.get() : &region; }
  /// Set by Hide and BeginDereg: Session::CopiesDone must confirm so many before the memory is
  /// free.
  uint64_t copies_begun = 0;
  /// Counted by workers. Here and not in `region`, which is copied.
  std::unique_ptr<std::atomic<uint32_t>> bound_windows = std::make_unique<std::atomic<uint32_t>>(0);
};

/// Control thread. How a region is registered, step by step: nic/control/registrations.h.
class Regions : public ProgramPart {
 public:
  Regions(ProgramCore& core, const Contexts& contexts, const Segments& segments,
          RemappedRegions& remapped);

  /// Checks a region and finds its bytes.
  absl::StatusOr<std::unique_ptr<MemoryObject>> Plan(const uroce_reg_mr& request,
                                                     const uroce_mr_segment* segments) const;
  /// Hides the region that `memory` is to replace from peers and workers, and has older regions
  /// reach what they copy by the mappings of `memory`. False: copies up to memory.copies_begun may
  /// be under way into what `memory` is to have.
  bool MakeWay(MemoryObject& memory);
  /// Makes it known to peers and workers; its pages are there, and no copy is under way. One that
  /// replaces another takes its handle and key. Errors: ResourceExhausted.
  absl::StatusOr<uroce_reg_mr_reply> Publish(std::unique_ptr<MemoryObject> memory);
  absl::StatusOr<MemoryObject*> Find(uint32_t handle) const { return mrs_.Find(handle); }
  /// Hides the region from peers and workers. The memory is the program's again once CopiesDone has
  /// said so, and the object has gone. Errors: FailedPrecondition while windows are bound to it.
  absl::StatusOr<std::unique_ptr<MemoryObject>> BeginDereg(uint32_t handle);
  /// BeginDereg for all regions of a context, whatever is bound to them. Until TakeEnded they are
  /// kept here.
  void EndAllOf(const Context& context) override;
  std::vector<std::unique_ptr<MemoryObject>> TakeEnded() { return std::exchange(ended_, {}); }
  /// False: a copy that began before is under way; ask again.
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
  /// BeginDereg, whatever is bound to it.
  std::unique_ptr<MemoryObject> Take(uint32_t handle);
  void HideReplaced(const MemoryObject& memory);
  uroce_reg_mr_reply PublishReplacement(std::unique_ptr<MemoryObject> memory);
  bool CopiesDone(const MemoryObject& memory) const;

  ProgramCore& core_;
  const Contexts& contexts_;
  const Segments& segments_;
  RemappedRegions& remapped_;
  std::shared_ptr<Quota> mr_parts_;  ///< Each region counts its own.
  HandleTable<MemoryObject> mrs_;
  std::vector<std::unique_ptr<MemoryObject>> ended_;  ///< With a context.
};

/// Bytes of the region that the daemon maps.
uint64_t MappedBytes(const MemoryObject& memory);
/// Brings all pages of the region in: a worker must never fault. Any thread; takes about 0.1 to
/// 0.5 ms per MB. Errors: ResourceExhausted.
absl::Status PopulateRegion(const MemoryObject& memory);

}  // namespace uroce::nic
