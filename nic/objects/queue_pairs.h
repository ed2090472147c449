// SPDX-License-Identifier: Apache-2.0
// Queue pairs of a program: its own, and the XRC targets that it has open.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nic/devices/queue_layout.h"
#include "nic/objects/completion_queues.h"
#include "nic/objects/contexts.h"
#include "nic/objects/handle_table.h"
#include "nic/objects/program_core.h"
#include "nic/objects/program_part.h"
#include "nic/objects/queue_pair_object.h"
#include "nic/objects/shared_receive_queues.h"
#include "nic/objects/xrc.h"
#include "pipeline/shm/abi/uroce_commands.h"

namespace uroce::nic {

/// A modify that passed its checks. `path` is set when the path changes.
struct ModifyPlan {
  uroce_modify_qp request{};
  std::optional<PathKey> path;
  bool is_reliable = false;  ///< Of a reliable connection, which may agree on more with its peer.
};

/// Control thread.
class QueuePairs : public ProgramPart {
 public:
  QueuePairs(ProgramCore& core, const Contexts& contexts, CompletionQueues& cqs,
             const SharedReceiveQueues& srqs, Xrc& xrc);

  absl::StatusOr<uroce_create_qp_reply> Create(const uroce_create_qp& request);
  /// Errors: FailedPrecondition while it is attached to a group.
  absl::StatusOr<uroce_destroy_qp_reply> Destroy(uint32_t handle);
  /// Its own, and the targets.
  void EndAllOf(const Context& context) override;
  /// Whether there is such a queue pair: before workers are asked about it.
  absl::Status Check(uint32_t handle) const { return Find(handle).status(); }
  /// Whether the program has made the queue pair, or opened it: a target of its XRC domains.
  bool Has(Qpn qpn) const { return qpns_.contains(qpn.value()) || xrc_.HasTarget(qpn); }

  // ---- modify and query (modify.cc) ----
  /// Checks all that can be checked, and says which path needs the MAC of its next hop.
  absl::StatusOr<ModifyPlan> PlanModify(const uroce_modify_qp& wanted);
  /// Applies it. `destination` is the MAC that the plan asked for, `followed` what keeps it right
  /// from then on, if anything does, and `agreement` what is known of the NIC there.
  absl::StatusOr<uroce_modify_qp_reply> ApplyModify(const ModifyPlan& plan,
                                                    const std::optional<Mac>& destination,
                                                    FollowedPaths::Holder followed,
                                                    peers::Holder agreement);
  absl::StatusOr<uroce_qp_attr> Query(uint32_t handle);

  // ---- multicast (multicast.cc) ----
  /// Has a UD queue pair get what is sent to a group, too; the port joins the group. Again: nothing
  /// changes. Errors: InvalidArgument, ResourceExhausted, Unavailable.
  absl::Status Attach(const uroce_mcast& request);
  absl::Status Detach(const uroce_mcast& request);

  // ---- what was posted and is to be sent ----
  /// Whether datagrams were posted that are still to leave. An adapter begins with them at once,
  /// and programs (mckey) destroy what they need as soon as they have posted.
  bool HasUnsentDatagrams();
  /// Whether the resize makes the queue smaller while queue pairs that complete on it have posted
  /// what will be complete by being sent: whether that fits is not known yet.
  bool ShrinksUnderSends(const uroce_resize_cq& request);

  // ---- at the program's end ----
  /// Takes its own out of their groups, then from their workers.
  void LeaveWorkers() override;
  /// Their counters count on in the device, their numbers go back.
  void Release() override;

  // ---- for dumps ----
  const HandleTable<QueuePairObject>& table() const { return qps_; }
  /// Its own and the targets that it has opened.
  void ForEach(absl::FunctionRef<void(const QueuePairObject& queue_pair)> visit) const;

 private:
  absl::Status CheckCreate(const uroce_create_qp& request) const;
  absl::StatusOr<uroce_create_qp_reply> Make(const uroce_create_qp& request,
                                             const QueuePairLayout& layout, uint64_t offset);
  /// Of its own or a target.
  absl::StatusOr<QueuePairObject*> Find(uint32_t handle) const;
  absl::StatusOr<ModifyPlan> PlanPath(const uroce_modify_qp& request,
                                      const QueuePairObject& object) const;
  void DetachAll(QueuePairObject& qp);
  /// Shows those queue pairs that are meant to `visit`, inside Run of the worker that owns them;
  /// the newest of each worker first.
  void Visit(absl::FunctionRef<bool(const QueuePairObject&)> is_meant,
             absl::FunctionRef<void(datapath::Worker&, datapath::QueuePair&)> visit);

  ProgramCore& core_;
  const Contexts& contexts_;
  CompletionQueues& cqs_;
  const SharedReceiveQueues& srqs_;
  Xrc& xrc_;
  HandleTable<QueuePairObject> qps_;
  absl::flat_hash_set<uint32_t> qpns_;  ///< Of `qps_`.
  QuotaShare attachments_;              ///< To multicast groups.
};

}  // namespace uroce::nic
