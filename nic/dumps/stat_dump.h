// SPDX-License-Identifier: Apache-2.0
// All counters of devices, workers and programs: as a snapshot, and as JSON.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "nic/dumps/dump_stream.h"
#include "nic/dumps/queue_pair_dump.h"
#include "nic/metrics/open_metrics.h"
#include "pipeline/datapath/queue/queue_pair.h"

namespace uroce::nic {

class NicDevice;

/// All counters of a device. `connections`: the sums of its live and ended connections.
/// Control thread.
std::vector<NamedCount> DeviceCounts(const NicDevice& device, const datapath::Counters& connections,
                                     uint64_t queue_pairs);

/// Takes a snapshot of all counters: adds up those of live connections, some at a time. Control
/// thread.
class StatWalk {
 public:
  /// `asker` may be any client: the sums are of all programs.
  StatWalk(const DumpContext& context, const Client& asker);
  /// Looks at the next queue pairs. Returns false when all have been looked at.
  bool Continue();
  /// The sums, and all that the daemon counts besides. After Continue has returned false. Its
  /// programs are for those that may know all programs.
  Snapshot Take() const;

 private:
  struct Use {
    uint64_t queue_pairs = 0;
    uint64_t sent_bytes = 0;
    uint64_t received_bytes = 0;
  };
  struct DeviceSums {
    datapath::Counters counters;
    uint64_t queue_pairs = 0;
  };

  void Add(const FoundQueuePair& found);
  std::vector<ProgramSnapshot> Programs() const;

  const DumpContext& context_;
  const std::vector<std::shared_ptr<NicDevice>> devices_;  ///< That were there at the beginning.
  QueuePairWalk walk_;
  std::map<const NicDevice*, DeviceSums> sums_;
  std::map<uint32_t, Use> programs_;  ///< By the id of the client.
};

/// UROCE_DUMP_STAT: the counters as JSON.
class StatSource : public DumpSource {
 public:
  StatSource(const DumpContext& context, const Client& asker)
      : context_(context), walk_(context, asker) {}
  bool Append(std::string& text) override;

 private:
  const DumpContext& context_;
  StatWalk walk_;
};

}  // namespace uroce::nic
