// SPDX-License-Identifier: Apache-2.0
// Configuration and results of unreliable connections (UC) and datagrams (UD).
#pragma once

#include <cstdint>

#include "pipeline/base/types.h"

namespace uroce::transport {

/// What is fixed when the queue pair is created.
struct UnreliableConfig {
  bool signal_all = false;
  uint32_t max_send_works = 128;  ///< Works that Post may hold at once; a power of two.
  bool shared_receive = false;    ///< Receive works come from a shared receive queue.
  Qpn qpn;                        ///< UD: the source QPN of sent datagrams.
};

/// What became of an arriving packet. No packet is ever answered.
enum class ReceiveResult : uint8_t {
  kAccepted,       ///< Executed, or an effect is under way.
  kBadState,       ///< The queue pair takes no packets in its state.
  kMalformed,      ///< Of another service, or no request of this service.
  kOutOfSequence,  ///< UC: a gap, or not the rest of a message: dropped up to the next FIRST or
                   ///< ONLY.
  kNoReceive,      ///< The message is dropped: no receive work.
  kTooLong,        ///< The message is dropped: longer than its receive work.
  kRefused,        ///< UC: the message is dropped: a length, a right or a key is wrong.
  kBadQkey,        ///< UD: dropped.
  kFailed,         ///< The receive work is malformed: the queue pair is in ERR.
};

}  // namespace uroce::transport
