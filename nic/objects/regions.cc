// SPDX-License-Identifier: Apache-2.0
#include "nic/objects/regions.h"

#include <infiniband/verbs.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nic/objects/nic.h"
#include "nic/objects/numbers.h"
#include "nic/objects/remapped_parts.h"
#include "nic/objects/resources.h"
#include "nic/settings/config.h"
#include "pipeline/base/probes.h"
#include "pipeline/datapath/memory/copy_helper.h"
#include "pipeline/datapath/memory/memory_keys.h"
#include "pipeline/os/fd.h"
#include "pipeline/os/shared_memory.h"

namespace uroce::nic {
namespace {

/// Releases segments that no part of the region points into any more.
void DropUnused(MemoryObject& memory) {
  const auto& parts = memory.region.segments;
  std::erase_if(memory.segments, [&parts](const std::shared_ptr<Segment>& segment) {
    const uint8_t* start = segment->mapping.data();
    const uint8_t* end = start + segment->mapping.length();
    return std::none_of(parts.begin(), parts.end(), [&](const datapath::MrSegment& part) {
      return part.mode == datapath::MrMode::kMapped && start <= part.mapped && part.mapped < end;
    });
  });
}

}  // namespace

void RemappedRegions::Add(MemoryObject& memory) {
  const auto& parts = memory.region.segments;
  if (std::any_of(parts.begin(), parts.end(), [](const auto& p) { return p.follows_address; })) {
    regions_.insert(&memory);
  }
}

// Workers see the old or the new region; neither changes while they may read it.
void RemappedRegions::Replace(MemoryObject& memory, std::vector<datapath::MrSegment> parts,
                              const std::vector<std::shared_ptr<Segment>>& segments) {
  datapath::MemoryRegion next = memory.region;
  next.segments = parts;
  core_.nic().keys().Replace(&memory.region, &next);
  core_.AwaitGrace();
  memory.region.segments = std::move(parts);
  core_.nic().keys().Replace(&next, &memory.region);
  core_.AwaitGrace();
  memory.segments.insert(memory.segments.end(), segments.begin(), segments.end());
  DropUnused(memory);
}

bool RemappedRegions::Map(const MemoryObject& memory) {
  bool replaced = false;
  for (MemoryObject* older : regions_) {
    std::vector<datapath::MrSegment> parts =
        MapRemapped(older->region.segments, memory.region.segments);
    if (parts.empty()) continue;
    const uint32_t access = older->region.access;
    if (!std::ranges::all_of(memory.segments, [access](const auto& its) {
          return AllowAccess(*its, access).ok();
        })) {
      continue;
    }
    Replace(*older, std::move(parts), memory.segments);
    replaced = true;
  }
  return replaced;
}

void RemappedRegions::Unmap(std::span<const uint8_t> mapping) {
  for (MemoryObject* older : regions_) {
    std::vector<datapath::MrSegment> parts = CopyRemapped(older->region.segments, mapping);
    if (!parts.empty()) Replace(*older, std::move(parts), {});
  }
}

namespace {

constexpr uint64_t kGrowthBytes = uint64_t{1} << 40;  // Room for mremap to grow a swapped range.
constexpr uint64_t kMaxSegmentBytes = uint64_t{1} << 44;
constexpr uint32_t kWriting =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

}  // namespace

// A segment that no region writes to is mapped read-only.
absl::Status AllowAccess(Segment& segment, uint32_t access) {
  if (segment.is_writable || (access & kWriting) == 0) return absl::OkStatus();
  const GuardedMapping& mapping = segment.mapping;
  if (!segment.may_write ||
      mprotect(mapping.data(), mapping.length(), PROT_READ | PROT_WRITE) != 0) {
    return absl::InvalidArgumentError("mr: the segment is for reading");
  }
  segment.is_writable = true;
  return absl::OkStatus();
}

Segments::Segments(ProgramCore& core, RemappedRegions& remapped,
                   std::shared_ptr<SideThread> files_thread)
    : core_(core),
      remapped_(remapped),
      files_thread_(std::move(files_thread)),
      segments_(core.LimitsOf(Kind::kSegment)) {}

absl::Status Segments::CheckMemory(uint64_t length) const {
  const UserAccount& account = core_.user();
  const uint64_t limit = core_.limits().memory_per_user;
  if (length <= limit && account.memory_bytes <= limit - length) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("segment: user ", core_.uid(), " holds ",
                                                   account.memory_bytes, " bytes of ", limit,
                                                   ", see --max-memory-per-user"));
}

// The segment leaves the counts at once, and the files thread unmaps it: unmapping may free the
// whole file, which may be longer than the mapping. Meanwhile the program can lend no other.
std::shared_ptr<Segment> Segments::Make(bool is_own_file) const {
  return {new Segment{.is_own_file = is_own_file}, [thread = files_thread_](Segment* last) {
            std::unique_ptr<Segment> segment(last);
            if (UserAccount* const account = segment->account) {
              account->memory_bytes -= segment->mapping.length();
              --account->mappings.used;
            }
            thread->End(std::move(segment));
          }};
}

absl::StatusOr<uint32_t> Segments::Add(Mapping&& mapping, std::shared_ptr<Segment> segment) {
  if (absl::Status status = segments_.CheckRoom(); !status.ok()) return status;
  if (absl::Status status = CheckMemory(mapping.length()); !status.ok()) return status;
  UserAccount& account = core_.user();
  if (absl::Status status = account.mappings.Check("segment", 1); !status.ok()) return status;
  absl::StatusOr<GuardedMapping> guarded = GuardedMapping::Make(std::move(mapping), core_.id());
  if (!guarded.ok()) return guarded.status();
  segment->mapping = *std::move(guarded);
  segment->account = &account;
  account.memory_bytes += segment->mapping.length();
  ++account.mappings.used;
  return segments_.Add(std::make_unique<std::shared_ptr<Segment>>(std::move(segment)));
}

absl::StatusOr<uint32_t> Segments::Create(const uroce_create_segment& request, Fd& file) {
  const uint64_t length = request.length;
  if (length == 0 || length > kMaxSegmentBytes || request.addr % kPageBytes != 0 ||
      length % kPageBytes != 0) {
    return absl::InvalidArgumentError(absl::StrCat("segment: 0x", absl::Hex(request.addr), "+",
                                                   length, " is not a range of whole pages"));
  }
  if (absl::Status status = CheckMemory(length); !status.ok()) return status;
  absl::StatusOr<Fd> made = MakeSharedFile(UROCE_SEGMENT_NAME, length + kGrowthBytes);
  if (!made.ok()) return made.status();
  absl::StatusOr<Mapping> mapping = MapShared(made->get(), length, /*writable=*/false);
  if (!mapping.ok()) return mapping.status();
  absl::StatusOr<uint32_t> handle = Add(*std::move(mapping), Make(/*is_own_file=*/false));
  if (handle.ok()) file = *std::move(made);
  return handle;
}

absl::StatusOr<uint32_t> Segments::AddShared(Mapping&& mapping, bool writable) {
  std::shared_ptr<Segment> segment = Make(/*is_own_file=*/true);
  segment->may_write = segment->is_writable = writable;
  return Add(std::move(mapping), std::move(segment));
}

// Regions over the segment keep its mapping until the last of them ends. But the program will have
// other memory at the addresses of the regions that were remapped to it.
absl::Status Segments::Destroy(uint32_t handle) {
  const absl::StatusOr<std::shared_ptr<Segment>*> segment = segments_.Find(handle);
  if (!segment.ok()) return segment.status();
  const GuardedMapping& mapping = (**segment)->mapping;
  if (!(**segment)->is_own_file) remapped_.Unmap({mapping.data(), mapping.length()});
  segments_.Remove(handle);
  return absl::OkStatus();
}

absl::Status Segments::Trim(const uroce_trim_segment& request) {
  const absl::StatusOr<std::shared_ptr<Segment>*> segment = segments_.Find(request.segment);
  if (!segment.ok()) return segment.status();
  const GuardedMapping& mapping = (**segment)->mapping;
  const bool is_within =
      request.offset <= mapping.length() && request.length <= mapping.length() - request.offset;
  if (!is_within || request.offset % kPageBytes != 0 || request.length % kPageBytes != 0) {
    return absl::InvalidArgumentError(absl::StrCat("segment: ", request.offset, "+", request.length,
                                                   " is not a range of its whole pages"));
  }
  remapped_.Unmap({mapping.data() + request.offset, request.length});
  return absl::OkStatus();
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

/// Populates pages of a shared mapping. If it is writable, its pages are writable once populated:
/// populating by reading costs less than by writing.
absl::Status Populate(uint8_t* start, uint64_t length) {
  const auto address = reinterpret_cast<uintptr_t>(start);
  const uintptr_t begin = address / kPageBytes * kPageBytes;
  const uintptr_t end = (address + length + kPageBytes - 1) / kPageBytes * kPageBytes;
  if (madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_READ) == 0) {
    return absl::OkStatus();
  }
  if (errno == EFAULT) return absl::OutOfRangeError("mr: pages behind the end of their file");
  return absl::ResourceExhaustedError(
      absl::StrCat("mr: no memory for ", length, " bytes (errno ", errno, ")"));
}

void TraceRegistration(const MemoryObject& memory) {
  const datapath::MemoryRegion& region = memory.region;
  probes::Register(region.key, region.iova, region.length_bytes, region.access,
                   memory.pd->number());
}

}  // namespace

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
    // On-demand memory may change later: a mapping would not notice.
    result.follows_address = (request.access & IBV_ACCESS_ON_DEMAND) == 0;
    return result;
  }
  if (segment.mode == UROCE_MR_NULL) {
    if ((request.access & ~uint32_t{IBV_ACCESS_LOCAL_WRITE}) != 0) {
      return Refuse("nobody else reaches a null region");
    }
    result.mode = datapath::MrMode::kNull;
    return result;
  }
  if (segment.mode != UROCE_MR_MAPPED && segment.mode != UROCE_MR_SHARED) {
    return Refuse(absl::StrCat("there is no mode ", segment.mode));
  }
  const absl::StatusOr<std::shared_ptr<Segment>*> found = segments_.Find(segment.segment);
  if (!found.ok()) return found.status();
  if (absl::Status status = AllowAccess(***found, request.access); !status.ok()) return status;
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
    if (absl::Status status = CheckUnbound(**former); !status.ok()) return status;
  }
  auto memory = std::make_unique<MemoryObject>();
  memory->pd = *pd;
  memory->replaces = request.replaces;
  memory->addr = request.addr;
  datapath::MemoryRegion& region = memory->region;
  region.session = &core_.session();
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
  ++memory->pd->users;
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
  ++memory->pd->users;
  remapped_.Add(*memory);
  TraceRegistration(*memory);
  core_.nic().keys().Replace(&stand_in, &memory->region);
  core_.AwaitGrace();
  const std::unique_ptr<MemoryObject> former = mrs_.Exchange(handle, std::move(memory));
  --former->pd->users;
  return {handle, key, key, 0};
}

// Copies that are running into memory that `memory` maps must not overlap with its accesses; and no
// copy may be running into memory that the region had before.
bool Regions::MakeWay(MemoryObject& memory) {
  bool must_wait = remapped_.Map(memory);
  if (memory.replaces != UROCE_NONE) {
    HideReplaced(memory);
    must_wait = true;
  }
  if (!must_wait) return true;
  memory.copies_begun = core_.session().copies_begun();
  return CopiesDone(memory.copies_begun);
}

void Regions::HideReplaced(const MemoryObject& memory) {
  MemoryObject& former = **mrs_.Find(memory.replaces);
  remapped_.Remove(former);
  former.stand_in = std::make_unique<datapath::MemoryRegion>();
  former.stand_in->key = former.region.key;
  core_.nic().keys().Replace(&former.region, former.stand_in.get());
  core_.AwaitGrace();
}

uint64_t MappedBytes(const MemoryObject& memory) {
  uint64_t bytes = 0;
  for (const datapath::MrSegment& segment : memory.region.segments) {
    if (segment.mode == datapath::MrMode::kMapped) bytes += segment.length_bytes;
  }
  return bytes;
}

absl::Status PopulateRegion(const MemoryObject& memory) {
  for (const datapath::MrSegment& segment : memory.region.segments) {
    if (segment.mode != datapath::MrMode::kMapped) continue;
    absl::Status status = Populate(segment.mapped, segment.length_bytes);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<MemoryObject>> Regions::BeginDereg(uint32_t handle) {
  absl::StatusOr<MemoryObject*> found = mrs_.Find(handle);
  if (!found.ok()) return found.status();
  if (absl::Status status = CheckUnbound(**found); !status.ok()) return status;
  return Take(handle);
}

absl::Status Regions::CheckUnbound(const MemoryObject& memory) {
  const uint32_t windows = memory.bound_windows->load();
  if (windows == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("mr: ", windows, " windows are bound to it"));
}

std::unique_ptr<MemoryObject> Regions::Take(uint32_t handle) {
  std::unique_ptr<MemoryObject> memory = mrs_.Remove(handle);
  remapped_.Remove(*memory);
  core_.nic().keys().Unpublish(memory->published());
  core_.AwaitGrace();
  // No copy that begins after this can be into this region.
  memory->copies_begun = core_.session().copies_begun();
  --memory->pd->users;
  core_.nic().numbers().keys.Release(memory->region.key, Nic::Now());
  return memory;
}

bool Regions::CopiesDone(const MemoryObject& memory) const {
  const auto& segments = memory.region.segments;
  return std::none_of(
             segments.begin(), segments.end(),
             [](const auto& segment) { return segment.mode == datapath::MrMode::kCopied; }) ||
         core_.session().CopiesDone(memory.copies_begun);
}

bool Regions::CopiesDone(const std::vector<std::unique_ptr<MemoryObject>>& memory) const {
  return std::all_of(memory.begin(), memory.end(),
                     [this](const auto& object) { return CopiesDone(*object); });
}

void Regions::EndAllOf(const Context& context) {
  for (const uint32_t mr :
       mrs_.Handles([&](const MemoryObject& its) { return its.pd->context == &context; })) {
    ended_.push_back(Take(mr));
  }
}

void Regions::Unpublish() {
  mrs_.ForEach(
      [this](uint32_t, MemoryObject& memory) { core_.nic().keys().Unpublish(memory.published()); });
}

void Regions::Release() {
  mrs_.ForEach([this](uint32_t, MemoryObject& memory) {
    core_.nic().numbers().keys.Release(memory.region.key, Nic::Now());
  });
}

}  // namespace uroce::nic
