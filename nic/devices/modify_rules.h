// SPDX-License-Identifier: Apache-2.0
// What ibv_modify_qp may do to a queue pair, by its type: transitions, masks and ranges. Pure.
// Source: docs/protocol/transport.md, section 1.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "pipeline/shm/abi/uroce_commands.h"
#include "pipeline/transport/queue_pair_types.h"

namespace uroce::nic {

/// READs and atomics that a queue pair may have outstanding, each way.
inline constexpr uint8_t kMaxRdAtomic = 16;

/// What the rules need to know of the queue pair and its port.
struct ModifyView {
  transport::QpState state = transport::QpState::kReset;
  bool draining = false;      ///< SQD, and work begun before is still under way.
  uint32_t active_mtu = 0;    ///< enum ibv_mtu
  uint32_t qp_type = 2;       ///< enum ibv_qp_type
  bool is_privileged = true;  ///< The program is root's or the daemon's own user's.
};

/// `attr_mask` without what XRC queue pairs of one half do not have, and programs set all the same.
/// Source: linux/drivers/infiniband/core/uverbs_cmd.c, modify_qp_mask.
uint32_t MaskOfHalf(uint32_t qp_type, uint32_t attr_mask);

/// The state that `attr` asks for: the present one without IBV_QP_STATE.
transport::QpState NextState(const uroce_qp_attr& attr, transport::QpState state);

/// Whether the transition exists and the mask holds all it requires and nothing it forbids.
/// Errors: InvalidArgument; nothing may change then.
absl::Status CheckTransition(const uroce_qp_attr& attr, const ModifyView& view);

/// Whether the values that the mask names are in range. The address vector's GIDs are checked
/// where the GID table is. Errors: InvalidArgument; PermissionDenied for a Q_Key that only
/// privileged programs may set.
absl::Status CheckRanges(const uroce_qp_attr& attr, const ModifyView& view);

/// Copies the values that the mask names.
void Assign(const uroce_qp_attr& from, uroce_qp_attr& to);

}  // namespace uroce::nic
