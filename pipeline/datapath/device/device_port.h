// SPDX-License-Identifier: Apache-2.0
// What one worker has of each device: its queue of the port, its send schedule and its counters.
#pragma once

#include <rte_mbuf.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "pipeline/base/counters.h"
#include "pipeline/base/types.h"
#include "pipeline/datapath/capture/capture_tap.h"
#include "pipeline/datapath/device/device.h"
#include "pipeline/datapath/frames/cross_worker_queues.h"
#include "pipeline/datapath/frames/frame_link.h"
#include "pipeline/datapath/thread/deficit_round_robin.h"
#include "pipeline/datapath/thread/read_budget.h"
#include "pipeline/datapath/thread/shared_rate.h"
#include "pipeline/datapath/thread/timer_wheel.h"
#include "pipeline/os/clock.h"
#include "pipeline/port/port.h"
#include "pipeline/shm/abi/uroce_arena.h"
#include "pipeline/shm/abi/uroce_capture.h"

namespace uroce::datapath {

class Session;

/// Packets of one turn and port, in either direction.
inline constexpr uint32_t kBurst = 32;

/// The bytes that a program, and a queue pair within a program, sends before the next one does.
/// Programs wait little for each other. Queue pairs wait longer: each turn of one brings its state
/// into the cache at both ends, and costs an acknowledgement (measured at 4 KB: 390 ns a packet of
/// one queue pair; of a hundred, 500 ns with turns of 16 KB and 425 ns with 64 KB).
inline constexpr int64_t kSessionQuantumBytes = 16 * 1024;
inline constexpr int64_t kQueuePairQuantumBytes = 64 * 1024;

/// The queue pairs of one session that have something to send on one port.
struct SessionFlow : Flow {
  SessionFlow(const Session* its, SharedRate* rate) : session(its), share(rate) {
    resume.flow = this;
  }

  const Session* session;
  DeficitRoundRobin queue_pairs{kQueuePairQuantumBytes};
  ReadLine reads;   ///< Those whose READs wait for room in the port's receive buffer.
  RateShare share;  ///< Of what the programs of the user may send together.
  struct Timer : TimerEntry {
    SessionFlow* flow = nullptr;
  };
  Timer resume;  ///< Filed while the session waits for its share.
};

/// The captures of a worker. Nearly always there is none.
struct Taps {
  explicit Taps(Clock& worker_clock) : clock(worker_clock) {}

  std::vector<CaptureTap*> list;
  Clock& clock;

  /// Each frame has a time of its own, so that those of a burst can be told apart.
  void Add(uint32_t device_index, uint16_t direction, const rte_mbuf* frame,
           const uroce_capture_note& note) {
    const Nanos time = clock.Wall();
    for (CaptureTap* tap : list) {
      tap->Add(device_index, direction, rte_pktmbuf_mtod(frame, const uint8_t*), frame->data_len,
               time, note);
    }
  }
  /// Publishes what the previous turn added, which has reached the memory meanwhile. Called when
  /// there are captures.
  void BeginTurn();
};

/// One worker's access to a device: frames in, frames out, and the choice of who sends next. The
/// worker drives a queue of the port. If it drives none, another worker sends for it, and other
/// workers pass on what it receives. Most of its fields are what the constructor was given, or has
/// looked up, so that no packet looks it up. One thread.
class DevicePort {
 public:
  DevicePort(Device* device, CrossWorkerLink* cross_worker, Taps* taps);
  ~DevicePort();
  DevicePort(const DevicePort&) = delete;
  DevicePort& operator=(const DevicePort&) = delete;

  Device& device() const { return device_; }
  /// Names the device in frames that go to other workers: its index.
  uint16_t position() const { return position_; }
  DeviceCounters& counters() const { return counters_; }
  /// See Device.
  bool leaves_icrc_out() const { return device_.leaves_icrc_out; }
  DeviceHistograms& histograms() const { return histograms_; }
  /// The environment of packets of `traffic_class`.
  congestion::Environment& CongestionOf(uint8_t traffic_class) const {
    return environments_[congestion::PriorityOf(traffic_class)];
  }
  std::span<congestion::Environment> environments() const { return environments_; }
  DeficitRoundRobin& sessions() { return sessions_; }
  ReadBudget& reads() { return reads_; }
  /// `rate`: the limit of the user, or null.
  SessionFlow* FlowOf(const Session* session, SharedRate* rate);
  void ForgetSession(const Session* session);
  /// The device's port was removed, and `absent` stands for it: drops the frames that wait.
  void Unplug(drivers::Port* absent);

  // ---- limits: of the device, and of users ----
  /// Whether the device's limit lets data leave now. Acknowledgements, CNPs, and what stacks send
  /// do not wait, but count.
  bool MaySend(Nanos now) {
    is_paced_ = share_.is_limited() && !share_.MaySend(now);
    return !is_paced_;
  }
  /// Takes `flow` from the schedule until its user's limit lets it send.
  void Pause(SessionFlow& flow);
  /// Puts those back whose time has come.
  void Resume(Nanos now) {
    if (paused_count_ != 0) [[unlikely]]
      ResumeExpired(now);
  }

  /// Tells congestion control that the worker was ready before `now`, but had no CPU for `wait`.
  void NoteWait(Nanos wait, Nanos now);

  /// Receives up to 2 * kBurst frames: those from the port, and those that the device sent to
  /// itself for this worker. Frames to itself for other workers go to their owner; an owner that is
  /// behind holds them back. Captures see frames once their fate is known: see FrameRecorder.
  uint16_t Receive(rte_mbuf** frames, Nanos now);

  /// How many frames may be queued in this turn.
  uint32_t LookForRoom() const;
  /// Whether a burst fits beyond what LookForRoom counts: for packets whose turn has passed while
  /// their payload was being copied.
  bool HasReserve() const {
    return pending_count_ <= kBurst && own_count_ <= kOwnRing - 2 * kBurst;
  }
  /// Takes `frame`, which goes out by the next Flush. `to_self`: to this device's own address.
  /// `note` is what captures say of it. The frame says whom it is for (frame_marks.h).
  void Queue(rte_mbuf* frame, bool to_self, const uroce_capture_note& note = {});
  /// Takes a copy of a frame that goes out, for members of its group on this device. The frame
  /// names a queue pair of this worker.
  void QueueLoopback(rte_mbuf* frame) { own_[(own_head_ + own_count_++) % kOwnRing] = frame; }
  /// Takes up to `most` frames of each worker that this one sends for, and no more in all than
  /// there is room for. True: it took at least one.
  bool TakeRelayed(uint32_t most);
  bool has_relays() const { return !relays_.empty(); }
  void Flush(Nanos now);
  /// Whether frames or flows wait for this worker alone, so that it must not sleep.
  bool has_work() const;
  /// Whether the device's own stack, where it has one and this worker serves it, wants to send.
  bool host_has_frames() const {
    return serves_host_ && device_.host_link != nullptr && !device_.host_link->outbound().empty();
  }

  /// Whether the thread that answers the device's GSI datagrams wants to send, likewise.
  bool gsi_has_frames() const {
    return serves_gsi_ && device_.gsi_link != nullptr && !device_.gsi_link->outbound().empty();
  }

  // ---- sleeping; see drivers::Port ----
  int wait_fd() const { return queue_ ? port_->wait_fd(*queue_) : -1; }
  /// Whether frames may come that do not wake a sleeping worker.
  bool needs_polling() const { return queue_ && wait_fd() < 0 && !port_->wakes_itself(); }
  bool BeforeSleep() { return !queue_ || port_->BeforeSleep(*queue_); }
  void AfterSleep() {
    if (queue_) port_->AfterSleep(*queue_);
  }
  Nanos NextDeadline() const {
    return std::min({PortDeadline(), RateDeadline(), reads_.NextDeadline()});
  }

 private:
  static constexpr uint32_t kPending = 2 * kBurst;
  static constexpr uint32_t kOwnRing = 8 * kBurst;

  void DropFrames();
  /// Tells congestion control how far the port's network is behind `now`.
  void NoteLag(Nanos now);
  uint16_t ReceiveOwn(rte_mbuf** frames);
  Nanos PortDeadline() const { return queue_ ? port_->NextDeadline(*queue_) : kNever; }
  /// When a limit lets data leave that it holds back.
  Nanos RateDeadline() const {
    const Nanos own = is_paced_ && !sessions_.empty() ? share_.next_send() : kNever;
    return paused_count_ == 0 ? own : std::min(own, paused_.NextDeadline());
  }
  /// Whether the port takes no frame now, and has said when it may take more.
  bool IsHeldBack() const {
    return queue_ && PortDeadline() != kNever && port_->TransmitRoom(*queue_) == 0;
  }
  void ResumeExpired(Nanos now);
  uint32_t TransmitRoom() const;

  Device& device_;
  drivers::Port* port_;
  const uint16_t position_;
  CrossWorkerLink& cross_worker_;
  Taps& taps_;
  DeviceCounters& counters_;
  DeviceHistograms& histograms_;
  const std::span<congestion::Environment, congestion::kPriorities> environments_;
  const bool may_lag_;
  const std::optional<uint16_t> queue_;
  const uint32_t driver_;  ///< The worker that sends: this one, where it has a queue.
  const bool serves_host_;
  const bool serves_gsi_;
  std::vector<drivers::FrameQueue*> relays_;  ///< Of workers that this one sends for.
  DeficitRoundRobin sessions_{kSessionQuantumBytes};
  std::vector<std::unique_ptr<SessionFlow>> flows_;
  ReadBudget reads_;
  RateShare share_;              ///< Of the device's limit.
  bool is_paced_ = false;        ///< The device's limit was in the way when it was asked last.
  TimerWheel paused_{Nanos(0)};  ///< Sessions that wait for their share.
  uint32_t paused_count_ = 0;
  std::array<rte_mbuf*, kPending> pending_{};
  uint32_t pending_count_ = 0;
  std::array<rte_mbuf*, kOwnRing> own_{};  // Frames to the device's own address.
  uint32_t own_head_ = 0;
  uint32_t own_count_ = 0;
};

/// The ports of one worker. A turn goes through them in the order in which they were added. They
/// change between turns only. One thread.
class DevicePorts {
 public:
  auto begin() const { return list_.begin(); }
  auto end() const { return list_.end(); }

  /// The port at a position (DevicePort::position), or null: frames may come from another worker
  /// for a device that was removed, or is not here yet.
  DevicePort* At(uint16_t position) const {
    DevicePort* const port = slots_[position % UROCE_MAX_DEVICES];
    return port != nullptr && port->position() == position ? port : nullptr;
  }
  DevicePort* Find(const Device& device) const { return At(static_cast<uint16_t>(device.index())); }

  DevicePort& Add(std::unique_ptr<DevicePort> port) {
    slots_[port->position() % UROCE_MAX_DEVICES] = port.get();
    return *list_.emplace_back(std::move(port));
  }
  /// Range: no queue pair of `device` is left.
  void Remove(const Device& device) {
    slots_[device.index() % UROCE_MAX_DEVICES] = nullptr;
    std::erase_if(list_, [&](const auto& port) { return &port->device() == &device; });
  }

 private:
  std::vector<std::unique_ptr<DevicePort>> list_;
  std::array<DevicePort*, UROCE_MAX_DEVICES> slots_{};
};

}  // namespace uroce::datapath
