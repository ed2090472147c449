// SPDX-License-Identifier: Apache-2.0
// Events that a driver's own threads report of a device: its peer has come or gone.
#pragma once

#include <rte_ethdev.h>

#include <atomic>
#include <cstdint>

namespace uroce::drivers {

/// Events of one device, from whatever thread its driver has, as an fd; and a gate that keeps such
/// a thread from taking a device away while a worker is switching its interrupts: net_vhost frees
/// a peer's rings when it dies, and only waits for bursts.
class DeviceEvents {
 public:
  DeviceEvents();
  ~DeviceEvents();
  DeviceEvents(const DeviceEvents&) = delete;
  DeviceEvents& operator=(const DeviceEvents&) = delete;

  /// Begins and ends hearing of a device. Control thread.
  void Listen(uint16_t port_id);
  void Forget();

  /// Readable after an event until Take.
  int fd() const { return event_fd_; }
  void Take();

  /// Workers: what stands between them happens before the device goes, or finds it gone.
  void Enter() { inside_.fetch_add(1, std::memory_order_seq_cst); }
  void Leave() { inside_.fetch_sub(1, std::memory_order_release); }

 private:
  static int OnEvent(uint16_t port_id, rte_eth_event_type type, void* self, void* result);

  static constexpr uint16_t kNone = UINT16_MAX;
  const int event_fd_;
  uint16_t port_id_ = kNone;
  std::atomic<uint32_t> inside_{0};
};

}  // namespace uroce::drivers
