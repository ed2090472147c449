// SPDX-License-Identifier: Apache-2.0
// Configuration and results of a reliable connection, which its requester, its responder and its
// shell share.
#pragma once

#include <cstdint>

#include "pipeline/congestion/environment.h"
#include "pipeline/wire/opcode.h"

namespace uroce::transport {

/// Which halves of a connection exist at this end. XRC has one half at each end.
enum class RcRole : uint8_t { kBoth, kInitiator, kTarget };

/// What is fixed when the queue pair is created.
struct RcConfig {
  bool signal_all = false;
  uint32_t max_send_works = 128;         ///< Works that Post may hold at once; a power of two.
  uint8_t max_responder_resources = 16;  ///< Upper bound of max_dest_rd_atomic.
  /// The most request packets in flight. A READ counts as one: max_rd_atomic bounds the responses.
  /// With a responder that agrees to selective repeat, the window may grow beyond this
  /// (pipeline/congestion/loss_window.h).
  uint32_t max_in_flight_packets = 256;
  /// Receive works come from a shared receive queue.
  bool shared_receive = false;
  /// kXrc: an end of an extended reliable connection.
  wire::Service service = wire::Service::kRc;
  RcRole role = RcRole::kBoth;
  /// Repeat lost packets alone where the peer agrees to (pipeline/transport/README.md).
  bool selective_repeat = false;
  /// Not owned, outlives the queue pair. Null: losses alone bound what is in flight.
  const congestion::Environment* congestion = nullptr;
};

/// What a requester knows to be lost: its requests, or the responses to them.
struct Losses {
  bool requests = false;
  bool responses = false;
  bool any() const { return requests || responses; }
};

/// What became of an arriving packet. The shell counts each result but kAccepted too.
enum class PacketResult : uint8_t {
  kAccepted,          ///< Executed, or an effect is under way.
  kDuplicate,         ///< Executed before: answered again where the protocol says so.
  kOutOfSequence,     ///< Dropped behind a gap. A NAK is due, or was sent before.
  kKept,              ///< Behind a gap: kept until its turn, if the shell has room.
  kReceiverNotReady,  ///< RNR NAK.
  kNak,               ///< Refused with a fatal NAK (or by a failed check: error state).
  kGhost,             ///< A response that nothing waits for.
  kBadState,          ///< The queue pair takes no such packet in its state.
  kMalformed,         ///< A response that cannot be right and is ignored.
};

}  // namespace uroce::transport
