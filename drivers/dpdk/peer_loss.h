// SPDX-License-Identifier: Apache-2.0
// Tells when a device whose peer is gone may be closed.
#pragma once

#include <atomic>

namespace uroce::drivers {

/// When the peer of a net_virtio_user is gone, each query of the device's link schedules work on
/// DPDK's interrupt thread, to be done on the device a moment later. Closing the device does not
/// cancel that work. After Notice the owner queries the link no more. Once all work scheduled until
/// then is done (`is_settled`), the device may be closed. Control thread.
class PeerLoss {
 public:
  PeerLoss() = default;
  ~PeerLoss();
  PeerLoss(const PeerLoss&) = delete;
  PeerLoss& operator=(const PeerLoss&) = delete;

  void Notice();
  void Forget();
  bool noticed() const { return noticed_; }
  bool is_settled() const { return noticed_ && settled_.load(std::memory_order_acquire); }

 private:
  static void OnFirstAlarm(void* self);
  static void OnSecondAlarm(void* self);

  bool noticed_ = false;
  std::atomic<bool> settled_{false};
};

}  // namespace uroce::drivers
