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
#include "nic/objects/lifetimes.h"
#include "nic/objects/program_core.h"
#include "nic/objects/resources.h"
#include "pipeline/datapath/memory/memory_keys.h"
#include "pipeline/os/fd.h"
#include "pipeline/os/shared_memory.h"
#include "pipeline/os/side_thread.h"
#include "pipeline/shm/abi/uroce_commands.h"

namespace uroce::nic {

struct MemoryObject;
struct Segment;

/// Holds the published regions whose copied parts refer to the program's addresses: a later region
/// may map these (remapped_parts.h). The parts that they are split into count against the quotas of
/// parts. Where half of a quota is used, a part stays copied or is copied again as a whole.
///
/// A change of many regions is made in pieces: it goes on until `is_over`, at least by one region,
/// and the caller calls again before any other change. Control thread.
class RemappedRegions {
 public:
  using IsOver = absl::FunctionRef<bool()>;
  struct Progress {
    bool is_done = false;      ///< False: call again.
    bool has_changed = false;  ///< Some regions changed; copies that began before may be running.
  };

  explicit RemappedRegions(ProgramCore& core) : core_(core) {}

  /// Adds `memory` if parts of it refer to addresses.
  void Add(MemoryObject& memory);
  void Remove(MemoryObject& memory) { regions_.erase(&memory); }
  /// Lets regions use the mappings of `memory` for what they copied there.
  Progress MapSome(const MemoryObject& memory, IsOver is_over);
  /// Lets regions that use `mapping`, or a part of it, copy again.
  Progress UnmapSome(std::span<const uint8_t> mapping, IsOver is_over);

 private:
  /// A region, and what it becomes.
  struct Change {
    MemoryObject* memory;
    datapath::MemoryRegion next;
    std::vector<std::shared_ptr<Segment>> segments;  ///< Those that the parts of `next` point into.
  };
  /// Plans the change of a region: the parts that it will have, or none where it stays.
  using Plan = absl::FunctionRef<std::vector<datapath::MrSegment>(const MemoryObject& memory)>;

  /// `further`: what new parts may point into, beside the segments that the region has.
  Progress ChangeSome(Plan plan, const std::vector<std::shared_ptr<Segment>>& further,
                      IsOver is_over);
  void Apply(std::vector<Change> changes) const;

  ProgramCore& core_;
  std::set<MemoryObject*> regions_;
  MemoryObject* last_ = nullptr;  ///< The change under way has come to here.
};

/// Which pages of a segment are populated when a region over it is registered.
enum class Populated : uint8_t {
  kPresent,  ///< Those that the kernel says are there (mincore(2)). Holes of the file stay holes.
  kAll,      ///< All. Of huge pages mincore says only which of them the daemon has mapped.
  kNone,     ///< None: mincore does not tell the daemon. Workers' faults find the pages.
};

/// Memory that the daemon and a program both map: a memfd that replaced pages of the program, or a
/// part of the program's own file. Regions share a segment; it is unmapped with the last of them.
struct Segment {
  GuardedMapping mapping;
  UserAccount* account = nullptr;  ///< Counts the segment, if set.
  bool is_own_file = false;        ///< The program's own file, which it can truncate.
  Populated populated = Populated::kPresent;
  /// Mapped so from the start: to change the protection of a gigabyte of pages takes 25 ms.
  bool is_writable = true;
};

/// Whether a region with these rights can use the segment. Errors: InvalidArgument.
absl::Status CheckWritable(const Segment& segment, uint32_t access);

/// The segments of one program. Control thread.
class Segments {
 public:
  /// `files_thread` closes what the program lends. `remapped` holds the regions that use a segment
  /// after remapping.
  Segments(ProgramCore& core, RemappedRegions& remapped, std::shared_ptr<SideThread> files_thread);

  /// The user of the program, who owns the files of further segments; before, it is the daemon's.
  void SetFileOwner(uid_t user) { file_owner_ = user; }
  /// Makes a file that is the memory of a segment. No program can free its pages (KeepPages), so no
  /// worker waits for it.
  absl::StatusOr<uint32_t> Create(const uroce_create_segment& request, Fd& file);
  /// Makes a segment from a mapping of the program's own file. Returns its handle. On an error the
  /// mapping stays with the caller, who unmaps it where that may take long.
  absl::StatusOr<uint32_t> AddShared(Mapping&& mapping, bool writable, Populated populated);
  absl::StatusOr<std::shared_ptr<Segment>*> Find(uint32_t handle) const {
    return segments_.Find(handle);
  }
  /// Call it when no region uses the segment or will. Works until `is_over`. Once it returns true,
  /// no region reaches memory by the segment; false: call it again before any other command.
  /// Errors: InvalidArgument.
  absl::StatusOr<bool> DestroySome(uint32_t handle, RemappedRegions::IsOver is_over);
  /// Does the same for some pages of a segment; the other pages stay.
  absl::StatusOr<bool> TrimSome(const uroce_trim_segment& request, RemappedRegions::IsOver is_over);
  /// Destroys segments at the program's end, once no region uses any. Returns whether none is left.
  bool EndSome(RemappedRegions::IsOver is_over) { return segments_.EndAll(is_over); }

 private:
  std::shared_ptr<Segment> Make(bool is_own_file) const;
  absl::StatusOr<Fd> MakeFile(uint64_t length) const;
  absl::StatusOr<uint32_t> Add(Mapping&& mapping, std::shared_ptr<Segment> segment);

  ProgramCore& core_;
  RemappedRegions& remapped_;
  const std::shared_ptr<SideThread> files_thread_;
  uid_t file_owner_;
  HandleTable<std::shared_ptr<Segment>> segments_;
};

/// A memory region, and what it holds.
struct MemoryObject {
  ProtectionDomain* pd = nullptr;
  Use<ProtectionDomain> pd_use;  ///< While it is in the table of its program's regions.
  datapath::MemoryRegion region;
  uint64_t addr = 0;
  std::unique_ptr<QuotaShare> parts;             ///< The share of its user's parts that it takes.
  std::shared_ptr<Quota> program_quota;          ///< The program may be destroyed first.
  std::unique_ptr<QuotaShare> parts_of_program;  ///< The share of its program's parts.
  /// The targets of pointers in region.segments. Of a region that is not published yet: one for
  /// each mapped part, in their order. Then: each once, by rising addresses.
  std::vector<std::shared_ptr<Segment>> segments;
  Domain::Use copied;              ///< Set if the program's helper reaches parts of it, or did.
  uint32_t replaces = UROCE_NONE;  ///< Handle of the region that this one will replace.
  /// A region without rights; keeps the key's place while `region` is being replaced.
  std::unique_ptr<datapath::MemoryRegion> stand_in;
  const datapath::MemoryRegion* published() const { return stand_in ? stand_in.get() : &region; }
  /// Set by MakeWay and BeginDereg. When Session::CopiesDone is true for it, no copy uses the
  /// memory any more.
  uint64_t copy_generation = 0;
  /// Counted by workers. It is outside of `region`, which is copied.
  std::unique_ptr<std::atomic<uint32_t>> bound_windows = std::make_unique<std::atomic<uint32_t>>(0);
};

/// The memory regions of one program. Control thread. The steps of a registration:
/// nic/control/registrations.h.
class Regions : public ProgramPart {
 public:
  Regions(ProgramCore& core, const Contexts& contexts, const Segments& segments,
          RemappedRegions& remapped);

  /// Makes the stage of the program's device memory, if it has none. `file` is for the program,
  /// which asks again if it had no room for the fd. Errors: InvalidArgument, ResourceExhausted.
  absl::Status CreateStage(Fd& file);
  /// Makes the program's copy lanes in the same way.
  absl::Status CreateCopies(Fd& file);
  /// Checks a region and finds the memory behind its segments.
  absl::StatusOr<std::unique_ptr<MemoryObject>> Plan(const uroce_reg_mr& request,
                                                     const uroce_mr_segment* segments) const;
  /// Hides the region that `memory` will replace from peers and workers, and lets older regions
  /// reach the memory they copy by the mappings of `memory`. Works until `is_over`; false: call it
  /// again before any other command. Once it returns true, copies up to memory.copy_generation may
  /// still be writing into that memory.
  bool MakeWay(MemoryObject& memory, RemappedRegions::IsOver is_over);
  /// Publishes the region to peers and workers. Its pages must be populated, and no copy may be
  /// running. A replacement takes the handle and key of the old region. Errors: ResourceExhausted.
  absl::StatusOr<uroce_reg_mr_reply> Publish(std::unique_ptr<MemoryObject> memory);
  absl::StatusOr<MemoryObject*> Find(uint32_t handle) const { return mrs_.Find(handle); }
  /// Hides the region from peers and workers. The memory is the program's again once ReleaseSome
  /// has returned true. Errors: FailedPrecondition while windows are bound.
  absl::Status BeginDereg(uint32_t handle);
  /// BeginDereg for regions of a context, even with bound windows.
  bool EndSomeOf(const Context& context, absl::FunctionRef<bool()> is_over) override;
  /// False: a copy into memory of hidden regions is still running; ask again.
  bool HiddenCopiesDone() const;
  /// Releases hidden regions, whose copies are done, until `is_over`. Returns whether none is left.
  bool ReleaseSome(absl::FunctionRef<bool()> is_over);
  /// False: a copy that began before is still running; ask again.
  bool CopiesDone(uint64_t generation) const { return core_.session().CopiesDone(generation); }

  bool EndSome(absl::FunctionRef<bool()> is_over) override;

  /// For dumps.
  const HandleTable<MemoryObject>& table() const { return mrs_; }

 private:
  /// Makes a file of zeros that the daemon maps, charged to the program as `name`, for `file`.
  absl::StatusOr<GuardedMapping> MakeOwnFile(const char* name, uint64_t length, Fd& file);
  absl::Status CountParts(uint32_t count, MemoryObject& memory) const;
  static absl::Status CheckRequest(const uroce_reg_mr& request, const uroce_mr_segment* segments);
  absl::StatusOr<datapath::MrSegment> Resolve(const uroce_reg_mr& request,
                                              const uroce_mr_segment& segment,
                                              MemoryObject& memory) const;
  static absl::Status CheckUnbound(const MemoryObject& memory);
  /// BeginDereg, even with bound windows.
  void Hide(uint32_t handle);
  void HideReplaced(const MemoryObject& memory);
  uroce_reg_mr_reply PublishReplacement(std::unique_ptr<MemoryObject> memory);

  ProgramCore& core_;
  const Contexts& contexts_;
  const Segments& segments_;
  RemappedRegions& remapped_;
  std::shared_ptr<Quota> mr_parts_;  ///< Each region counts its own parts.
  HandleTable<MemoryObject> mrs_;
  std::vector<std::unique_ptr<MemoryObject>> hidden_;  ///< By rising copy_generation.
  Fd stage_;
  Fd copies_;
};

/// Whether the region's pages are to be populated before it is published. Not for few pages of
/// segments: a worker that makes them itself, once, takes less time than another thread does. A
/// file of the program's may lack pages, which the answer to the registration says.
bool NeedsPopulating(const MemoryObject& memory);
/// Populates the pages of the region that its files have, so that a worker does not page-fault for
/// them. A page that was never touched stays absent, and the worker that first reaches it makes it:
/// registering alone allocates nothing. Any thread on which mincore(2) tells what `populated` of
/// its segments says; takes about 0.1 to 0.5 ms per MB that is there, and waits while the program
/// frees pages of these files. Call it before Publish. Errors: ResourceExhausted.
absl::Status PopulateRegion(const MemoryObject& memory);

}  // namespace uroce::nic
