// SPDX-License-Identifier: Apache-2.0
// What NICs of a simulation would have captured, as pcapng.
#pragma once

#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/capture/pcapng_writer.h"
#include "tools/sim/model/run.h"

namespace uroce::tools::sim {

/// A file for each recorded NIC. Frames with data are cut behind their headers, because simulated
/// data have no bytes; all other frames are whole, with their ICRC.
class Recorder {
 public:
  /// `wanted`: "h3", or "h3=FILE"; the usual file is SCENARIO-h3.pcapng. Errors: kInvalidArgument.
  static absl::StatusOr<std::unique_ptr<Recorder>> Open(const Network& network,
                                                        const std::string& scenario,
                                                        const std::vector<std::string>& wanted);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /// Has `watch` record. The recorder outlives the run.
  void Watch(RunWatch& watch);
  /// Writes what is left. Errors: kDataLoss.
  absl::Status Finish();

 private:
  struct File {
    std::string name;
    FILE* stream = nullptr;
    capture::PcapngWriter writer;
    bool has_failed = false;
  };

  Recorder() = default;
  void OnFrame(File& file, const PacketFrame& frame, bool is_sent, Nanos now);
  static void Write(File& file);

  std::map<uint32_t, File> files_;  ///< By host.
};

}  // namespace uroce::tools::sim
