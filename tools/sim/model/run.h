// SPDX-License-Identifier: Apache-2.0
// One run of a simulation, from its network and flows to its results.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "pipeline/base/types.h"
#include "tools/sim/model/cluster.h"
#include "tools/sim/model/results.h"
#include "tools/sim/model/traffic.h"

namespace uroce::tools::sim {

/// A change of the network at a time.
struct NetworkEvent {
  enum class Kind : uint8_t { kLinkDown, kLinkUp, kHostPauses, kHostResumes };
  Nanos at{0};
  Kind kind = Kind::kLinkDown;
  uint32_t number = 0;  ///< Of the cable, or of the host.
};

struct RunPlan {
  Network network;
  std::vector<std::string> groups;  ///< Names of the workloads.
  std::vector<FlowPlan> flows;
  std::vector<PacketEvent> packet_events;
  std::vector<NetworkEvent> network_events;  ///< In the order of their times.
  Nanos duration{0};  ///< The most. A run ends earlier when all flows have an end and have ended.
  Nanos warm_up{0};   ///< Not measured.
  uint64_t seed = 1;
  uint32_t samples = 500;  ///< Of queues and rates, in `duration`.
};

struct RunProgress {
  Nanos now{0};
  uint64_t packet_events = 0;
  uint32_t running_flows = 0;
  uint64_t ended_flows = 0;
};

/// What a run tells while it goes on. Both may be empty.
struct RunWatch {
  std::function<void(const RunProgress&)> on_progress;  ///< After each sample.
  std::vector<uint32_t> recorded_hosts;
  FrameRecorder recorder;
};

/// `plan` outlives the call. The same plan gives the same results on every machine.
Results Run(const RunPlan& plan, const RunWatch& watch);

/// How long a flow takes on an idle network: the bits of its packets on the slowest link of its
/// path, its last packet on the others, and the acknowledgement back.
class IdleTimes {
 public:
  explicit IdleTimes(const Network& network);
  Nanos Of(const FlowPlan& flow) const;

 private:
  struct Path {
    Nanos delay{0};
    double slowest_bps = 0;
    double nanos_per_bit = 0;  ///< The sum of all its links.
  };
  Path PathBetween(uint32_t from, uint32_t to) const;

  const Network& network_;
  std::vector<std::vector<uint32_t>> trunks_of_;        ///< Of each switch.
  mutable std::vector<std::vector<uint32_t>> towards_;  ///< By target and switch: the next trunk.
};

}  // namespace uroce::tools::sim
