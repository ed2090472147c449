// SPDX-License-Identifier: Apache-2.0
// The rules of ibv_modify_qp for each type of queue pair: transitions, masks and ranges. Pure.
// Source: docs/protocol/transport.md, section 1.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "pipeline/shm/abi/uroce_commands.h"
#include "pipeline/transport/queue_pair_types.h"

namespace uroce::nic {

/// The most READs and atomics that a queue pair may have outstanding, in each direction.
inline constexpr uint8_t kMaxRdAtomic = 16;

/// The state of the queue pair and its port that the rules depend on.
struct ModifyView {
  transport::QpState state = transport::QpState::kReset;
  bool draining = false;      ///< In SQD, while work begun before is still in progress.
  uint32_t active_mtu = 0;    ///< enum ibv_mtu
  uint32_t qp_type = 2;       ///< enum ibv_qp_type
  bool is_privileged = true;  ///< The program is root's or the daemon's own user's.
};

/// Returns `attr_mask` without attributes that the XRC half lacks and programs set all the same.
/// Source: linux/drivers/infiniband/core/uverbs_cmd.c, modify_qp_mask.
uint32_t MaskOfHalf(uint32_t qp_type, uint32_t attr_mask);

/// The state that `attr` asks for: the current state without IBV_QP_STATE.
transport::QpState NextState(const uroce_qp_attr& attr, transport::QpState state);

/// Checks that the transition exists and that the mask holds all attributes it requires and none
/// that it forbids. Errors: InvalidArgument; the caller then changes nothing.
absl::Status CheckTransition(const uroce_qp_attr& attr, const ModifyView& view);

/// Checks the ranges of the values that the mask names. The GIDs of the address vector are checked
/// beside the GID table. Errors: InvalidArgument; PermissionDenied for a Q_Key that only privileged
/// programs may set.
absl::Status CheckRanges(const uroce_qp_attr& attr, const ModifyView& view);

/// Copies the values that the mask names.
void Assign(const uroce_qp_attr& from, uroce_qp_attr& to);

}  // namespace uroce::nic
