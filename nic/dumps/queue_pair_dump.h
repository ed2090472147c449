// SPDX-License-Identifier: Apache-2.0
// The state of queue pairs and their congestion control as their workers see it, also as JSON.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "nic/dumps/dump_stream.h"
#include "pipeline/congestion/settings.h"
#include "pipeline/datapath/queue/queue_pair.h"

namespace uroce::nic {

class Nic;
struct QueuePairObject;

/// The congestion control of one queue pair. A value that is not measured is 0.
struct FlowView {
  double limit_bps;  ///< That the program has set.
  bool is_limited;   ///< The flow has a reaction point, whose state the next three fields show.
  double rate_bps;
  double target_bps;
  double alpha;
  uint32_t window_packets;  ///< For reliable connections.
  Nanos round_trip;         ///< The newest. This field and the next two are of profile `delay`.
  Nanos shortest_round_trip;
  Nanos target_round_trip;
  uint32_t cnps_sent;
  uint32_t cnps_handled;
};

/// "RESET" to "ERR".
const char* QpStateName(transport::QpState state);

/// A snapshot of one queue pair, taken inside Run of its worker.
struct QueuePairView {
  const Client* client;
  const QueuePairObject* object;
  transport::QpState state;
  bool draining;
  bool is_selective;  ///< Selective repeat is in use; reliable connections only.
  uint32_t next_send_psn;
  uint32_t expected_psn;
  datapath::Path path;
  datapath::QueuePair::Traffic traffic;
  datapath::Counters counters;
  uint32_t priority;            ///< Of what it sends.
  congestion::Profile profile;  ///< Of this priority.
  FlowView flow;
};

struct FoundQueuePair {
  const Client* client;
  const QueuePairObject* object;
};

/// Calls `look` with the index of each queue pair, inside Run of the worker that owns it.
void RunByOwners(Nic& nic, std::span<const FoundQueuePair> found,
                 absl::FunctionRef<void(size_t index)> look);

/// Iterates over queue pairs, some at a time, while others come and go. Control thread.
class QueuePairWalk {
 public:
  /// Visits the queue pairs that `asker` may see, or all of them.
  QueuePairWalk(const DumpContext& context, const Client& asker, bool of_all);
  /// The next ones, as many at most; empty at the end. Valid until the control thread does
  /// anything else.
  std::vector<FoundQueuePair> Find(uint32_t most);
  /// Snapshots of the next ones.
  std::vector<QueuePairView> Next();

 private:
  /// Returns false when the client has no more.
  bool TakeSome(const Client& client, uint32_t room, std::vector<FoundQueuePair>& found);

  const DumpContext& context_;
  const Client& asker_;
  const bool of_all_;
  uint32_t client_ = 0;  ///< Where the next call continues, with the next two.
  bool in_targets_ = false;
  uint32_t handle_ = 0;
  std::set<uint32_t> seen_targets_;  ///< Several programs may have opened the same target.
};

/// Lists queue pairs as their workers have them.
std::unique_ptr<DumpSource> MakeQueuePairsDump(const DumpContext& context, const Client& asker);
/// Lists the congestion control of queue pairs: rates, windows, round trips, CNPs.
std::unique_ptr<DumpSource> MakeFlowsDump(const DumpContext& context, const Client& asker);
/// {"settings": [...]}: profile and parameters of congestion control of each device.
nlohmann::ordered_json CongestionSettingsJson(const Nic& nic);

}  // namespace uroce::nic
