// SPDX-License-Identifier: Apache-2.0
// Events of a device that a driver's own threads report, and when a device whose peer is gone may
// be closed.
#pragma once

#include <rte_ethdev.h>

#include <atomic>
#include <cstdint>

namespace uroce::drivers {

/// Gives the events of one device, such as a peer that has come or gone, from whatever thread its
/// driver has, as an fd. Also a gate that keeps that thread from removing a device while a worker
/// switches its interrupts: net_vhost frees a peer's rings when the peer dies, and only waits for
/// bursts to end.
class DeviceEvents {
 public:
  DeviceEvents();
  ~DeviceEvents();
  DeviceEvents(const DeviceEvents&) = delete;
  DeviceEvents& operator=(const DeviceEvents&) = delete;

  /// Begins to hear of a device; Forget ends it. Control thread.
  void Listen(uint16_t port_id);
  void Forget();

  /// The fd is readable from an event until Take.
  int fd() const { return event_fd_; }
  void Take();

  /// Workers call both around an access: the access ends before the device goes, or finds it gone.
  void Enter() {
    inside_.fetch_add(1, std::memory_order_seq_cst);
    std::atomic_thread_fence(std::memory_order_seq_cst);  // The add alone does not order loads.
  }
  void Leave() { inside_.fetch_sub(1, std::memory_order_release); }

 private:
  static int OnEvent(uint16_t port_id, rte_eth_event_type type, void* self, void* result);

  static constexpr uint16_t kNone = UINT16_MAX;
  const int event_fd_;
  uint16_t port_id_ = kNone;
  std::atomic<uint32_t> inside_{0};
};

/// Tells when a device whose peer is gone may be closed. When the peer of a net_virtio_user is
/// gone, each query of the device's link schedules work on DPDK's interrupt thread, to be done on
/// the device a moment later. Closing the device does not cancel that work. After Notice the owner
/// queries the link no more. Once all work scheduled until then is done (`is_settled`), the device
/// may be closed. Control thread.
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
