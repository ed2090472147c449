// SPDX-License-Identifier: Apache-2.0
// The memory of one program's queues and doorbells (layout: uroce_arena.h).
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "nic/base/extents.h"
#include "nic/base/fd.h"
#include "nic/base/side_thread.h"
#include "nic/objects/user_account.h"
#include "pipeline/shm/abi/uroce_arena.h"

namespace uroce::nic {

/// The memory is sparse: a page costs memory once it is touched. A returned range loses its pages,
/// so that a new queue starts as zeros. Control thread.
class Arena {
 public:
  /// What is taken counts against `of_user`, which outlives the arena. `reaper` unmaps the memory;
  /// without a reaper the destructor does.
  static absl::StatusOr<Arena> Make(uint32_t worker_count, Quota* of_user = nullptr,
                                    std::shared_ptr<SideThread> reaper = nullptr);

  /// Takes a zeroed, page-aligned range. Errors: ResourceExhausted.
  absl::StatusOr<uint64_t> Take(uint64_t length_bytes);
  /// Returns a range to the arena; no worker may use it any more.
  void Give(uint64_t offset, uint64_t length_bytes);

  template <typename T>
  T* At(uint64_t offset) const {
    return reinterpret_cast<T*>(storage_->mapping.data() + offset);
  }
  uroce_doorbells* doorbells(uint32_t worker) const {
    return At<uroce_doorbells>(UROCE_DOORBELLS_OFFSET) + worker;
  }
  int fd() const { return storage_->fd.get(); }

 private:
  struct Storage {
    Fd fd;
    Mapping mapping;
  };

  Arena(std::shared_ptr<Storage> storage, uint64_t queues_offset, Quota* of_user);

  std::shared_ptr<Storage> storage_;
  Extents extents_;
  QuotaShare share_;
};

}  // namespace uroce::nic
