// SPDX-License-Identifier: Apache-2.0
// One live capture: memory shared with a tool, with a part and a tap for each worker.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nic/base/reply.h"
#include "nic/objects/nic.h"
#include "pipeline/datapath/capture/packet_records.h"
#include "pipeline/os/fd.h"
#include "pipeline/os/shared_memory.h"

namespace uroce::nic {

/// Describes a device as capture files name it.
uroce_capture_interface CaptureInterface(const NicDevice& device);

/// The memory that a capture shares with a tool. Making it takes no time; Populate takes 25 ms for
/// each 64 MB, so a side thread calls it.
class CaptureMemory {
 public:
  /// Errors: no such device, no file.
  static absl::StatusOr<CaptureMemory> Make(Nic& nic, const uroce_capture& request);

  /// Makes all pages, so that no worker faults on its first pass through a ring. Errors:
  /// ResourceExhausted.
  absl::Status Populate() const;
  uint64_t bytes() const { return mapping_->length(); }

 private:
  friend class Capture;
  CaptureMemory(Fd file, std::shared_ptr<Mapping> mapping, uint64_t ring_bytes)
      : file_(std::move(file)), mapping_(std::move(mapping)), ring_bytes_(ring_bytes) {}

  Fd file_;
  std::shared_ptr<Mapping> mapping_;  ///< Unmapped by the reaper.
  uint64_t ring_bytes_;               ///< Of each worker.
};

/// Frames are captured from Start until the object is destroyed. Control thread.
class Capture {
 public:
  /// Starts a capture in populated memory and fills the reply: layout, interfaces, the memory's fd.
  /// Errors: no such device.
  static absl::StatusOr<std::unique_ptr<Capture>> Start(Nic& nic, const uroce_capture& request,
                                                        CaptureMemory memory, Reply& reply);
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

 private:
  Capture(Nic& nic, const CaptureMemory& memory, const datapath::TapConfig& config);

  Nic& nic_;
  const std::shared_ptr<Mapping> mapping_;
  std::deque<datapath::CaptureTap> taps_;  ///< Indexed by worker.
};

}  // namespace uroce::nic
