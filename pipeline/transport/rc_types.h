// SPDX-License-Identifier: Apache-2.0
// Configuration, attributes and results of a reliable connection: what its two halves and its
// shell all speak of.
#pragma once

#include <cstdint>

#include "pipeline/transport/queue_pair_types.h"
#include "pipeline/wire/opcode.h"
#include "pipeline/wire/psn.h"

namespace uroce::transport {

/// Which halves of a connection there are. XRC has one at each end.
enum class RcRole : uint8_t { kBoth, kInitiator, kTarget };

/// What is fixed at creation.
struct RcConfig {
  bool signal_all = false;
  uint32_t max_send_works = 128;         ///< Works that Post may hold at once; a power of two.
  uint8_t max_responder_resources = 16;  ///< Upper bound of max_dest_rd_atomic.
  /// Request packets that may be outstanding before a further one is sent. A READ is one of them:
  /// how much answers it is bounded by max_rd_atomic.
  uint32_t max_in_flight_packets = 256;
  /// Receive works come from a shared receive queue.
  bool shared_receive = false;
  /// kXrc: an end of an extended reliable connection.
  wire::Service service = wire::Service::kRc;
  RcRole role = RcRole::kBoth;
  /// Repeat lost packets alone where the peer knows how to (selective_repeat.h). Not of XRC.
  bool selective_repeat = false;
};

/// What ibv_modify_qp can set of the transport. The shell has checked states, masks and ranges.
struct RcAttributes {
  bool remote_write = false;
  bool remote_read = false;
  bool remote_atomic = false;
  uint32_t path_mtu_bytes = 1024;
  wire::Psn rq_psn;
  wire::Psn sq_psn;
  uint8_t max_rd_atomic = 0;       ///< READs and atomics this side may have outstanding.
  uint8_t max_dest_rd_atomic = 0;  ///< READs and atomics the peer may have outstanding.
  uint8_t min_rnr_timer = 0;       ///< Code 0..31 sent in RNR NAKs.
  uint8_t timeout = 0;             ///< Local ACK timeout code 0..31, 0 = none.
  uint8_t retry_count = 0;         ///< 0..7.
  uint8_t rnr_retry = 0;           ///< 0..7, 7 = for ever.
  bool notify_drained = false;     ///< Raise SQ_DRAINED once when SQD has drained.
};

/// What became of an arriving packet. Everything but kAccepted is counted by the shell too.
enum class PacketResult : uint8_t {
  kAccepted,          ///< Executed, or an effect is under way.
  kDuplicate,         ///< Seen before: answered again where the rules say so.
  kOutOfSequence,     ///< A gap: NAK sent or already sent; dropped.
  kReceiverNotReady,  ///< RNR NAK.
  kNak,               ///< Refused with a fatal NAK (or by a failed check: error state).
  kGhost,             ///< A response that nothing waits for.
  kBadState,          ///< The queue pair takes no such packet in its state.
  kMalformed,         ///< A response that cannot be right and is ignored.
};

}  // namespace uroce::transport
