// SPDX-License-Identifier: Apache-2.0
// A queue pair as the control thread sees it.
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
  ProtectionDomain* pd = nullptr;  ///< This and the next fields up to `srq` are null for a target.
  CompletionQueueObject* send_cq = nullptr;
  CompletionQueueObject* receive_cq = nullptr;
  SharedReceiveObject* srq = nullptr;  ///< May be null.
  uint32_t qp_type = 0;                ///< enum ibv_qp_type
  ArenaRange range;
  uroce_qp_attr attr{};  ///< As last set; the mask is meaningless.
  FollowedPaths::Holder followed;
  peers::Holder agreement;  ///< With the NIC at the other end of a reliable connection; or null.
  std::set<Gid> groups;     ///< The groups to which it is attached.
  datapath::QueuePair queue_pair;
};

/// State of a queue pair that only its worker knows.
struct QueuePairLive {
  transport::QpState state = transport::QpState::kReset;
  bool draining = false;
  uint32_t next_send_psn = 0;
  uint32_t expected_psn = 0;
};

/// Reads the state; call it inside Run of the queue pair's worker.
QueuePairLive LookAt(const QueuePairObject& object);
/// Runs LookAt on the worker. Control thread.
QueuePairLive LiveState(Nic& nic, const QueuePairObject& object);

}  // namespace uroce::nic
