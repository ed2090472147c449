// SPDX-License-Identifier: Apache-2.0
// A queue pair that waits for its session's helper: what is under way, and what queues behind it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "pipeline/datapath/access.h"
#include "pipeline/datapath/copy_helper.h"
#include "pipeline/transport/effect.h"
#include "pipeline/transport/rc_queue_pair.h"
#include "verbs-shim/abi/uroce_abi.h"

struct rte_mbuf;

namespace uroce::datapath {

/// While `kind` is not kNone the transport of the queue pair is not called.
struct ParkedWork {
  enum class Kind : uint8_t {
    kNone,
    kEffect,  ///< `effect` is being executed.
    kGather,  ///< The payload of `packet` is being read into its frame.
  };
  /// Attributes that came meanwhile, for when the wait is over.
  struct Modification {
    transport::QpState state;
    transport::RcAttributes attributes;
  };

  Kind kind = Kind::kNone;
  transport::Effect effect;
  transport::TxPacket packet;
  uroce_sge remote{};  ///< The remote range as a list of one entry, for `walker`.
  PieceWalker walker;
  uint8_t* bytes = nullptr;         ///< Where in the frame, or in the job, `walker` stands.
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
