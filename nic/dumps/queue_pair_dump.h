// SPDX-License-Identifier: Apache-2.0
// Queue pairs as their workers have them, and as JSON.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "nic/dumps/dump_stream.h"
#include "pipeline/congestion/settings.h"
#include "pipeline/datapath/queue/queue_pair.h"

namespace uroce::nic {

class Program;
struct QueuePairObject;

/// The congestion control of one queue pair. 0: is not measured.
struct FlowView {
  bool is_limited;  ///< It has a reaction point: the next three say what that holds.
  double rate_bps;
  double target_bps;
  double alpha;
  uint32_t window_packets;  ///< Of a reliable connection.
  Nanos round_trip;         ///< The newest, of `delay`; so the next two.
  Nanos shortest_round_trip;
  Nanos target_round_trip;
  uint32_t cnps_sent;
  uint32_t cnps_handled;
};

/// What one queue pair looked like in one moment of its worker.
struct QueuePairView {
  const Client* client;
  const QueuePairObject* object;
  transport::QpState state;
  bool draining;
  bool is_selective;  ///< Of a reliable connection.
  uint32_t next_send_psn;
  uint32_t expected_psn;
  datapath::Path path;
  datapath::QueuePair::Traffic traffic;
  datapath::Counters counters;
  congestion::Profile profile;
  FlowView flow;
};

/// Goes through queue pairs, some at a time, while others come and go. Control thread.
class QueuePairWalk {
 public:
  /// Those that `asker` may see, or those of all.
  QueuePairWalk(const DumpContext& context, const Client& asker, bool of_all);
  /// The next ones; none: those were all. Until the control thread does anything else.
  std::vector<QueuePairView> Next();

 private:
  /// False: the client has no more.
  bool TakeSome(const Client& client, std::vector<QueuePairView>& views);
  void LookAt(std::vector<QueuePairView>& views) const;

  const DumpContext& context_;
  const Client& asker_;
  const bool of_all_;
  uint32_t client_ = 0;  ///< Where to go on,
  bool in_targets_ = false;
  uint32_t handle_ = 0;
  std::set<uint32_t> seen_targets_;  ///< Several programs may have one open.
};

}  // namespace uroce::nic
