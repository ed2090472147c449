// SPDX-License-Identifier: Apache-2.0
// A queue pair that waits for its session's helper: what is under way, and what queues behind it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "pipeline/datapath/access.h"
#include "pipeline/datapath/copy_helper.h"
#include "pipeline/datapath/queue_pair_config.h"
#include "pipeline/transport/effect.h"
#include "verbs-shim/abi/uroce_abi.h"

struct rte_mbuf;

namespace uroce::datapath {

/// Bytes on their way between memory and a frame, and how far they have come.
struct Transfer {
  uroce_sge remote{};  ///< A remote range as a list of one entry, for `walker`.
  PieceWalker walker;
  uint8_t* bytes = nullptr;  ///< Where in the frame, or in the job, `walker` stands.

  /// Goes on where `other` stands, which may end then.
  void Continue(const Transfer& other) {
    *this = other;
    if (walker.list().data() == &other.remote) walker.set_list({&remote, 1});
  }
};

/// Touched only while the queue pair is parked: until then it would be lines of cache for nothing.
struct ParkedWork {
  /// Attributes that came meanwhile, for when the wait is over.
  struct Modification {
    transport::QpState state;
    Attributes attributes;
  };

  transport::Effect effect;
  transport::TxPacket packet;
  Transfer transfer;
  uint32_t crc_before_payload = 0;  ///< kGather.
  CopyJob* in_flight = nullptr;
  std::unique_ptr<CopyJob> job = std::make_unique<CopyJob>();
  std::optional<Modification> modification;

  // Packets that arrived meanwhile, linked by rte_mbuf::next.
  rte_mbuf* oldest = nullptr;
  rte_mbuf* newest = nullptr;
  uint32_t waiting = 0;
};

}  // namespace uroce::datapath
