// SPDX-License-Identifier: Apache-2.0
// Shared receive queues of a program.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nic/objects/completion_queues.h"
#include "nic/objects/contexts.h"
#include "nic/objects/program_core.h"
#include "nic/objects/resources.h"
#include "nic/objects/xrc.h"
#include "pipeline/datapath/queue/shared_receive_queue.h"
#include "pipeline/shm/abi/uroce_commands.h"

namespace uroce::nic {

struct SharedReceiveObject {
  ProtectionDomain* pd = nullptr;
  XrcdObject* xrcd = nullptr;           ///< Null unless of XRC.
  CompletionQueueObject* cq = nullptr;  ///< Null unless of XRC.
  uint32_t worker = 0;                  ///< The worker of the queue pairs that use it.
  ArenaRange range;
  uint32_t users = 0;
  datapath::SharedReceiveQueue queue;
};

/// Control thread.
class SharedReceiveQueues : public ProgramPart {
 public:
  SharedReceiveQueues(ProgramCore& core, const Contexts& contexts, CompletionQueues& cqs,
                      const Xrc& xrc);

  absl::StatusOr<uroce_create_srq_reply> Create(const uroce_create_srq& request);
  absl::StatusOr<SharedReceiveObject*> Find(uint32_t handle) const { return srqs_.Find(handle); }
  /// Call it while the program posts nothing to the queue. Errors: InvalidArgument when more
  /// entries wait than are asked for.
  absl::StatusOr<uroce_srq_layout> Modify(const uroce_modify_srq& request);
  absl::StatusOr<uroce_query_srq_reply> Query(uint32_t handle);
  absl::StatusOr<uroce_destroy_srq_reply> Destroy(uint32_t handle);

  void EndAllOf(const Context& context) override;
  void LeaveWorkers() override;
  void Release() override;

  /// For dumps.
  const HandleTable<SharedReceiveObject>& table() const { return srqs_; }

 private:
  /// The checked objects that a new queue will belong to.
  struct Plan {
    ProtectionDomain* pd = nullptr;
    XrcdObject* xrcd = nullptr;  ///< Null unless of XRC, like `cq`.
    CompletionQueueObject* cq = nullptr;
  };
  absl::StatusOr<Plan> MakePlan(const uroce_create_srq& request) const;
  /// Sets what a queue of the plan's XRC domain needs: a number and a completion ring.
  absl::Status JoinDomain(const Plan& plan, datapath::SharedReceiveQueueConfig& config);
  uroce_create_srq_reply Add(const Plan& plan, const datapath::SharedReceiveQueueConfig& config,
                             const ArenaRange& range, uint32_t limit);
  absl::StatusOr<uroce_srq_layout> Resize(SharedReceiveObject& srq, uint32_t max_wr);

  ProgramCore& core_;
  const Contexts& contexts_;
  CompletionQueues& cqs_;
  const Xrc& xrc_;
  HandleTable<SharedReceiveObject> srqs_;
};

}  // namespace uroce::nic
