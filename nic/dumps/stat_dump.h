// SPDX-License-Identifier: Apache-2.0
// The counters of all devices, as JSON.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "nic/dumps/dump_stream.h"
#include "nic/dumps/queue_pair_dump.h"
#include "pipeline/datapath/queue/queue_pair_config.h"

namespace uroce::nic {

class NicDevice;

/// Adds up the counters of live connections, some at a time. Control thread.
class StatWalk {
 public:
  /// `asker` may be anybody: the sums are of all programs.
  StatWalk(const DumpContext& context, const Client& asker);
  /// Looks at the next queue pairs. Returns false when all have been looked at.
  bool Continue();
  /// The sums, and all that the daemon counts besides. After Continue has returned false.
  nlohmann::ordered_json Whole() const;
  /// Each program: how many queue pairs it has, and their traffic. After Continue has returned
  /// false. For those that may know all programs.
  nlohmann::ordered_json Programs() const;

 private:
  nlohmann::ordered_json DeviceJson(const NicDevice& device) const;

  const DumpContext& context_;
  const std::vector<std::shared_ptr<NicDevice>> devices_;  ///< That were there at the beginning.
  QueuePairWalk walk_;
  std::map<const NicDevice*, datapath::Counters> sums_;
  std::map<const NicDevice*, uint64_t> counts_;
  struct Use {
    uint64_t queue_pairs = 0;
    uint64_t sent_bytes = 0;
    uint64_t received_bytes = 0;
  };
  std::map<uint32_t, Use> programs_;  ///< By the id of the client.
};

/// UROCE_DUMP_STAT.
class StatSource : public DumpSource {
 public:
  StatSource(const DumpContext& context, const Client& asker) : walk_(context, asker) {}
  bool Append(std::string& text) override;

 private:
  StatWalk walk_;
};

}  // namespace uroce::nic
