// SPDX-License-Identifier: Apache-2.0
// The services that run on the control thread for all connections.
#pragma once

#include "nic/base/event_loop.h"
#include "nic/capture/packet_histories.h"
#include "nic/connections/path_services.h"
#include "nic/connections/peer_agreements.h"
#include "nic/connections/rdma_cm_host.h"
#include "nic/objects/nic.h"

namespace uroce::nic {

/// Each member needs those above it. Outlives the connections.
struct Services {
  Services(EventLoop& loop, Nic& nic)
      : paths(loop, nic),
        rdma_cm(loop, nic, paths.kernel(), paths.neighbours(), paths.gsi(),
                RdmaCmHost::MakeConfig(nic.config().limits)),
        peers(loop, nic, paths.gsi()),
        tasks(loop),
        histories(loop, tasks, nic) {}

  PathServices paths;
  RdmaCmHost rdma_cm;
  PeerAgreements peers;
  BackgroundTasks tasks;
  HistoryRecorder histories;
};

}  // namespace uroce::nic
