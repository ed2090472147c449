// SPDX-License-Identifier: Apache-2.0
// A queue pair as the control thread has it.
#pragma once

#include <cstdint>
#include <set>

#include "nic/devices/nic_device.h"
#include "nic/net/followed_paths.h"
#include "nic/objects/objects.h"
#include "nic/peers/types.h"
#include "pipeline/datapath/queue/queue_pair.h"
#include "pipeline/shm/abi/uroce_commands.h"

namespace uroce::nic {

class Nic;
struct CompletionQueueObject;
struct SharedReceiveObject;

/// A queue pair of one program, or an XRC target, which uses no object of a program.
struct QueuePairObject {
  NicDevice* device = nullptr;
  ProtectionDomain* pd = nullptr;  ///< From here on to `srq` null for a target.
  CompletionQueueObject* send_cq = nullptr;
  CompletionQueueObject* receive_cq = nullptr;
  SharedReceiveObject* srq = nullptr;  ///< Or null.
  uint32_t qp_type = 0;                ///< enum ibv_qp_type
  ArenaRange range;
  uroce_qp_attr attr{};  ///< As last set; the mask is meaningless.
  FollowedPaths::Holder followed;
  peers::Holder agreement;  ///< With the NIC at the other end, of a reliable connection; or null.
  std::set<Gid> groups;     ///< That it is attached to.
  datapath::QueuePair queue_pair;
};

/// What only the worker knows of a queue pair.
struct QueuePairLive {
  transport::QpState state = transport::QpState::kReset;
  bool draining = false;
  uint32_t next_send_psn = 0;
  uint32_t expected_psn = 0;
};

/// Inside Run of the queue pair's worker.
QueuePairLive LookAt(const QueuePairObject& object);
/// Asks the worker. Control thread.
QueuePairLive LiveState(Nic& nic, const QueuePairObject& object);

}  // namespace uroce::nic
