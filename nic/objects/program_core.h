// SPDX-License-Identifier: Apache-2.0
// What all parts of a program share: its numbers, its queue memory and its session; and what a part
// is.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "nic/objects/resources.h"
#include "pipeline/datapath/queue/completion_queue.h"
#include "pipeline/datapath/queue/session.h"
#include "pipeline/os/fd.h"

namespace uroce::nic {

class Nic;

struct Context;

/// A part of a program: the objects of one kind, or of kinds that belong together. It ends objects
/// with their context or program. Parts are called in the order of Program::parts: a part that uses
/// objects of another comes before it. Control thread.
class ProgramPart {
 public:
  virtual ~ProgramPart() = default;

  /// Destroys objects of the context, at least one, until `is_over`. Returns whether none is left;
  /// false: call it again.
  virtual bool EndSomeOf(const Context& context, absl::FunctionRef<bool()> is_over) = 0;
  /// Does the same with all objects at the program's end. It makes no objects any more.
  virtual bool EndSome(absl::FunctionRef<bool()> is_over) = 0;
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
  /// The user who answers for what the program holds.
  uint32_t uid() const { return uid_; }
  /// Whether it is root's or the daemon's own user's.
  bool is_privileged() const;
  Nic& nic() const { return nic_; }
  const Limits& limits() const;
  UserAccount& user() const;
  /// The limits of a table of objects of this kind.
  TableLimits LimitsOf(Kind kind) const { return nic::LimitsOf(kind, limits(), user()); }
  Arena& arena() { return arena_; }
  /// Counts `bytes` of the daemon's memory, which the program keeps until it ends. Errors:
  /// ResourceExhausted.
  absl::Status TakeOwnBytes(const char* kind, uint64_t bytes);
  /// The eventfd of each worker.
  const std::vector<Fd>& wake_fds() const { return wake_fds_; }
  datapath::Session& session() { return session_; }
  /// A socket for records to this program, of a `kind` of objects. Errors: as UserSocket::Make.
  absl::StatusOr<UserSocket> MakeRecords(const char* kind, Fd& reader) const {
    return UserSocket::Make(kind, UserSocket::Holds::kRecords, user(), reader);
  }
  /// For workers: writes to `socket`.
  datapath::RecordSocket RecordsOn(const UserSocket& socket) const;
  /// The threads that poll the CQ of that handle.
  datapath::Pollers PollersOf(uint32_t cq_handle) const;
  /// Returns when no worker uses what was unpublished or replaced before.
  void AwaitGrace() const;

 private:
  ProgramCore(Nic& nic, uint32_t id, uint32_t uid, Arena arena, std::vector<Fd> wake_fds);

  Nic& nic_;
  const uint32_t uid_;
  QuotaShare own_bytes_;  ///< Of its user, for what is here.
  Arena arena_;
  const std::vector<Fd> wake_fds_;
  datapath::Session session_;
};

}  // namespace uroce::nic
