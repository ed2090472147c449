// SPDX-License-Identifier: Apache-2.0
// One program as its worker sees it: doorbells, and what of its memory only a helper may touch.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "pipeline/base/types.h"
#include "verbs-shim/abi/uroce_abi.h"

namespace uroce::datapath {

class CopyHelper;

/// Made by nic, used by the worker between AddSession and RemoveSession.
class Session {
 public:
  /// `doorbells` lie in the arena; `wake_fd` is the eventfd that the program writes when it finds
  /// `sleeping` set. Both outlive this object.
  Session(uint32_t id, uroce_doorbells* doorbells, int wake_fd);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  uint32_t id() const { return id_; }
  uroce_doorbells* doorbells() const { return doorbells_; }
  int wake_fd() const { return wake_fd_; }

  /// Makes the helper thread for copied memory over the program's /proc/self/mem. Control thread,
  /// before the first copied region is published. The helper takes ownership of `mem_fd`. There is
  /// none afterwards where the system refuses the thread.
  /// `place` is held for as long as the thread lives, which may be longer than this object does.
  void StartCopyHelper(int mem_fd, std::shared_ptr<void> place = nullptr);
  /// Null before StartCopyHelper. Any thread.
  CopyHelper* copy_helper() const { return helper_.load(std::memory_order_acquire); }

  /// Copies begun so far. Taken after the grace period of an unpublished copied region, it is the
  /// number that CopiesDone must confirm before the program may reuse the memory. Control thread.
  uint64_t copies_begun() const;
  /// Whether the first `copies` copies have ended. They may never: the program's memory can block
  /// its reader for as long as it lives.
  bool CopiesDone(uint64_t copies) const;

 private:
  uint32_t id_;
  uroce_doorbells* doorbells_;
  int wake_fd_;
  std::unique_ptr<CopyHelper> owned_helper_;
  std::atomic<CopyHelper*> helper_{nullptr};
};

}  // namespace uroce::datapath
