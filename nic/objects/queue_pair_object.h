// SPDX-License-Identifier: Apache-2.0
// A queue pair as the control thread sees it, and its counters by name.
#pragma once

#include <cstdint>
#include <optional>
#include <set>

#include "nic/net/followed_paths.h"
#include "nic/objects/contexts.h"
#include "nic/objects/lifetimes.h"
#include "nic/objects/numbers.h"
#include "nic/objects/resources.h"
#include "nic/peers/capability_negotiation.h"
#include "pipeline/datapath/queue/queue_pair.h"
#include "pipeline/shm/abi/uroce_commands.h"

namespace uroce::nic {

/// A counter of a queue pair by name, for sums and dumps.
struct CounterRow {
  const char* name;
  uint64_t datapath::Counters::*value;
};

inline constexpr CounterRow kCounters[] = {
    {"retransmitted_pkts", &datapath::Counters::retransmitted_pkts},
    {"packet_seq_err", &datapath::Counters::packet_seq_err},
    {"implied_nak_seq_err", &datapath::Counters::implied_nak_seq_err},
    {"local_ack_timeout_err", &datapath::Counters::local_ack_timeout_err},
    {"tail_loss_probes", &datapath::Counters::tail_loss_probes},
    {"credit_probes", &datapath::Counters::credit_probes},
    {"rnr_nak_retry_err", &datapath::Counters::rnr_nak_retry_err},
    {"retry_exceeded_err", &datapath::Counters::retry_exceeded_err},
    {"retry_rnr_exceeded_err", &datapath::Counters::retry_rnr_exceeded_err},
    {"req_cqe_error", &datapath::Counters::req_cqe_error},
    {"req_cqe_flush_error", &datapath::Counters::req_cqe_flush_error},
    {"req_remote_invalid_request", &datapath::Counters::req_remote_invalid_request},
    {"req_remote_access_errors", &datapath::Counters::req_remote_access_errors},
    {"rx_write_requests", &datapath::Counters::rx_write_requests},
    {"rx_read_requests", &datapath::Counters::rx_read_requests},
    {"rx_atomic_requests", &datapath::Counters::rx_atomic_requests},
    {"duplicate_request", &datapath::Counters::duplicate_request},
    {"out_of_sequence", &datapath::Counters::out_of_sequence},
    {"kept_out_of_order", &datapath::Counters::kept_out_of_order},
    {"out_of_buffer", &datapath::Counters::out_of_buffer},
    {"resp_remote_access_errors", &datapath::Counters::resp_remote_access_errors},
    {"resp_local_length_error", &datapath::Counters::resp_local_length_error},
    {"resp_cqe_error", &datapath::Counters::resp_cqe_error},
    {"resp_cqe_flush_error", &datapath::Counters::resp_cqe_flush_error},
    {"qkey_viol", &datapath::Counters::qkey_viol},
    {"dropped_messages", &datapath::Counters::dropped_messages},
};
static_assert(sizeof(kCounters) / sizeof(CounterRow) * sizeof(uint64_t) ==
                  sizeof(datapath::Counters),
              "every counter has a row");

inline void AddCounters(datapath::Counters& sum, const datapath::Counters& more) {
  for (const CounterRow& row : kCounters) sum.*row.value += more.*row.value;
}

class Nic;
class NicDevice;
struct CompletionQueueObject;
struct SharedReceiveObject;

/// A queue pair of one program, or an XRC target, which uses no object of a program.
struct QueuePairObject {
  NicDevice* device = nullptr;
  Use<ProtectionDomain> pd;  ///< This and the next fields up to `srq` are null for a target.
  Use<CompletionQueueObject> send_cq;
  Use<CompletionQueueObject> receive_cq;
  Use<SharedReceiveObject> srq;  ///< May be null.
  uint32_t qp_type = 0;          ///< enum ibv_qp_type
  ArenaRange range;
  uroce_qp_attr attr{};  ///< As last set; the mask is meaningless.
  FollowedPaths::Holder followed;
  peers::Holder capabilities;  ///< With the NIC at the other end of a reliable connection; or null.
  std::set<Gid> groups;        ///< The groups to which it is attached.
  datapath::QueuePair queue_pair;
  QuotaShare held_bytes{nullptr};  ///< Of its user's own_bytes, for its works and packets.
};

/// Where queue pairs of the device are.
NicPlace PlaceOf(const NicDevice& device);

/// State of a queue pair that only its worker knows.
struct QueuePairLive {
  transport::QpState state = transport::QpState::kReset;
  bool draining = false;
  uint32_t next_send_psn = 0;
  uint32_t expected_psn = 0;
};

/// Reads the state; call it inside Run of the queue pair's worker.
QueuePairLive LookAt(const QueuePairObject& object);
/// Runs LookAt on the worker. Control thread.
QueuePairLive LiveState(Nic& nic, const QueuePairObject& object);

}  // namespace uroce::nic
