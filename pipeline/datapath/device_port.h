// SPDX-License-Identifier: Apache-2.0
// A device in the hands of its worker: frames in, frames out, and who sends next.
#pragma once

#include <rte_mbuf.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "pipeline/base/types.h"
#include "pipeline/datapath/capture_tap.h"
#include "pipeline/datapath/deficit_round_robin.h"
#include "pipeline/datapath/device.h"
#include "pipeline/datapath/host_link.h"
#include "verbs-shim/abi/uroce_abi.h"

namespace uroce::datapath {

class Clock;
class Session;

/// Packets of one turn and port, in either direction.
inline constexpr uint32_t kBurst = 32;

/// Adds to a counter that only this worker writes: no locked instruction.
inline void Count(std::atomic<uint64_t>& counter, uint64_t amount = 1) {
  counter.store(counter.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
}

/// The queue pairs of one session that have something to send on one port.
struct SessionFlow : Flow {
  const Session* session = nullptr;
  DeficitRoundRobin queue_pairs;
};

/// Captures of a worker; empty nearly always.
struct Taps {
  std::vector<CaptureTap*> list;
  Nanos time;  ///< Of this turn, since 1970; kept while there are captures.

  void Add(uint32_t device_index, uint16_t direction, const rte_mbuf* frame,
           const uroce_capture_note& note) {
    for (CaptureTap* tap : list) {
      tap->Add(device_index, direction, rte_pktmbuf_mtod(frame, const uint8_t*), frame->data_len,
               time, note);
    }
  }
  /// What was added in the turn before becomes visible: it has reached the memory meanwhile.
  void BeginTurn(Clock& clock, Nanos now);
};

/// Queues between a port and its worker. One thread.
class DevicePort {
 public:
  DevicePort(Device* device, Taps* taps);
  ~DevicePort();
  DevicePort(const DevicePort&) = delete;
  DevicePort& operator=(const DevicePort&) = delete;

  Device& device() const { return device_; }
  DeviceCounters& counters() const { return device_.counters; }
  DeficitRoundRobin& sessions() { return sessions_; }
  SessionFlow* FlowOf(const Session* session);
  void ForgetSession(const Session* session);

  /// Up to 2 * kBurst frames: those from the port, and those that the device sent to itself.
  /// Captures see them when it is known what became of them: see Worker::Impl::Record.
  uint16_t Receive(rte_mbuf** frames, Nanos now);

  /// Frames that may be queued in this turn.
  uint32_t LookForRoom() const;
  /// Whether a burst fits beyond what LookForRoom counts: for packets whose turn has passed while
  /// their payload was being copied.
  bool HasReserve() const {
    return pending_count_ <= kBurst && own_count_ <= kOwnRing - 2 * kBurst;
  }
  /// Takes `frame`, which goes out by the next Flush. `to_self`: to this device's own address.
  /// `note` is what captures say of it.
  void Queue(rte_mbuf* frame, bool to_self, const uroce_capture_note& note = {});
  void Flush(Nanos now);
  /// Frames or flows that wait: no time to sleep.
  bool has_work() const {
    return pending_count_ != 0 || own_count_ != 0 || !sessions_.empty() || host_has_frames();
  }
  /// Whether the device's own stack, where it has one, wants to send.
  bool host_has_frames() const {
    return device_.host_link != nullptr && !device_.host_link->outbound().empty();
  }

 private:
  static constexpr uint32_t kPending = 2 * kBurst;
  static constexpr uint32_t kOwnRing = 8 * kBurst;

  Device& device_;
  drivers::Port& port_;
  Taps& taps_;
  DeficitRoundRobin sessions_;
  std::vector<std::unique_ptr<SessionFlow>> flows_;
  std::array<rte_mbuf*, kPending> pending_{};
  uint32_t pending_count_ = 0;
  std::array<rte_mbuf*, kOwnRing> own_{};  // Frames to the device's own address.
  uint32_t own_head_ = 0;
  uint32_t own_count_ = 0;
};

}  // namespace uroce::datapath
