// SPDX-License-Identifier: Apache-2.0
// Configuration, attributes, counters and results of unreliable connections (UC) and datagrams
// (UD).
#pragma once

#include <cstdint>

#include "pipeline/base/types.h"
#include "pipeline/transport/queue_pair_types.h"
#include "pipeline/wire/psn.h"

namespace uroce::transport {

/// What is fixed at creation.
struct UnreliableConfig {
  bool signal_all = false;
  uint32_t max_send_works = 128;  ///< Works that Post may hold at once; a power of two.
  bool shared_receive = false;    ///< Receive works come from a shared receive queue.
  Qpn qpn;                        ///< UD: the number that datagrams say they are from.
};

/// What ibv_modify_qp can set of the transport. The shell has checked states, masks and ranges.
struct UnreliableAttributes {
  bool remote_write = false;       ///< UC.
  uint32_t path_mtu_bytes = 1024;  ///< UD: the port's.
  wire::Psn rq_psn;                ///< UC.
  wire::Psn sq_psn;
  uint32_t qkey = 0;            ///< UD.
  bool notify_drained = false;  ///< Raise SQ_DRAINED once when SQD has drained.
};

/// Under the names that RDMA users know (protocol/verbs-semantics.md, section 11).
struct UnreliableCounters {
  uint64_t req_cqe_error = 0;
  uint64_t req_cqe_flush_error = 0;
  uint64_t rx_write_requests = 0;
  uint64_t out_of_sequence = 0;   ///< UC: packets that did not come when they should.
  uint64_t out_of_buffer = 0;     ///< Messages dropped: no receive work.
  uint64_t qkey_viol = 0;         ///< UD: datagrams dropped for their Q_Key.
  uint64_t dropped_messages = 0;  ///< Messages dropped for another reason.
  uint64_t resp_local_length_error = 0;
  uint64_t resp_remote_access_errors = 0;
  uint64_t resp_cqe_error = 0;
  uint64_t resp_cqe_flush_error = 0;
};

/// What became of an arriving packet. Nothing is ever answered.
enum class ReceiveResult : uint8_t {
  kAccepted,       ///< Executed, or an effect is under way.
  kBadState,       ///< The queue pair takes no packets in its state.
  kMalformed,      ///< Of another service, or not a request that this one knows.
  kOutOfSequence,  ///< UC: a gap, or not the rest of a message: dropped up to the next FIRST or
                   ///< ONLY.
  kNoReceive,      ///< The message is dropped: no receive work.
  kTooLong,        ///< The message is dropped: longer than its receive work.
  kRefused,        ///< UC: the message is dropped: a length, a right or a key is wrong.
  kBadQkey,        ///< UD: dropped.
  kFailed,         ///< The receive work is malformed: the queue pair is in ERR.
};

}  // namespace uroce::transport
