// SPDX-License-Identifier: Apache-2.0
// One live capture: memory shared with a tool, with a part and a tap for each worker.
#pragma once

#include <deque>
#include <memory>

#include "absl/status/statusor.h"
#include "nic/base/reply.h"
#include "nic/objects/nic.h"
#include "pipeline/datapath/capture/packet_records.h"
#include "pipeline/os/fd.h"

namespace uroce::nic {

/// Describes a device as capture files name it.
uroce_capture_interface CaptureInterface(const NicDevice& device);

/// Frames are captured from Start until the object is destroyed. Control thread.
class Capture {
 public:
  /// Starts a capture and fills the reply: layout, interfaces, the memory's fd.
  /// Errors: no such device, a ring of an impossible size.
  static absl::StatusOr<std::unique_ptr<Capture>> Start(Nic& nic, const uroce_capture& request,
                                                        Reply& reply);
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

 private:
  Capture(Nic& nic, Mapping mapping, uint64_t ring_bytes, const datapath::TapConfig& config);

  Nic& nic_;
  Mapping mapping_;
  std::deque<datapath::CaptureTap> taps_;  ///< Indexed by worker.
};

}  // namespace uroce::nic
