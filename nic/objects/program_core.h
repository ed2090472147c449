// SPDX-License-Identifier: Apache-2.0
// What all parts of a program share: its numbers, its queue memory and its session; and what a part
// is.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "nic/objects/resources.h"
#include "pipeline/datapath/queue/notification.h"
#include "pipeline/datapath/queue/session.h"
#include "pipeline/os/fd.h"

namespace uroce::nic {

class Nic;

struct Context;

/// A part of a program: the objects of one kind, or of kinds that belong together. It ends objects
/// with their context or program. Parts are called in the order of
/// Program::ForEachPart: a part that uses objects of another comes before it. Control thread.
class ProgramPart {
 public:
  virtual ~ProgramPart() = default;

  /// Destroys all objects of the context.
  virtual void EndAllOf(const Context& context) = 0;

  // ---- at the program's end, in this order ----
  /// Takes the objects that workers own from them, some at a time.
  virtual void LeaveWorkers() {}
  /// Removes the objects that all workers can find. A grace period follows.
  virtual void Unpublish() {}
  /// Releases what others may get next: numbers, keys, places in tables of the daemon.
  virtual void Release() {}
};

/// What all parts of a program share. Outlives the parts. Workers hold the program's session
/// between Join and Worker::RemoveSession. Control thread.
class ProgramCore {
 public:
  /// `id` is unique during the life of the daemon. Errors: ResourceExhausted, Internal (no fd).
  static absl::StatusOr<std::unique_ptr<ProgramCore>> Make(Nic& nic, uint32_t id, uint32_t uid);
  ProgramCore(const ProgramCore&) = delete;
  ProgramCore& operator=(const ProgramCore&) = delete;

  /// Gives the session to all workers.
  void Join();

  uint32_t id() const { return session_.id(); }
  uint32_t uid() const { return uid_; }
  /// Whether it is root's or the daemon's own user's.
  bool is_privileged() const;
  Nic& nic() const { return nic_; }
  const Limits& limits() const;
  UserAccount& user() const;
  /// The limits of a table of objects of this kind.
  TableLimits LimitsOf(Kind kind) const { return nic::LimitsOf(kind, limits(), user()); }
  Arena& arena() { return arena_; }
  /// The eventfd of each worker.
  const std::vector<Fd>& wake_fds() const { return wake_fds_; }
  datapath::Session& session() { return session_; }
  /// For workers: writes to `socket`, which MakeOneWaySocket made for this program.
  datapath::RecordSocket RecordsOn(const Fd& socket) const;
  /// The threads that poll the CQ of that handle.
  datapath::Pollers PollersOf(uint32_t cq_handle) const;
  /// Returns when no worker uses what was unpublished or replaced before.
  void AwaitGrace() const;

 private:
  ProgramCore(Nic& nic, uint32_t id, uint32_t uid, Arena arena, std::vector<Fd> wake_fds);

  Nic& nic_;
  const uint32_t uid_;
  Arena arena_;
  const std::vector<Fd> wake_fds_;
  datapath::Session session_;
};

}  // namespace uroce::nic
