// SPDX-License-Identifier: Apache-2.0
// Shared receive queues of a program.
#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nic/objects/completion_queues.h"
#include "nic/objects/contexts.h"
#include "nic/objects/lifetimes.h"
#include "nic/objects/program_core.h"
#include "nic/objects/resources.h"
#include "nic/objects/xrc.h"
#include "pipeline/datapath/queue/work_queues.h"
#include "pipeline/shm/abi/uroce_commands.h"

namespace uroce::nic {

struct SharedReceiveObject {
  Use<ProtectionDomain> pd;
  Use<XrcdObject> xrcd;           ///< Null unless of XRC.
  Use<CompletionQueueObject> cq;  ///< Null unless of XRC.
  uint32_t worker = 0;            ///< The worker of the queue pairs that use it.
  ArenaRange range;
  datapath::SharedReceiveQueue queue;
  Users users;
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

  bool EndSomeOf(const Context& context, absl::FunctionRef<bool()> is_over) override;
  bool EndSome(absl::FunctionRef<bool()> is_over) override;

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
