// SPDX-License-Identifier: Apache-2.0
// A program's extended connection (XRC) domains, and the target queue pairs that it has opened.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nic/objects/contexts.h"
#include "nic/objects/program_core.h"
#include "nic/objects/resources.h"
#include "nic/objects/xrc_domain.h"
#include "pipeline/datapath/queue/notification.h"
#include "pipeline/shm/abi/uroce_commands.h"

namespace uroce::nic {

struct XrcdObject {
  Context* context = nullptr;
  std::shared_ptr<XrcDomain> domain;
  uint32_t users = 0;
};

/// A target queue pair that one program has opened.
struct OpenedTarget {
  XrcdObject* xrcd = nullptr;
  std::shared_ptr<XrcTarget> target;
  datapath::EventRecords events;
  uint64_t user_handle = 0;
};

/// Control thread.
class Xrc : public ProgramPart {
 public:
  Xrc(ProgramCore& core, const Contexts& contexts);

  /// Adds a file for one call of OpenDomain.
  absl::StatusOr<uint32_t> AddFile(XrcFile file);
  absl::StatusOr<uint32_t> OpenDomain(const uroce_open_xrcd& request);
  /// Errors: InvalidArgument; Cancelled: its device was removed.
  absl::StatusOr<XrcdObject*> FindDomain(uint32_t handle) const;
  absl::Status CloseDomain(uint32_t handle);
  /// Closes its domains, which have no objects any more.
  void EndAllOf(const Context& context) override;

  /// The target's handle is a queue pair handle: Modify, query and destroy commands accept it.
  absl::StatusOr<uroce_target_reply> CreateTarget(const uroce_create_target& request);
  absl::StatusOr<uroce_target_reply> OpenTarget(const uroce_open_target& request);
  /// Whether the handle of a queue pair is that of a target.
  static bool IsTarget(uint32_t handle);
  absl::StatusOr<OpenedTarget*> FindTarget(uint32_t handle) const;
  bool HasTarget(Qpn qpn) const { return open_counts_.contains(qpn.value()); }
  /// Closes one handle. The target exists while any program has it open.
  absl::StatusOr<uroce_destroy_qp_reply> CloseTarget(uint32_t handle);
  void CloseTargetsOf(const Context& context);
  void CloseAllTargets();

  /// For dumps.
  const HandleTable<OpenedTarget>& targets() const { return targets_; }

 private:
  uroce_target_reply AddTarget(XrcdObject& xrcd, std::shared_ptr<XrcTarget> target,
                               uint64_t user_handle);

  ProgramCore& core_;
  const Contexts& contexts_;
  HandleTable<XrcFile> files_;
  HandleTable<XrcdObject> xrcds_;
  HandleTable<OpenedTarget> targets_;
  absl::flat_hash_map<uint32_t, uint32_t> open_counts_;  ///< Handles in `targets_`, by QPN.
};

}  // namespace uroce::nic
