// SPDX-License-Identifier: Apache-2.0
// Memory that a program and the daemon both map; memory regions refer to it.
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

/// Control thread.
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

}  // namespace uroce::nic
