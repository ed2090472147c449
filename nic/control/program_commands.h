// SPDX-License-Identifier: Apache-2.0
// The commands of a program that need more than its objects.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nic/base/reply.h"
#include "nic/base/user_limits.h"
#include "nic/control/command_body.h"
#include "nic/control/registrations.h"
#include "nic/net/followed_paths.h"
#include "nic/objects/client.h"
#include "nic/objects/queue_pairs.h"
#include "pipeline/os/side_thread.h"
#include "pipeline/shm/abi/uroce_cm_commands.h"

namespace uroce::nic {

class CmFiles;
class CqeMoves;
class MemorySocket;
struct ControlContext;

/// Executes these commands of one program, from its HELLO on. The answer may have to wait for
/// the network or for workers, or the command concerns files of rdma_cm. Control thread.
class ProgramCommands {
 public:
  /// The client has a program. `program_end` is the program's end of its memory socket. `place` and
  /// `thread` are as for MemorySocket::Make. Errors: Internal (no socket).
  static absl::StatusOr<std::unique_ptr<ProgramCommands>> Make(
      ControlContext& context, const Client& client, DeferredReply& deferred,
      Admission::Place place, std::shared_ptr<SideThread> thread, Fd& program_end);
  ~ProgramCommands();
  ProgramCommands(const ProgramCommands&) = delete;
  ProgramCommands& operator=(const ProgramCommands&) = delete;

  Registrations& registrations() { return registrations_; }
  /// The program has ended: takes no more of what it lends, and closes its files of rdma_cm, until
  /// `is_over`. Returns whether all are closed; false: call it again.
  bool EndSome(absl::FunctionRef<bool()> is_over);

  absl::Status ListDevices(Reply& reply);
  absl::Status CloseContext(uint32_t handle, Reply& reply);
  absl::Status ResizeCq(const uroce_resize_cq& request, Reply& reply);
  absl::Status ModifyQp(const uroce_modify_qp& request, Reply& reply);
  absl::Status DestroyQp(uint32_t handle, Reply& reply);
  absl::Status DestroySrq(uint32_t handle, Reply& reply);
  absl::Status CreateAh(const uroce_create_ah& request, Reply& reply);
  absl::Status DestroyAh(uint32_t handle, Reply& reply);
  absl::StatusOr<uint32_t> OpenCm(Fd& program_end);
  /// The reply has the result of the CM command itself: its errors are those of the kernel's ABI.
  absl::Status WriteCm(const uroce_write_cm& request, Body list, Reply& reply);

 private:
  ProgramCommands(ControlContext& context, const Client& client, DeferredReply& deferred,
                  std::shared_ptr<SideThread> thread, const Lender& lender);

  Program& program() { return *client_.program(); }
  /// Has `answer` write the reply once the MAC of the next hop is known: now or later.
  using Answer = std::function<absl::Status(const Mac&, FollowedPaths::Holder, Reply&)>;
  absl::Status WithNextHop(const PathKey& path, Answer answer, Reply& reply);
  /// Modifies a queue pair, and tells monitors.
  absl::StatusOr<uroce_modify_qp_reply> Modified(const ModifyPlan& plan,
                                                 const std::optional<Mac>& mac,
                                                 FollowedPaths::Holder followed,
                                                 peers::Holder capabilities);
  /// Has `write` write the reply once nothing that was posted before is `unsent`: now, later, or
  /// after kLongestSend at the latest. With an adapter, posted sends leave before the system call
  /// ends, and programs rely on that.
  using Condition = std::function<bool()>;
  absl::Status AfterSends(Condition unsent, DeferredReply::Writer write, Reply& reply);
  /// Whether the wait is over. A check costs time proportional to the number of queue pairs, and
  /// waits for the user's turn.
  bool IsSent(const Condition& unsent, Nanos until);
  /// Answers with `result` once no copy for a queue pair that was reset or has ended writes to the
  /// program's memory: now or later. An adapter writes nothing after these commands either. If the
  /// program's own memory blocks a copy, only this program waits.
  template <typename T>
  absl::Status AfterLateWrites(const absl::StatusOr<T>& result, Reply& reply);
  /// Resizes the queue, and answers once its CQEs have been moved: now, or later, within the user's
  /// turns.
  absl::Status Resize(const uroce_resize_cq& request, Reply& reply);
  /// Returns false when some CQEs are left for another turn.
  bool MoveCqes(CqeMoves& moves);
  /// Runs `work`, which stops at `until`, if the user has time left in this turn of the loop.
  /// Returns whether it is done.
  bool InTurn(absl::FunctionRef<bool(Nanos until)> work);
  /// AfterSends for all datagrams of the program: these use address handles and queue pairs.
  absl::Status AfterDatagrams(DeferredReply::Writer write, Reply& reply);

  ControlContext& context_;
  const Client& client_;
  DeferredReply& deferred_;
  Registrations registrations_;
  std::unique_ptr<CmFiles> cm_files_;  ///< Destroyed before the program: peers are told first.
  std::unique_ptr<MemorySocket> memory_socket_;
};

}  // namespace uroce::nic
