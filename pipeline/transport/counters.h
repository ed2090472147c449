// SPDX-License-Identifier: Apache-2.0
// What one queue pair counts, whatever its service, under the names that RDMA users know
// (docs/protocol/verbs-semantics.md, section 11).
#pragma once

#include <cstdint>

namespace uroce::transport {

struct QueuePairCounters {
  // Requester.
  uint64_t retransmitted_pkts = 0;
  uint64_t packet_seq_err = 0;         ///< NAK 0x60 received.
  uint64_t implied_nak_seq_err = 0;    ///< An ACK passed over a READ or atomic.
  uint64_t local_ack_timeout_err = 0;  ///< The ACK timer expired.
  /// Packets sent again before the ACK timer expired, since nothing came for some round trips
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
  uint64_t out_of_sequence = 0;    ///< Dropped, behind a hole.
  uint64_t kept_out_of_order = 0;  ///< Kept behind a hole, and executed in their turn.
  uint64_t out_of_buffer = 0;  ///< No receive work: an RNR NAK was sent, or the message dropped.
  uint64_t resp_remote_access_errors = 0;
  uint64_t resp_local_length_error = 0;
  uint64_t resp_cqe_error = 0;
  uint64_t resp_cqe_flush_error = 0;
  // UC and UD.
  uint64_t qkey_viol = 0;         ///< UD: datagrams dropped for their Q_Key.
  uint64_t dropped_messages = 0;  ///< For another reason than a missing receive work.
};

}  // namespace uroce::transport
