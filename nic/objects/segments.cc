// SPDX-License-Identifier: Apache-2.0
#include "nic/objects/segments.h"

#include <infiniband/verbs.h>
#include <sys/mman.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "nic/base/page.h"
#include "nic/base/shared_memory.h"

namespace uroce::nic {
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
      segments_(Kind::kSegment, core.limits(), core.user()) {}

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

}  // namespace uroce::nic
