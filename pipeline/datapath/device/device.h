// SPDX-License-Identifier: Apache-2.0
// A device: one NIC as the workers see it. It has a port, the workers that drive the port's queues,
// addresses and counters; each worker has its queue of the port and its send schedule.
#pragma once

#include <rte_mbuf.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/base/observation.h"
#include "pipeline/base/types.h"
#include "pipeline/congestion/settings.h"
#include "pipeline/datapath/capture/packet_records.h"
#include "pipeline/datapath/device/open_superframes.h"
#include "pipeline/datapath/frames/frame_link.h"
#include "pipeline/datapath/frames/waiting_frames.h"
#include "pipeline/datapath/thread/scheduling.h"
#include "pipeline/os/clock.h"
#include "pipeline/port/frames.h"
#include "pipeline/port/port.h"
#include "pipeline/port/superframes.h"
#include "pipeline/shm/abi/uroce_arena.h"
#include "pipeline/shm/abi/uroce_capture.h"

namespace uroce::datapath {

class GsiLink;
class HostLink;
class QueuePair;

/// The number that names all members of a multicast group. Each member gets a packet sent to it.
inline constexpr Qpn kMulticastQpn{0xffffff};

/// Counters of one device at one worker, which writes them with relaxed stores. The control thread
/// reads them at any time.
struct DeviceCounters {
  std::atomic<uint64_t> port_rcv_packets{0};
  std::atomic<uint64_t> port_rcv_bytes{0};
  std::atomic<uint64_t> port_xmit_packets{0};
  std::atomic<uint64_t> port_xmit_bytes{0};
  std::atomic<uint64_t> multicast_rcv_packets{0};  ///< For groups with members here.
  std::atomic<uint64_t> multicast_xmit_packets{0};
  std::atomic<uint64_t> rx_not_roce{0};    ///< Not for us: other protocol, MAC or port.
  std::atomic<uint64_t> rx_malformed{0};   ///< Lengths, versions, fragments, options, bad pad.
  std::atomic<uint64_t> rx_bad_opcode{0};  ///< Unknown, or not of the QP's service.
  std::atomic<uint64_t> rx_icrc_encapsulated{0};
  std::atomic<uint64_t> rx_bad_pkey{0};
  std::atomic<uint64_t> rx_unknown_qpn{0};
  std::atomic<uint64_t> rx_bad_address{0};  ///< Not from the QP's peer.
  std::atomic<uint64_t> rx_bad_state{0};
  std::atomic<uint64_t> rx_ghost{0};              ///< Responses that nothing waits for.
  std::atomic<uint64_t> rx_cross_worker_full{0};  ///< The owning worker was behind.
  std::atomic<uint64_t> rx_kept_full{0};          ///< Behind a missing packet; no room to keep it.
  std::atomic<uint64_t> rx_parked_full{0};  ///< No room behind a QP that waits for the helper.
  std::atomic<uint64_t> np_ecn_marked_roce_packets{0};  ///< Packets of all kinds, with a CE mark.
  std::atomic<uint64_t> np_cnp_sent{0};
  std::atomic<uint64_t> rp_cnp_handled{0};
  /// CNPs for no queue pair, not from its peer, or for one without congestion control.
  std::atomic<uint64_t> rp_cnp_ignored{0};
  /// Losses that slowed a flow down, of those the losses that counted as a CNP, and of those the
  /// ones that gave a flow at the line rate its limit.
  std::atomic<uint64_t> roce_slow_restart{0};
  std::atomic<uint64_t> roce_slow_restart_cnps{0};
  std::atomic<uint64_t> roce_slow_restart_trans{0};
  std::atomic<uint64_t> no_buffer{0};   ///< The mbuf pool was empty.
  std::atomic<uint64_t> sq_corrupt{0};  ///< Impossible ring indices or entries.
  std::atomic<uint64_t> rq_corrupt{0};
  std::atomic<uint64_t> cq_overflow{0};
};

/// Distributions of one device at one worker, which adds to them. The control thread reads them.
struct DeviceHistograms {
  /// From the turn that takes a work from its queue to the turn that completes it; of works that
  /// succeed and are signaled.
  LatencyHistogram completion_ns;
  LatencyHistogram round_trip_ns;  ///< Of connections with selective repeat, one at a time.
  SizeHistogram sent_bytes;        ///< Messages: works taken from send queues.
  SizeHistogram received_bytes;    ///< Messages that a receive work has taken.
};

/// Owned by nic; outlives the workers' use of it.
class Device {
 public:
  /// `workers` >= port->queues().
  Device(std::string name, uint32_t index, drivers::Port* port, uint32_t workers = 1);
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const std::string& name() const { return name_; }
  /// No two devices that exist have the same, modulo UROCE_MAX_DEVICES either. Below 2^16.
  uint32_t index() const { return index_; }
  drivers::Port* port() const { return port_; }
  /// The port was removed, and `absent` stands for it. While all workers stand still.
  void ReplacePort(drivers::Port* absent) { port_ = absent; }

  /// The port's queue that `worker` drives, if it drives one.
  std::optional<uint16_t> QueueOf(uint32_t worker) const;
  /// The worker that drives the queue by which `worker` sends: itself, or one that sends for it.
  uint32_t DriverOf(uint32_t worker) const;
  /// The workers that drive queues of the port.
  WorkerSet drivers() const;
  /// The worker that takes and sends the frames which are not RoCE.
  uint32_t host_worker() const { return DriverOfQueue(0); }
  /// Frames of a worker without a queue, on their way to its driver; null for the others.
  drivers::FrameQueue* relay(uint32_t worker) const { return relays_[worker].get(); }

  DeviceCounters& counters(uint32_t worker) { return counters_[worker].its; }
  DeviceHistograms& histograms(uint32_t worker) { return counters_[worker].histograms; }
  /// Limits what the device sends to `bps`, all workers together; 0: no limit. Called before a
  /// worker has the device, or while all workers stand still.
  void SetRate(uint64_t bps) { rate_->Set(bps); }
  SharedRate* rate() const { return rate_.get(); }
  /// Settings of each priority. Called before a worker has the device, or while all workers stand
  /// still. `line_bps` > 0: what the port sends at most.
  using SettingsOfPriorities = std::array<congestion::Settings, congestion::kPriorities>;
  void SetCongestionOfPriorities(const SettingsOfPriorities& settings, uint64_t line_bps);
  /// The same settings for all priorities.
  void SetCongestion(const congestion::Settings& settings, uint64_t line_bps);
  /// The environment of each priority at a worker.
  std::span<congestion::Environment, congestion::kPriorities> congestion(uint32_t worker) {
    return counters_[worker].congestion;
  }
  /// The environment at a worker, for packets of `traffic_class`.
  congestion::Environment& CongestionOf(uint32_t worker, uint8_t traffic_class);
  /// The sum of one counter over all workers.
  uint64_t Sum(std::atomic<uint64_t> DeviceCounters::*counter) const;
  uint64_t Of(uint32_t worker, std::atomic<uint64_t> DeviceCounters::*counter) const {
    return (counters_[worker].its.*counter).load(std::memory_order_relaxed);
  }
  /// The sums of one histogram over all workers.
  template <typename Kind>
  HistogramSums Sum(Kind DeviceHistograms::*histogram) const {
    HistogramSums sums;
    for (const CounterBlock& block : counters_) (block.histograms.*histogram).AddTo(sums);
    return sums;
  }

  /// Frames for other unicast MACs are not for the device. Changed while all workers stand still.
  Mac mac{};
  /// Frames do not leave the daemon, so that their ICRC need not be computed
  /// (pipeline/port/frames.h). Changed like `mac`.
  bool leaves_icrc_out = false;
  /// An address of the device, in one VLAN; 0: untagged.
  struct Address {
    Gid gid;
    uint16_t vlan_id = 0;
  };
  /// Packets to other IP addresses are not for the device. Changed like `mac`.
  std::vector<Address> addresses;
  /// A queue pair in a multicast group, and the worker that owns it.
  struct Member {
    QueuePair* queue_pair = nullptr;
    uint32_t worker = 0;
  };
  /// The members of each group. Changed like `mac`.
  std::map<Gid, std::vector<Member>> groups;
  /// Whether `gid` is an address of the device.
  bool HasAddress(const Gid& gid) const;
  /// Takes the frames that are not RoCE; or null. Set before a worker has the device.
  HostLink* host_link = nullptr;
  /// Takes the datagrams for queue pair 1. Null: they are dropped, like those for any unknown queue
  /// pair. Set before a worker has the device.
  GsiLink* gsi_link = nullptr;

 private:
  struct alignas(64) CounterBlock {
    DeviceCounters its;
    std::array<congestion::Environment, congestion::kPriorities> congestion;
    DeviceHistograms histograms;
  };
  uint32_t DriverOfQueue(uint32_t queue) const;

  std::string name_;
  uint32_t index_;
  drivers::Port* port_;
  uint32_t workers_;
  uint32_t queues_;
  std::vector<std::unique_ptr<drivers::FrameQueue>> relays_;
  std::vector<CounterBlock> counters_;
  std::unique_ptr<SharedRate> rate_ = std::make_unique<SharedRate>(0);
};

// What one worker has of each device: its queue of the port, its send schedule and its counters.

class Session;

/// Packets of one turn and port, in either direction. A port may ask for more of them
/// (drivers::TurnLimit).
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

  /// Each frame has its own time, so that those of a burst can be told apart.
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

  static constexpr uint32_t kMostReceived = drivers::Port::kMostTurnFrames + kBurst;
  /// Receives up to kMostReceived frames: those from the port, and those that the device sent to
  /// itself for this worker. Frames to itself for other workers go to their owner; an owner that is
  /// behind holds them back. Captures see frames once their fate is known: see FrameRecorder.
  uint16_t Receive(rte_mbuf** frames, Nanos now);
  /// Whether a frame that the port takes in this turn, to a queue pair of this worker, can be
  /// received from `other` in the same turn.
  bool IsJoinedTo(const DevicePort& other) const {
    if (!queue_ || !other.queue_) return false;
    const void* const outlet = port_->outlet(*queue_);
    // IsWayEmpty looks at frames between queues of one number, which such ports have.
    return *queue_ == *other.queue_ && outlet != nullptr &&
           outlet == other.port_->inlet(*other.queue_);
  }
  /// Whether frames may wait that the last Receive had no room for.
  bool has_more() const { return has_more_; }

  /// How many frames may be queued in this turn.
  uint32_t LookForRoom() const;
  /// Whether as many bytes are queued as one turn may queue.
  bool HasFullTurn() const { return pending_bytes_ >= turn_limit_.bytes; }
  /// Whether a burst fits beyond what LookForRoom counts: for packets whose turn has passed while
  /// their payload was being copied.
  bool HasReserve() const {
    return pending_count_ <= kPending - kBurst && own_count_ <= kOwnRing - 2 * kBurst;
  }
  /// Looks whether superframes can go out in this turn.
  void LookForSuperframes() { takes_superframes_ = queue_ && port_->takes_superframes(*queue_); }
  /// Whether superframes could go out when LookForSuperframes was called last.
  bool TakesSuperframes() const { return takes_superframes_; }
  OpenSuperframes& superframes() { return superframes_; }
  /// How many packets with `bytes` in a queued superframe this turn may queue until HasFullTurn.
  uint32_t RoomInTurn(uint32_t bytes) const {
    if (HasFullTurn()) return 0;
    const uint64_t packets = (turn_limit_.bytes - pending_bytes_ + bytes - 1) / bytes;
    return static_cast<uint32_t>(std::min<uint64_t>(packets, UINT32_MAX));
  }
  /// Counts packets, of equal size, that have been added to a queued superframe.
  void CountAdded(uint32_t frame_bytes, uint32_t added_bytes, uint32_t packets = 1) {
    Count(counters_.port_xmit_packets, packets);
    Count(counters_.port_xmit_bytes, uint64_t{packets} * frame_bytes);
    for (uint32_t i = 0; i < packets && share_.is_limited(); ++i) {
      share_.OnSent(frame_bytes + congestion::kFrameOverheadBytes);
    }
    pending_bytes_ += uint64_t{packets} * added_bytes;
  }
  /// Whether the device has a limit: each packet asks whether it may leave.
  bool is_limited() const { return share_.is_limited(); }
  /// Takes `frame`, which goes out by the next Flush. `to_self`: to this device's own address.
  /// `note` is what captures say of it. The frame says whom it is for (pipeline/port/frames.h).
  void Queue(rte_mbuf* frame, bool to_self, const uroce_capture_note& note = {});
  /// Counts a frame of `bytes` that is sent, or a packet that goes to a queue pair of this worker
  /// without one.
  void CountSent(uint32_t bytes, bool to_self) {
    Count(counters_.port_xmit_packets);
    Count(counters_.port_xmit_bytes, bytes);
    if (!to_self) share_.OnSent(bytes + congestion::kFrameOverheadBytes);
  }
  /// Counts the arrival of `packets` with as many bytes in all.
  void CountReceived(uint32_t bytes, uint32_t packets = 1) {
    Count(counters_.port_rcv_packets, packets);
    Count(counters_.port_rcv_bytes, bytes);
  }
  /// Whether this worker has taken all frames that it has sent from here to its own queue pairs: to
  /// the device itself, or through the port.
  bool IsWayEmpty(bool to_self) const {
    if (to_self) return own_count_ == 0;
    return pending_count_ == 0 && queue_ && port_->IsOutletEmpty(*queue_);
  }
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
  /// Called at the end of a burst: wakes the device's own stack, where it has one and this worker
  /// serves it, if it sleeps and the burst had a frame for it.
  void WakeHost() {
    if (serves_host_ && device_.host_link != nullptr) device_.host_link->Flush();
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
  static constexpr uint32_t kPending = drivers::Port::kMostTurnFrames + kBurst;
  static constexpr uint32_t kOwnRing = 8 * kBurst;

  void DropFrames();
  /// Tells congestion control how far the port's network is behind `now`.
  void NoteLag(Nanos now);
  void CountArrived(std::span<rte_mbuf* const> frames);
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
  const drivers::TurnLimit turn_limit_;
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
  uint64_t pending_bytes_ = 0;
  bool takes_superframes_ = false;
  OpenSuperframes superframes_;
  const drivers::SuperframeMark mark_;
  bool has_more_ = false;  ///< The last burst of the port was full, or own frames were left.
  uint32_t own_head_ = 0;
  uint32_t own_count_ = 0;
  std::array<rte_mbuf*, kOwnRing> own_{};  // Frames to the device's own address.
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
