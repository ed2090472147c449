// SPDX-License-Identifier: Apache-2.0
// A program, or an XRC domain, as its workers see it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "pipeline/datapath/thread/scheduling.h"
#include "pipeline/shm/abi/uroce_arena.h"

namespace uroce::datapath {

class AddressTable;
class AddressVector;
class CopyHelper;
class MemoryRest;
struct ProgramMemory;

/// What one program shares with one worker. Both outlive the session.
struct SessionLink {
  uroce_doorbells* doorbells = nullptr;  ///< In the arena.
  int wake_fd = -1;  ///< The eventfd that the program writes when it finds `sleeping` set.
};

/// One program: its doorbells, its address handles, and the helper that accesses its copied memory.
/// Made by nic, used by the workers between AddSession and RemoveSession.
class Session {
 public:
  /// `links` has one per worker. `uid` is the user, whose programs share limits. `rate` is what
  /// these programs may send together; null: no limit. `rest` is for their mapped memory; null: it
  /// never rests. Both outlive the session.
  Session(uint32_t id, std::vector<SessionLink> links, uint32_t uid = 0, SharedRate* rate = nullptr,
          MemoryRest* rest = nullptr);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  uint32_t id() const { return id_; }
  uint32_t uid() const { return uid_; }
  SharedRate* rate() const { return rate_; }
  MemoryRest* rest() const { return rest_; }
  uroce_doorbells* doorbells(uint32_t worker) const { return links_[worker].doorbells; }
  int wake_fd(uint32_t worker) const { return links_[worker].wake_fd; }

  /// Makes the copy helper, whose thread may outlive this object. Control thread, once, before the
  /// first copied region is published.
  void StartCopyHelper(ProgramMemory memory);
  /// Returns the copy helper; null before StartCopyHelper. Any thread.
  CopyHelper* copy_helper() const { return helper_.load(std::memory_order_acquire); }
  /// Whether the copy helper may have copies of mapped memory under way, since that rests. Any
  /// thread.
  bool has_mapped_copies() const;

  /// Makes room for the program's address handles, once. Control thread, before the first is set.
  void MakeAddressTable(uint32_t capacity);
  /// Sets an address handle for the workers, or clears it. Control thread, after MakeAddressTable.
  void SetAddress(uint32_t handle, const AddressVector* vector);
  /// Returns the address vector of `handle`, or null. Any worker, for this turn.
  const AddressVector* FindAddress(uint32_t handle) const;

  /// The number of copies that the helper or the program has begun. Any thread.
  uint64_t copies_begun() const;
  /// That of the newest copy; 0 without a helper. Read after the grace period of an unpublished
  /// copied region: CopiesDone must confirm it before the program may reuse the memory. Any thread.
  uint64_t copy_generation() const;
  /// Whether the copies up to that generation have ended. They may never end: the program's memory
  /// can block its reader for as long as it lives.
  bool CopiesDone(uint64_t generation) const;
  /// Whether copies for queue pairs that were reset or have ended still write to the program's
  /// memory. The same holds for their end. Any thread.
  bool HasLateWrites() const;

 private:
  uint32_t id_;
  uint32_t uid_;
  SharedRate* rate_;
  MemoryRest* rest_;
  std::vector<SessionLink> links_;
  std::unique_ptr<CopyHelper> owned_helper_;
  std::atomic<CopyHelper*> helper_{nullptr};
  std::unique_ptr<AddressTable> owned_addresses_;
  std::atomic<AddressTable*> addresses_{nullptr};
};

}  // namespace uroce::datapath
