// SPDX-License-Identifier: Apache-2.0
// The counters of a connection by name, to add them up and to show them.
#pragma once

#include <cstdint>

#include "pipeline/transport/counters.h"

namespace uroce::nic {

struct RcCounterRow {
  const char* name;
  uint64_t transport::RcCounters::*value;
};

inline constexpr RcCounterRow kRcCounters[] = {
    {"retransmitted_pkts", &transport::RcCounters::retransmitted_pkts},
    {"packet_seq_err", &transport::RcCounters::packet_seq_err},
    {"implied_nak_seq_err", &transport::RcCounters::implied_nak_seq_err},
    {"local_ack_timeout_err", &transport::RcCounters::local_ack_timeout_err},
    {"rnr_nak_retry_err", &transport::RcCounters::rnr_nak_retry_err},
    {"retry_exceeded_err", &transport::RcCounters::retry_exceeded_err},
    {"retry_rnr_exceeded_err", &transport::RcCounters::retry_rnr_exceeded_err},
    {"req_cqe_error", &transport::RcCounters::req_cqe_error},
    {"req_cqe_flush_error", &transport::RcCounters::req_cqe_flush_error},
    {"req_remote_invalid_request", &transport::RcCounters::req_remote_invalid_request},
    {"req_remote_access_errors", &transport::RcCounters::req_remote_access_errors},
    {"rx_write_requests", &transport::RcCounters::rx_write_requests},
    {"rx_read_requests", &transport::RcCounters::rx_read_requests},
    {"rx_atomic_requests", &transport::RcCounters::rx_atomic_requests},
    {"duplicate_request", &transport::RcCounters::duplicate_request},
    {"out_of_sequence", &transport::RcCounters::out_of_sequence},
    {"out_of_buffer", &transport::RcCounters::out_of_buffer},
    {"resp_remote_access_errors", &transport::RcCounters::resp_remote_access_errors},
    {"resp_local_length_error", &transport::RcCounters::resp_local_length_error},
    {"resp_cqe_error", &transport::RcCounters::resp_cqe_error},
    {"resp_cqe_flush_error", &transport::RcCounters::resp_cqe_flush_error},
};
static_assert(sizeof(kRcCounters) / sizeof(RcCounterRow) * sizeof(uint64_t) ==
                  sizeof(transport::RcCounters),
              "every counter has a row");

inline void AddCounters(transport::RcCounters& sum, const transport::RcCounters& more) {
  for (const RcCounterRow& row : kRcCounters) sum.*row.value += more.*row.value;
}

}  // namespace uroce::nic
