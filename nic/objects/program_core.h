// SPDX-License-Identifier: Apache-2.0
// What all parts of a program share: its numbers, its queue memory, and its session.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "nic/base/fd.h"
#include "nic/objects/arena.h"
#include "nic/objects/nic.h"
#include "nic/objects/user_account.h"
#include "pipeline/datapath/queue/pollers.h"
#include "pipeline/datapath/queue/record_socket.h"
#include "pipeline/datapath/queue/session.h"

namespace uroce::nic {

/// Outlives the parts. Workers hold the program's session between Join and Worker::RemoveSession.
/// Control thread.
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
  const Limits& limits() const { return nic_.config().limits; }
  UserAccount& user() const { return nic_.user(uid_); }
  Arena& arena() { return arena_; }
  /// The eventfd of each worker.
  const std::vector<Fd>& wake_fds() const { return wake_fds_; }
  datapath::Session& session() { return session_; }
  /// For workers: writes to `socket`, which MakeOneWaySocket made for this program.
  datapath::RecordSocket RecordsOn(const Fd& socket) const;
  /// The threads that poll the CQ of that handle.
  datapath::Pollers PollersOf(uint32_t cq_handle) const;
  /// Returns when no worker uses what was unpublished or replaced before.
  void AwaitGrace() const { nic_.workers().AwaitGrace(); }

 private:
  ProgramCore(Nic& nic, uint32_t id, uint32_t uid, Arena arena, std::vector<Fd> wake_fds);

  Nic& nic_;
  const uint32_t uid_;
  Arena arena_;
  const std::vector<Fd> wake_fds_;
  datapath::Session session_;
};

}  // namespace uroce::nic
