// SPDX-License-Identifier: Apache-2.0
// Queue pairs of a program: those it made, and the XRC targets that it has opened; the multicast
// groups that they are attached to.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nic/devices/verbs_attributes.h"
#include "nic/objects/completion_queues.h"
#include "nic/objects/contexts.h"
#include "nic/objects/program_core.h"
#include "nic/objects/queue_pair_object.h"
#include "nic/objects/resources.h"
#include "nic/objects/shared_receive_queues.h"
#include "nic/objects/xrc.h"
#include "pipeline/datapath/worker/worker.h"
#include "pipeline/shm/abi/uroce_commands.h"

namespace uroce::nic {

/// A modify command that passed its checks. `path` is set when the path changes.
struct ModifyPlan {
  uroce_modify_qp request{};
  std::optional<PathKey> path;
  bool is_reliable =
      false;  ///< A reliable connection, whose peer may be asked for its capabilities.
};

/// Control thread.
class QueuePairs : public ProgramPart {
 public:
  QueuePairs(ProgramCore& core, const Contexts& contexts, CompletionQueues& cqs,
             const SharedReceiveQueues& srqs, Xrc& xrc);

  absl::StatusOr<uroce_create_qp_reply> Create(const uroce_create_qp& request);
  /// Errors: FailedPrecondition while the queue pair is attached to a group.
  absl::StatusOr<uroce_destroy_qp_reply> Destroy(uint32_t handle);
  /// Ends the program's own queue pairs, and the targets.
  bool EndSomeOf(const Context& context, absl::FunctionRef<bool()> is_over) override;
  bool EndSome(absl::FunctionRef<bool()> is_over) override;
  /// Checks that the queue pair exists, before workers are asked about it.
  absl::Status Check(uint32_t handle) const { return Find(handle).status(); }
  /// Whether the program made the queue pair, or has opened it as a target of its XRC domains.
  bool Has(Qpn qpn) const { return qpns_.contains(qpn.value()) || xrc_.HasTarget(qpn); }

  // ---- modify and query (queue_pairs_modify.cc) ----
  /// Checks all that can be checked now, and names the path whose next hop's MAC is needed.
  absl::StatusOr<ModifyPlan> PlanModify(const uroce_modify_qp& wanted);
  /// Applies the plan. `destination` is the MAC that the plan needs, `followed` keeps it up to date
  /// (null if nothing does), and `capabilities` says what is known of the NIC there.
  absl::StatusOr<uroce_modify_qp_reply> ApplyModify(const ModifyPlan& plan,
                                                    const std::optional<Mac>& destination,
                                                    FollowedPaths::Holder followed,
                                                    peers::Holder capabilities);
  absl::StatusOr<uroce_qp_attr> Query(uint32_t handle);
  /// Moves a queue pair in INIT that was never connected to the worker that is best for the
  /// connection that `request` is about to make. Other queue pairs stay.
  absl::StatusOr<uroce_place_qp_reply> Place(const uroce_modify_qp& request);

  /// The rings on `worker` of the queue pair's completion queues; makes those that are missing.
  /// Errors: ResourceExhausted.
  absl::StatusOr<datapath::Workers::Rings> RingsOn(uint32_t worker, QueuePairObject& object);

  // ---- multicast ----
  /// Attaches a UD queue pair to a group, which the port joins. A second call changes nothing.
  /// Errors: InvalidArgument, ResourceExhausted, Unavailable.
  absl::Status Attach(const uroce_mcast& request);
  absl::Status Detach(const uroce_mcast& request);

  // ---- posted sends ----
  /// Whether posted datagrams have not been sent yet. An adapter begins to send them at once, and
  /// programs (mckey) destroy what the datagrams need as soon as they have posted.
  bool HasUnsentDatagrams();
  /// Whether the resize makes the queue smaller while posted sends will still complete on it: then
  /// it is not yet known whether their CQEs fit.
  bool ShrinksUnderSends(const uroce_resize_cq& request);

  // ---- for dumps ----
  const HandleTable<QueuePairObject>& table() const { return qps_; }
  /// The program's own queue pair with this number, or null.
  QueuePairObject* FindOwn(Qpn qpn);
  /// Calls `visit` for the program's own queue pairs.
  void ForEachOwn(absl::FunctionRef<void(QueuePairObject& queue_pair)> visit);
  /// Calls `visit` for the program's own queue pairs and the targets that it has opened.
  void ForEach(absl::FunctionRef<void(const QueuePairObject& queue_pair)> visit) const;

 private:
  absl::Status CheckCreate(const uroce_create_qp& request) const;
  absl::StatusOr<uroce_create_qp_reply> Make(const uroce_create_qp& request,
                                             const QueuePairLayout& layout, uint64_t offset);
  /// Finds one of the program's own or a target.
  absl::StatusOr<QueuePairObject*> Find(uint32_t handle) const;
  absl::StatusOr<ModifyPlan> PlanPath(const uroce_modify_qp& request,
                                      const QueuePairObject& object) const;
  /// Whether packets on the path that `request` names stay inside the daemon, and the queue pairs
  /// at both ends may have one worker.
  bool StaysInside(const uroce_modify_qp& request, const NicDevice& device) const;
  /// Moves the queue pair, if it can be moved. Returns its worker.
  uint32_t MoveTo(uint32_t worker, QueuePairObject& object);
  /// The queue pair has left its worker.
  void ReleaseNumber(const QueuePairObject& object, uint32_t worker);
  void DetachAll(QueuePairObject& qp);
  /// Takes queue pairs from their groups and workers, adds their counters to the device's, and
  /// releases their numbers.
  void Leave(std::span<const std::unique_ptr<QueuePairObject>> leaving);
  /// Calls `visit` for the queue pairs that `is_meant` selects, inside Run of the worker that owns
  /// them; the newest of each worker first.
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
