// SPDX-License-Identifier: Apache-2.0
// Memory that a program and the daemon both map, under its memory regions.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nic/base/mapping_guard.h"
#include "nic/base/side_thread.h"
#include "nic/objects/handle_table.h"
#include "nic/objects/program_core.h"
#include "nic/objects/remapped_regions.h"
#include "pipeline/shm/abi/uroce_commands.h"

namespace uroce::nic {

/// Memory that the daemon and a program both map: a memfd that replaced pages of the program, or a
/// part of the program's own file. Regions share a segment; the last one that ends unmaps it.
struct Segment {
  GuardedMapping mapping;
  UserAccount* account = nullptr;  ///< Counts it, while set.
  bool is_own_file = false;        ///< The program's, which it can shrink.
  bool may_write = true;           ///< The file allows it.
  bool is_writable = false;        ///< Mapped so: once a region needs it.
};

/// Has a segment mapped so that a region with these rights may use it. Errors: InvalidArgument.
absl::Status AllowAccess(Segment& segment, uint32_t access);

/// Control thread.
class Segments {
 public:
  /// `files_thread` lets go of what the program lends. `remapped` knows the regions that a segment
  /// was remapped into.
  Segments(ProgramCore& core, RemappedRegions& remapped, std::shared_ptr<SideThread> files_thread);

  absl::StatusOr<uint32_t> Create(const uroce_create_segment& request, Fd& file);
  /// Makes a segment of a mapping of the program's own file. Returns its handle. One that is
  /// refused stays the caller's, to unmap where that may take long.
  absl::StatusOr<uint32_t> AddShared(Mapping&& mapping, bool writable);
  absl::StatusOr<std::shared_ptr<Segment>*> Find(uint32_t handle) const {
    return segments_.Find(handle);
  }
  /// No region has been told of it any more, or will; afterwards none reaches memory by it.
  absl::Status Destroy(uint32_t handle);
  /// The same for some pages of a segment, of which the others stay.
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

}  // namespace uroce::nic
