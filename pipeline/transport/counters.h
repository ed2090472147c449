// SPDX-License-Identifier: Apache-2.0
// The counters of one queue pair of any service. Their names are those that RDMA users know
// (docs/protocol/verbs-semantics.md, section 11).
#pragma once

#include <cstdint>

namespace uroce::transport {

struct QueuePairCounters {
  // Requester.
  uint64_t retransmitted_pkts = 0;
  uint64_t packet_seq_err = 0;         ///< NAK 0x60 received.
  uint64_t implied_nak_seq_err = 0;    ///< An ACK implied that a response was lost.
  uint64_t local_ack_timeout_err = 0;  ///< The ACK timer expired.
  /// Packets sent again before the ACK timer expired, because no response came for some round trips
  /// (pipeline/transport/README.md).
  uint64_t tail_loss_probes = 0;
  uint64_t credit_probes = 0;      ///< Messages begun beyond the responder's credits.
  uint64_t rnr_nak_retry_err = 0;  ///< RNR NAKs received that did not exhaust the retries.
  uint64_t retry_exceeded_err = 0;
  uint64_t retry_rnr_exceeded_err = 0;
  uint64_t req_cqe_error = 0;
  uint64_t req_cqe_flush_error = 0;
  uint64_t req_remote_invalid_request = 0;
  uint64_t req_remote_access_errors = 0;
  // Responder.
  uint64_t rx_write_requests = 0;
  uint64_t rx_read_requests = 0;
  uint64_t rx_atomic_requests = 0;
  uint64_t duplicate_request = 0;
  uint64_t out_of_sequence = 0;    ///< Packets behind a hole, dropped.
  uint64_t kept_out_of_order = 0;  ///< Packets behind a hole, kept for their turn.
  uint64_t out_of_buffer = 0;  ///< No receive work: an RNR NAK was sent, or the message dropped.
  uint64_t resp_remote_access_errors = 0;
  uint64_t resp_local_length_error = 0;
  uint64_t resp_cqe_error = 0;
  uint64_t resp_cqe_flush_error = 0;
  // UC and UD.
  uint64_t qkey_viol = 0;         ///< UD: datagrams dropped because of their Q_Key.
  uint64_t dropped_messages = 0;  ///< Dropped although there was a receive work.
};

}  // namespace uroce::transport
