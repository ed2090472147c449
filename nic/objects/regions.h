// SPDX-License-Identifier: Apache-2.0
// Memory regions of a program, and the segments that they refer to: memory that the program and the
// daemon both map.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nic/objects/contexts.h"
#include "nic/objects/program_core.h"
#include "nic/objects/resources.h"
#include "pipeline/datapath/memory/memory_keys.h"
#include "pipeline/os/shared_memory.h"
#include "pipeline/os/side_thread.h"
#include "pipeline/shm/abi/uroce_commands.h"

namespace uroce::nic {

struct MemoryObject;
struct Segment;

/// Holds the published regions whose copied parts refer to the program's addresses: a later region
/// may map these (remapped_parts.h). Control thread.
class RemappedRegions {
 public:
  explicit RemappedRegions(ProgramCore& core) : core_(core) {}

  /// Adds `memory` if parts of it refer to addresses.
  void Add(MemoryObject& memory);
  void Remove(MemoryObject& memory) { regions_.erase(&memory); }
  /// Lets regions use the mappings of `memory` for what they copied there. True: some regions
  /// changed, and copies that have begun may still be running.
  bool Map(const MemoryObject& memory);
  /// Lets regions that use `mapping`, or a part of it, copy again.
  void Unmap(std::span<const uint8_t> mapping);

 private:
  /// `segments`: the segments that `parts` point into, beside those of `memory`.
  void Replace(MemoryObject& memory, std::vector<datapath::MrSegment> parts,
               const std::vector<std::shared_ptr<Segment>>& segments);

  ProgramCore& core_;
  std::set<MemoryObject*> regions_;
};

/// Memory that the daemon and a program both map: a memfd that replaced pages of the program, or a
/// part of the program's own file. Regions share a segment; it is unmapped with the last of them.
struct Segment {
  GuardedMapping mapping;
  UserAccount* account = nullptr;  ///< Counts the segment, if set.
  bool is_own_file = false;        ///< The program's own file, which it can truncate.
  bool may_write = true;           ///< The file allows it.
  bool is_writable = false;        ///< Mapped writable, once a region needs it.
};

/// Maps a segment so that a region with these rights can use it. Errors: InvalidArgument.
absl::Status AllowAccess(Segment& segment, uint32_t access);

/// The segments of one program. Control thread.
class Segments {
 public:
  /// `files_thread` closes what the program lends. `remapped` holds the regions that use a segment
  /// after remapping.
  Segments(ProgramCore& core, RemappedRegions& remapped, std::shared_ptr<SideThread> files_thread);

  absl::StatusOr<uint32_t> Create(const uroce_create_segment& request, Fd& file);
  /// Makes a segment from a mapping of the program's own file. Returns its handle. On an error the
  /// mapping stays with the caller, who unmaps it where that may take long.
  absl::StatusOr<uint32_t> AddShared(Mapping&& mapping, bool writable);
  absl::StatusOr<std::shared_ptr<Segment>*> Find(uint32_t handle) const {
    return segments_.Find(handle);
  }
  /// Call it when no region uses the segment or will. Afterwards no region reaches memory by it.
  absl::Status Destroy(uint32_t handle);
  /// Does the same for some pages of a segment; the other pages stay.
  absl::Status Trim(const uroce_trim_segment& request);

 private:
  absl::Status CheckMemory(uint64_t length) const;
  std::shared_ptr<Segment> Make(bool is_own_file) const;
  absl::StatusOr<uint32_t> Add(Mapping&& mapping, std::shared_ptr<Segment> segment);

  ProgramCore& core_;
  RemappedRegions& remapped_;
  const std::shared_ptr<SideThread> files_thread_;
  HandleTable<std::shared_ptr<Segment>> segments_;
};

/// A memory region, and what it holds.
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

/// The memory regions of one program. Control thread. The steps of a registration:
/// nic/control/registrations.h.
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
