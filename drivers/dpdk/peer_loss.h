// SPDX-License-Identifier: Apache-2.0
// When a device whose peer is gone may be closed.
#pragma once

#include <atomic>

namespace uroce::drivers {

/// Each look at the link of a net_virtio_user whose peer is gone orders work from DPDK's interrupt
/// thread, to be done a moment later on the device; closing the device does not call it off. After
/// Notice the owner looks no more, and once what was ordered until then is done, the device may
/// go. Control thread.
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
