// SPDX-License-Identifier: Apache-2.0
// Events of a device that a driver's own threads report: its peer has come or gone.
#pragma once

#include <rte_ethdev.h>

#include <atomic>
#include <cstdint>

namespace uroce::drivers {

/// Gives the events of one device, from whatever thread its driver has, as an fd. Also a gate that
/// keeps that thread from removing a device while a worker switches its interrupts: net_vhost frees
/// a peer's rings when the peer dies, and only waits for bursts to end.
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

}  // namespace uroce::drivers
