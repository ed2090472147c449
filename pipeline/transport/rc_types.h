// SPDX-License-Identifier: Apache-2.0
// Configuration and results of a reliable connection: what its two halves and its shell all speak
// of.
#pragma once

#include <cstdint>

#include "pipeline/congestion/environment.h"
#include "pipeline/wire/opcode.h"

namespace uroce::transport {

/// Which halves of a connection there are. XRC has one at each end.
enum class RcRole : uint8_t { kBoth, kInitiator, kTarget };

/// What is fixed at creation.
struct RcConfig {
  bool signal_all = false;
  uint32_t max_send_works = 128;         ///< Works that Post may hold at once; a power of two.
  uint8_t max_responder_resources = 16;  ///< Upper bound of max_dest_rd_atomic.
  /// Request packets that may be outstanding before a further one is sent. A READ is one of them:
  /// how much answers it is bounded by max_rd_atomic. With a responder that repeats selectively it
  /// may become more (pipeline/congestion/loss_window.h).
  uint32_t max_in_flight_packets = 256;
  /// Receive works come from a shared receive queue.
  bool shared_receive = false;
  /// kXrc: an end of an extended reliable connection.
  wire::Service service = wire::Service::kRc;
  RcRole role = RcRole::kBoth;
  /// Repeat lost packets alone where the peer agrees to (pipeline/transport/README.md).
  bool selective_repeat = false;
  /// Outlives the queue pair; null: losses alone bound what is in flight.
  const congestion::Environment* congestion = nullptr;
};

/// What a requester knows to be lost: its requests, or the responses to them.
struct Losses {
  bool requests = false;
  bool responses = false;
  bool any() const { return requests || responses; }
};

/// What became of an arriving packet. Everything but kAccepted is counted by the shell too.
enum class PacketResult : uint8_t {
  kAccepted,          ///< Executed, or an effect is under way.
  kDuplicate,         ///< Seen before: answered again where the rules say so.
  kOutOfSequence,     ///< A gap: NAK sent or already sent; dropped.
  kKept,              ///< A gap before it: kept until its turn, if the shell has room.
  kReceiverNotReady,  ///< RNR NAK.
  kNak,               ///< Refused with a fatal NAK (or by a failed check: error state).
  kGhost,             ///< A response that nothing waits for.
  kBadState,          ///< The queue pair takes no such packet in its state.
  kMalformed,         ///< A response that cannot be right and is ignored.
};

}  // namespace uroce::transport
