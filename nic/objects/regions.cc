// SPDX-License-Identifier: Apache-2.0
#include "nic/objects/regions.h"

#include <fcntl.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nic/objects/nic.h"
#include "nic/objects/numbers.h"
#include "nic/objects/remapped_parts.h"
#include "nic/objects/resources.h"
#include "nic/settings/config.h"
#include "pipeline/base/observation.h"
#include "pipeline/datapath/memory/copy_helper.h"
#include "pipeline/datapath/memory/copy_lanes.h"
#include "pipeline/datapath/memory/memory_keys.h"
#include "pipeline/datapath/memory/stage.h"
#include "pipeline/os/credentials.h"
#include "pipeline/os/shared_memory.h"

namespace uroce::nic {
namespace {

using Targets = std::vector<std::shared_ptr<Segment>>;

const uint8_t* StartOf(const std::shared_ptr<Segment>& segment) { return segment->mapping.data(); }

/// Sorts by addresses in the daemon, and leaves each segment there once.
void SortSegments(Targets& segments) {
  std::ranges::sort(segments, {}, StartOf);
  segments.erase(std::unique(segments.begin(), segments.end()), segments.end());
}

/// The segment of a sorted list that holds the address, or null.
std::shared_ptr<Segment> SegmentAt(const Targets& segments, const uint8_t* address) {
  const auto next = std::ranges::upper_bound(segments, address, {}, StartOf);
  if (next == segments.begin()) return nullptr;
  const std::shared_ptr<Segment>& segment = *std::prev(next);
  const bool is_in = address < segment->mapping.data() + segment->mapping.length();
  return is_in ? segment : nullptr;
}

/// The segments of two sorted lists that `parts` point into, sorted.
Targets SegmentsOf(const std::vector<datapath::MrSegment>& parts, const Targets& these,
                   const Targets& those) {
  Targets used;
  for (const datapath::MrSegment& part : parts) {
    if (part.mode != datapath::MrMode::kMapped) continue;
    std::shared_ptr<Segment> segment = SegmentAt(these, part.mapped);
    if (segment == nullptr) segment = SegmentAt(those, part.mapped);
    if (used.empty() || used.back() != segment) used.push_back(std::move(segment));
  }
  SortSegments(used);
  return used;
}

/// The parts that splits may add to the region: they take half of a quota at most, so that further
/// regions find room.
uint64_t RoomForSplits(const MemoryObject& memory) {
  return std::min(memory.parts->room_in_half(), memory.parts_of_program->room_in_half());
}

/// Has the quotas of the region's user and program count `count` parts for it. False: too many.
bool Recount(const MemoryObject& memory, size_t count) {
  const size_t before = memory.region.segments.size();
  if (count <= before) {
    memory.parts->Give(before - count);
    memory.parts_of_program->Give(before - count);
    return true;
  }
  const uint64_t more = count - before;
  if (RoomForSplits(memory) < more) return false;
  memory.parts->Take(more);
  memory.parts_of_program->Take(more);
  return true;
}

bool MayOverlap(const MemoryObject& one, const MemoryObject& other) {
  return one.addr < other.addr + other.region.length_bytes &&
         other.addr < one.addr + one.region.length_bytes;
}

}  // namespace

void RemappedRegions::Add(MemoryObject& memory) {
  const auto& parts = memory.region.segments;
  if (std::any_of(parts.begin(), parts.end(), [](const auto& p) { return p.follows_address; })) {
    regions_.insert(&memory);
  }
}

// Workers see the old or the new region; neither changes while they may read it.
void RemappedRegions::Apply(std::vector<Change> changes) const {
  if (changes.empty()) return;
  datapath::KeyTable& keys = core_.nic().keys();
  for (const Change& change : changes) keys.Replace(&change.memory->region, &change.next);
  core_.AwaitGrace();
  for (Change& change : changes) {
    change.memory->region.segments = change.next.segments;
    keys.Replace(&change.next, &change.memory->region);
  }
  core_.AwaitGrace();
  for (Change& change : changes) change.memory->segments = std::move(change.segments);
}

RemappedRegions::Progress RemappedRegions::ChangeSome(Plan plan, const Targets& further,
                                                      IsOver is_over) {
  std::vector<Change> changes;
  auto at = last_ == nullptr ? regions_.begin() : regions_.upper_bound(last_);
  while (at != regions_.end()) {
    MemoryObject& memory = **at++;
    last_ = &memory;
    std::vector<datapath::MrSegment> parts = plan(memory);
    if (!parts.empty()) {
      Targets segments = SegmentsOf(parts, memory.segments, further);
      const bool may_access = std::ranges::all_of(segments, [&memory](const auto& its) {
        return CheckWritable(*its, memory.region.access).ok();
      });
      if (may_access && Recount(memory, parts.size())) {
        changes.push_back({&memory, memory.region, std::move(segments)});
        changes.back().next.segments = std::move(parts);
      }
    }
    if (is_over()) break;
  }
  const bool is_done = at == regions_.end();
  if (is_done) last_ = nullptr;
  const bool has_changed = !changes.empty();
  Apply(std::move(changes));
  return {is_done, has_changed};
}

RemappedRegions::Progress RemappedRegions::MapSome(const MemoryObject& memory, IsOver is_over) {
  if (memory.segments.empty()) return {.is_done = true};
  return ChangeSome(
      [&memory](const MemoryObject& older) {
        if (!MayOverlap(older, memory)) return std::vector<datapath::MrSegment>();
        return MapRemapped(older.region.segments, memory.region.segments);
      },
      memory.segments, is_over);
}

// A part that is copied again needs no room: it takes the place of the mapped one.
RemappedRegions::Progress RemappedRegions::UnmapSome(std::span<const uint8_t> mapping,
                                                     IsOver is_over) {
  return ChangeSome(
      [mapping](const MemoryObject& older) {
        return CopyRemapped(older.region.segments, mapping, RoomForSplits(older));
      },
      {}, is_over);
}

namespace {

constexpr uint64_t kGrowthBytes = uint64_t{1} << 40;  // Room for mremap to grow a swapped range.
constexpr uint64_t kMaxSegmentBytes = uint64_t{1} << 44;
constexpr uint32_t kWriting =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

}  // namespace

absl::Status CheckWritable(const Segment& segment, uint32_t access) {
  if (segment.is_writable || (access & kWriting) == 0) return absl::OkStatus();
  return absl::InvalidArgumentError("mr: the segment is for reading");
}

Segments::Segments(ProgramCore& core, RemappedRegions& remapped,
                   std::shared_ptr<SideThread> files_thread)
    : core_(core),
      remapped_(remapped),
      files_thread_(std::move(files_thread)),
      file_owner_(geteuid()),
      segments_(core.LimitsOf(Kind::kSegment)) {}

// The segment leaves the counts at once, and the files thread unmaps it: unmapping may free the
// whole file, which may be longer than the mapping. Meanwhile the program can lend no other.
std::shared_ptr<Segment> Segments::Make(bool is_own_file) const {
  return {new Segment{.is_own_file = is_own_file}, [thread = files_thread_](Segment* last) {
            std::unique_ptr<Segment> segment(last);
            if (UserAccount* const account = segment->account) {
              account->memory.Give(segment->mapping.length());
              account->mappings.Give(1);
            }
            thread->End(std::move(segment));
          }};
}

absl::StatusOr<uint32_t> Segments::Add(Mapping&& mapping, std::shared_ptr<Segment> segment) {
  if (absl::Status status = segments_.CheckRoom(); !status.ok()) return status;
  UserAccount& account = core_.user();
  const uint64_t bytes = mapping.length();
  if (absl::Status status = account.memory.Check("segment", bytes); !status.ok()) return status;
  if (absl::Status status = account.mappings.Check("segment", 1); !status.ok()) return status;
  absl::StatusOr<GuardedMapping> guarded = GuardedMapping::Make(std::move(mapping), core_.id());
  if (!guarded.ok()) return guarded.status();
  segment->mapping = *std::move(guarded);
  segment->account = &account;
  account.memory.Take(bytes);
  account.mappings.Take(1);
  return segments_.Add(std::make_unique<std::shared_ptr<Segment>>(std::move(segment)));
}

// mincore(2) tells only the owner of an immutable file which pages are there: the program, and the
// daemon's threads that act for its user.
absl::StatusOr<Fd> Segments::MakeFile(uint64_t length) const {
  const FileOwner owner(file_owner_);
  absl::StatusOr<Fd> made = MakeSharedFile(UROCE_SEGMENT_NAME, length + kGrowthBytes);
  if (made.ok()) KeepPages(made->get());
  return made;
}

absl::StatusOr<uint32_t> Segments::Create(const uroce_create_segment& request, Fd& file) {
  const uint64_t length = request.length;
  if (length == 0 || length > kMaxSegmentBytes || request.addr % kPageBytes != 0 ||
      length % kPageBytes != 0) {
    return absl::InvalidArgumentError(absl::StrCat("segment: 0x", absl::Hex(request.addr), "+",
                                                   length, " is not a range of whole pages"));
  }
  if (absl::Status status = core_.user().memory.Check("segment", length); !status.ok()) {
    return status;
  }
  absl::StatusOr<Fd> made = MakeFile(length);
  if (!made.ok()) return made.status();
  absl::StatusOr<Mapping> mapping = MapShared(made->get(), length);
  if (!mapping.ok()) return mapping.status();
  absl::StatusOr<uint32_t> handle = Add(*std::move(mapping), Make(/*is_own_file=*/false));
  if (handle.ok()) file = *std::move(made);
  return handle;
}

absl::StatusOr<uint32_t> Segments::AddShared(Mapping&& mapping, bool writable,
                                             Populated populated) {
  std::shared_ptr<Segment> segment = Make(/*is_own_file=*/true);
  segment->populated = populated;
  segment->is_writable = writable;
  return Add(std::move(mapping), std::move(segment));
}

// Regions over the segment keep its mapping until the last of them ends. But the program will have
// other memory at the addresses of the regions that were remapped to it.
absl::StatusOr<bool> Segments::DestroySome(uint32_t handle, RemappedRegions::IsOver is_over) {
  const absl::StatusOr<std::shared_ptr<Segment>*> segment = segments_.Find(handle);
  if (!segment.ok()) return segment.status();
  const GuardedMapping& mapping = (**segment)->mapping;
  const bool is_done = (**segment)->is_own_file ||
                       remapped_.UnmapSome({mapping.data(), mapping.length()}, is_over).is_done;
  if (is_done) segments_.Remove(handle);
  return is_done;
}

absl::StatusOr<bool> Segments::TrimSome(const uroce_trim_segment& request,
                                        RemappedRegions::IsOver is_over) {
  const absl::StatusOr<std::shared_ptr<Segment>*> segment = segments_.Find(request.segment);
  if (!segment.ok()) return segment.status();
  const GuardedMapping& mapping = (**segment)->mapping;
  const bool is_within =
      request.offset <= mapping.length() && request.length <= mapping.length() - request.offset;
  if (!is_within || request.offset % kPageBytes != 0 || request.length % kPageBytes != 0) {
    return absl::InvalidArgumentError(absl::StrCat("segment: ", request.offset, "+", request.length,
                                                   " is not a range of its whole pages"));
  }
  return remapped_.UnmapSome({mapping.data() + request.offset, request.length}, is_over).is_done;
}

namespace {

constexpr uint32_t kRemoteWriting = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
constexpr uint32_t kKnownAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                  IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                                  IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_HUGETLB |
                                  IBV_ACCESS_ON_DEMAND;

absl::Status Refuse(absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("mr: ", why));
}

bool NeedsHelper(const datapath::MrSegment& segment) {
  return segment.mode == datapath::MrMode::kCopied || segment.follows_address;
}

constexpr size_t kLookPages = 512;  // of mincore(2) at a time

bool Wraps(uint64_t start, uint64_t length) { return start + length < start; }

absl::Status CheckAccess(uint32_t access) {
  const uint32_t unknown = access & ~(kKnownAccess | IBV_ACCESS_OPTIONAL_RANGE);
  if (unknown != 0) return Refuse(absl::StrCat("access flags 0x", absl::Hex(unknown)));
  // docs/protocol/verbs-semantics.md, section 5.
  if ((access & kRemoteWriting) != 0 && (access & IBV_ACCESS_LOCAL_WRITE) == 0) {
    return Refuse("REMOTE_WRITE and REMOTE_ATOMIC need LOCAL_WRITE");
  }
  return absl::OkStatus();
}

/// Populates whole pages of a shared mapping. If it is writable, its pages are writable once
/// populated: populating by reading costs less than by writing.
absl::Status PopulatePages(uintptr_t begin, uintptr_t end) {
  if (madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_READ) == 0) {
    return absl::OkStatus();
  }
  if (errno == EFAULT) return absl::OutOfRangeError("mr: pages behind the end of their file");
  return absl::ResourceExhaustedError(
      absl::StrCat("mr: no memory for ", end - begin, " bytes (errno ", errno, ")"));
}

/// Populates the pages from `begin` to `end`, at most kLookPages, that the file has. None of them
/// where the kernel does not tell.
absl::Status PopulatePresent(uintptr_t begin, uintptr_t end) {
  std::array<unsigned char, kLookPages> pages;
  if (mincore(reinterpret_cast<void*>(begin), end - begin, pages.data()) != 0) {
    return absl::OkStatus();
  }
  const auto* const first = pages.data();
  const auto* const last = first + (end - begin) / kPageBytes;
  const auto is_present = [](unsigned char page) { return (page & 1) != 0; };
  for (const auto* at = std::find_if(first, last, is_present); at != last;) {
    const auto* const gap = std::find_if_not(at, last, is_present);
    absl::Status status = PopulatePages(begin + static_cast<uintptr_t>(at - first) * kPageBytes,
                                        begin + static_cast<uintptr_t>(gap - first) * kPageBytes);
    if (!status.ok()) return status;
    at = std::find_if(gap, last, is_present);
  }
  return absl::OkStatus();
}

/// In pieces: mmap and munmap of the control thread wait while the kernel populates one.
absl::Status Populate(const datapath::MrSegment& segment, Populated populated) {
  if (populated == Populated::kNone) return absl::OkStatus();
  const auto address = reinterpret_cast<uintptr_t>(segment.mapped);
  const uintptr_t begin = address / kPageBytes * kPageBytes;
  const uintptr_t end = (address + segment.length_bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  for (uintptr_t at = begin; at < end; at += kLookPages * kPageBytes) {
    const uintptr_t next = std::min(end, at + kLookPages * kPageBytes);
    absl::Status status =
        populated == Populated::kAll ? PopulatePages(at, next) : PopulatePresent(at, next);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

void TraceRegistration(const MemoryObject& memory) {
  const datapath::MemoryRegion& region = memory.region;
  probes::Register(region.key, region.iova, region.length_bytes, region.access,
                   memory.pd->number());
}

absl::Status Duplicate(const Fd& fd, Fd& copy) {
  copy = Fd(fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
  return copy ? absl::OkStatus() : absl::ErrnoToStatus(errno, "mr: stage");
}

}  // namespace

// The file is new, so that no lock of it is held. The helper's thread unmaps it.
absl::StatusOr<GuardedMapping> Regions::MakeOwnFile(const char* name, uint64_t length, Fd& file) {
  absl::StatusOr<Fd> made = MakeSharedFile(absl::StrCat("uroce-", name).c_str(), length);
  if (!made.ok()) return made.status();
  KeepPages(made->get());
  absl::StatusOr<Mapping> mapping = MapShared(made->get(), length);
  if (!mapping.ok()) return mapping.status();
  absl::StatusOr<GuardedMapping> guarded = GuardedMapping::Make(*std::move(mapping), core_.id());
  if (!guarded.ok()) return guarded.status();
  if (absl::Status status = core_.TakeOwnBytes(name, length); !status.ok()) return status;
  file = *std::move(made);
  return guarded;
}

absl::Status Regions::CreateStage(Fd& file) {
  datapath::CopyHelper* const helper = core_.session().copy_helper();
  if (helper == nullptr) return Refuse("a stage needs /proc/self/mem first");
  if (helper->stage_counters() != nullptr) return Duplicate(stage_, file);
  const uint32_t workers = helper->workers();
  absl::StatusOr<GuardedMapping> made =
      MakeOwnFile("stage", datapath::CopyLanes::BytesWithStage(workers), stage_);
  if (!made.ok()) return made.status();
  const auto memory = std::make_shared<const GuardedMapping>(*std::move(made));
  helper->SetStage(std::make_unique<datapath::Stage>(memory),
                   datapath::CopyLanes::OfStage(memory, workers));
  return Duplicate(stage_, file);
}

absl::Status Regions::CreateCopies(Fd& file) {
  datapath::CopyHelper* const helper = core_.session().copy_helper();
  if (helper == nullptr) return Refuse("copy lanes need /proc/self/mem first");
  if (helper->lane_counters() != nullptr) return Duplicate(copies_, file);
  const uint32_t workers = helper->workers();
  absl::StatusOr<GuardedMapping> made =
      MakeOwnFile("copies", datapath::CopyLanes::BytesFor(workers), copies_);
  if (!made.ok()) return made.status();
  helper->SetLanes(std::make_unique<datapath::CopyLanes>(*std::move(made), workers));
  return Duplicate(copies_, file);
}

Regions::Regions(ProgramCore& core, const Contexts& contexts, const Segments& segments,
                 RemappedRegions& remapped)
    : core_(core),
      contexts_(contexts),
      segments_(segments),
      remapped_(remapped),
      mr_parts_(std::make_shared<Quota>(
          Quota{core.uid(), core.limits().kinds.of(Kind::kMrPart).of_program, "--max-mr-parts"})),
      mrs_(core.LimitsOf(Kind::kMr)) {}

absl::Status Regions::CountParts(uint32_t count, MemoryObject& memory) const {
  Quota& of_user = core_.user().of(Kind::kMrPart);
  if (absl::Status status = mr_parts_->Check("mr parts", count); !status.ok()) return status;
  if (absl::Status status = of_user.Check("mr parts", count); !status.ok()) return status;
  memory.parts = std::make_unique<QuotaShare>(&of_user);
  memory.parts->Take(count);
  memory.program_quota = mr_parts_;
  memory.parts_of_program = std::make_unique<QuotaShare>(mr_parts_.get());
  memory.parts_of_program->Take(count);
  return absl::OkStatus();
}

absl::Status Regions::CheckRequest(const uroce_reg_mr& request, const uroce_mr_segment* segments) {
  if (absl::Status status = CheckAccess(request.access); !status.ok()) return status;
  if (Wraps(request.addr, request.length) || Wraps(request.iova, request.length)) {
    return Refuse("the range wraps");
  }
  const bool zero_based = (request.access & IBV_ACCESS_ZERO_BASED) != 0;
  if (zero_based ? request.iova != 0 : (request.addr ^ request.iova) % kPageBytes != 0) {
    return Refuse(absl::StrCat("iova 0x", absl::Hex(request.iova), " does not suit address 0x",
                               absl::Hex(request.addr)));
  }
  uint64_t next = request.addr;
  for (uint32_t i = 0; i < request.segment_count; ++i) {
    const uroce_mr_segment& segment = segments[i];
    if (segment.addr != next || segment.length == 0 ||
        segment.length > request.addr + request.length - next) {
      return Refuse(absl::StrCat("segment ", i, " does not continue the region"));
    }
    next += segment.length;
  }
  if (next != request.addr + request.length) return Refuse("the segments end before the region");
  return absl::OkStatus();
}

absl::StatusOr<datapath::MrSegment> Regions::Resolve(const uroce_reg_mr& request,
                                                     const uroce_mr_segment& segment,
                                                     MemoryObject& memory) const {
  datapath::MrSegment result{.iova = request.iova + (segment.addr - request.addr),
                             .length_bytes = segment.length,
                             .app_addr = segment.addr};
  result.reason = static_cast<uint8_t>(segment.reason);
  if (segment.mode == UROCE_MR_COPIED) {
    if (core_.session().copy_helper() == nullptr)
      return Refuse("copied memory needs /proc/self/mem first");
    result.mode = datapath::MrMode::kCopied;
    result.may_wait = uroce_access_may_wait(segment.reason);
    // On-demand memory may change later: a mapping would not notice.
    result.follows_address = (request.access & IBV_ACCESS_ON_DEMAND) == 0;
    return result;
  }
  if (segment.mode == UROCE_MR_STAGED) {
    const datapath::CopyHelper* const helper = core_.session().copy_helper();
    if (helper == nullptr || helper->stage_counters() == nullptr) {
      return Refuse("staged memory needs a stage first");
    }
    result.mode = datapath::MrMode::kCopied;
    result.is_staged = result.may_wait = true;
    return result;
  }
  if (segment.mode == UROCE_MR_NULL) {
    if ((request.access & ~uint32_t{IBV_ACCESS_LOCAL_WRITE}) != 0) {
      return Refuse("no peer reaches a null region");
    }
    result.mode = datapath::MrMode::kNull;
    return result;
  }
  if (segment.mode != UROCE_MR_MAPPED && segment.mode != UROCE_MR_SHARED) {
    return Refuse(absl::StrCat("there is no mode ", segment.mode));
  }
  const absl::StatusOr<std::shared_ptr<Segment>*> found = segments_.Find(segment.segment);
  if (!found.ok()) return found.status();
  if (absl::Status status = CheckWritable(***found, request.access); !status.ok()) return status;
  const GuardedMapping& mapping = (**found)->mapping;
  if (segment.segment_offset > mapping.length() ||
      segment.length > mapping.length() - segment.segment_offset) {
    return Refuse("beyond the end of its segment");
  }
  // Atomics rely on this: an address aligned for the program is aligned for the daemon.
  if ((segment.segment_offset ^ segment.addr) % kPageBytes != 0) {
    return Refuse("the offset in the segment does not suit the address");
  }
  result.mode = datapath::MrMode::kMapped;
  result.mapped = mapping.data() + segment.segment_offset;
  result.is_own_file = (**found)->is_own_file;
  memory.segments.push_back(**found);
  memory.region.segment_handles.push_back(segment.segment);
  return result;
}

absl::StatusOr<std::unique_ptr<MemoryObject>> Regions::Plan(
    const uroce_reg_mr& request, const uroce_mr_segment* segments) const {
  const absl::StatusOr<ProtectionDomain*> pd = contexts_.FindPd(request.pd);
  if (!pd.ok()) return pd.status();
  if (absl::Status status = CheckRequest(request, segments); !status.ok()) return status;
  if (request.replaces != UROCE_NONE) {
    const absl::StatusOr<MemoryObject*> former = mrs_.Find(request.replaces);
    if (!former.ok()) return former.status();
    if (absl::Status status = CheckContext("mr", *(*former)->pd->context, {(*pd)->context});
        !status.ok()) {
      return status;
    }
    if (absl::Status status = CheckUnbound(**former); !status.ok()) return status;
  }
  auto memory = std::make_unique<MemoryObject>();
  memory->pd = *pd;
  memory->replaces = request.replaces;
  memory->addr = request.addr;
  datapath::MemoryRegion& region = memory->region;
  region.session = &core_.session();
  region.rest = core_.session().rest();
  region.has_helper = core_.session().copy_helper() != nullptr;
  region.bound_windows = memory->bound_windows.get();
  region.pd = (*pd)->number();
  region.access = request.access;
  region.iova = request.iova;
  region.length_bytes = request.length;
  if (absl::Status status = CountParts(request.segment_count, *memory); !status.ok()) return status;
  for (uint32_t i = 0; i < request.segment_count; ++i) {
    absl::StatusOr<datapath::MrSegment> segment = Resolve(request, segments[i], *memory);
    if (!segment.ok()) return segment.status();
    region.segments.push_back(*segment);
  }
  if (!std::ranges::any_of(region.segments, NeedsHelper)) return memory;
  memory->copied = (*pd)->domain->HoldCopiedMemory();
  if (memory->copied != nullptr) return memory;
  return absl::UnimplementedError("mr: copied memory cannot be shared with another program");
}

absl::StatusOr<uroce_reg_mr_reply> Regions::Publish(std::unique_ptr<MemoryObject> memory) {
  if (memory->replaces != UROCE_NONE) return PublishReplacement(std::move(memory));
  if (absl::Status status = mrs_.CheckRoom(); !status.ok()) return status;
  datapath::MemoryRegion& region = memory->region;
  region.key = core_.nic().numbers().keys.Take(Nic::Now());
  if (region.key == 0) return absl::ResourceExhaustedError("mr: no key is free");
  if (!core_.nic().keys().Publish(&region)) {
    core_.nic().numbers().keys.Release(region.key, Nic::Now());
    return absl::ResourceExhaustedError("mr: the daemon's table is full, see --max-total-mr");
  }
  memory->pd_use = Use(memory->pd);
  const uint32_t key = region.key;
  remapped_.Add(*memory);
  TraceRegistration(*memory);
  return uroce_reg_mr_reply{*mrs_.Add(std::move(memory)), key, key, 0};
}

uroce_reg_mr_reply Regions::PublishReplacement(std::unique_ptr<MemoryObject> memory) {
  const uint32_t handle = memory->replaces;
  const datapath::MemoryRegion& stand_in = *(*mrs_.Find(handle))->stand_in;
  const uint32_t key = stand_in.key;
  memory->replaces = UROCE_NONE;
  memory->region.key = key;
  memory->pd_use = Use(memory->pd);
  remapped_.Add(*memory);
  TraceRegistration(*memory);
  core_.nic().keys().Replace(&stand_in, &memory->region);
  core_.AwaitGrace();
  mrs_.Exchange(handle, std::move(memory));
  return {handle, key, key, 0};
}

// Copies that are running into memory that `memory` maps must not overlap with its accesses; and no
// copy may be running into memory that the region had before.
bool Regions::MakeWay(MemoryObject& memory, RemappedRegions::IsOver is_over) {
  SortSegments(memory.segments);
  const RemappedRegions::Progress mapped = remapped_.MapSome(memory, is_over);
  const bool is_hidden = mapped.is_done && memory.replaces != UROCE_NONE;
  if (is_hidden) HideReplaced(memory);
  if (is_hidden || mapped.has_changed) memory.copy_generation = core_.session().copy_generation();
  return mapped.is_done;
}

void Regions::HideReplaced(const MemoryObject& memory) {
  MemoryObject& former = **mrs_.Find(memory.replaces);
  remapped_.Remove(former);
  former.stand_in = std::make_unique<datapath::MemoryRegion>();
  former.stand_in->key = former.region.key;
  core_.nic().keys().Replace(&former.region, former.stand_in.get());
  core_.AwaitGrace();
}

bool NeedsPopulating(const MemoryObject& memory) {
  constexpr uint64_t kFewBytes = 16 * kPageBytes;
  uint64_t bytes = 0;
  for (const datapath::MrSegment& segment : memory.region.segments) {
    if (segment.mode == datapath::MrMode::kMapped) bytes += segment.length_bytes;
  }
  return bytes > kFewBytes || std::ranges::any_of(memory.segments, [](const auto& segment) {
           return segment->is_own_file;
         });
}

// Resolve adds one segment for each mapped part, in the order of the parts.
absl::Status PopulateRegion(const MemoryObject& memory) {
  auto segment = memory.segments.begin();
  for (const datapath::MrSegment& part : memory.region.segments) {
    if (part.mode != datapath::MrMode::kMapped) continue;
    absl::Status status = Populate(part, (*segment++)->populated);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Regions::BeginDereg(uint32_t handle) {
  absl::StatusOr<MemoryObject*> found = mrs_.Find(handle);
  if (!found.ok()) return found.status();
  if (absl::Status status = CheckUnbound(**found); !status.ok()) return status;
  Hide(handle);
  return absl::OkStatus();
}

absl::Status Regions::CheckUnbound(const MemoryObject& memory) {
  const uint32_t windows = memory.bound_windows->load();
  if (windows == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("mr: ", windows, " windows are bound to it"));
}

void Regions::Hide(uint32_t handle) {
  std::unique_ptr<MemoryObject> memory = mrs_.Remove(handle);
  remapped_.Remove(*memory);
  core_.nic().keys().Unpublish(memory->published());
  core_.AwaitGrace();
  // No copy that begins after this can be into this region.
  memory->copy_generation = core_.session().copy_generation();
  memory->pd_use = {};
  core_.nic().numbers().keys.Release(memory->region.key, Nic::Now());
  hidden_.push_back(std::move(memory));
}

// The copies of the last one began last.
bool Regions::HiddenCopiesDone() const {
  const auto is_copied = [](const std::unique_ptr<MemoryObject>& memory) {
    const auto& segments = memory->region.segments;
    return std::any_of(segments.begin(), segments.end(), [](const auto& segment) {
      return segment.mode == datapath::MrMode::kCopied;
    });
  };
  return hidden_.empty() || core_.session().CopiesDone(hidden_.back()->copy_generation) ||
         (!core_.session().has_mapped_copies() &&
          std::none_of(hidden_.begin(), hidden_.end(), is_copied));
}

bool Regions::ReleaseSome(absl::FunctionRef<bool()> is_over) {
  constexpr size_t kTogether = 16;  // Some us.
  while (!hidden_.empty()) {
    for (size_t i = 0; i < kTogether && !hidden_.empty(); ++i) hidden_.pop_back();
    if (is_over()) return hidden_.empty();
  }
  return true;
}

bool Regions::EndSomeOf(const Context& context, absl::FunctionRef<bool()> is_over) {
  return mrs_.EndSome([&](const MemoryObject& its) { return its.pd->context == &context; }, is_over,
                      [this](uint32_t mr) { Hide(mr); });
}

bool Regions::EndSome(absl::FunctionRef<bool()> is_over) {
  if (!ReleaseSome(is_over)) return false;
  return mrs_.EndAll(is_over, [this](auto leaving) {
    for (const auto& memory : leaving) {
      remapped_.Remove(*memory);
      core_.nic().keys().Unpublish(memory->published());
    }
    core_.AwaitGrace();
    for (const auto& memory : leaving) {
      core_.nic().numbers().keys.Release(memory->region.key, Nic::Now());
    }
  });
}

}  // namespace uroce::nic
