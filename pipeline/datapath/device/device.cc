// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/device/device.h"

#include <algorithm>
#include <cassert>
#include <ranges>
#include <utility>

#include "pipeline/base/types.h"
#include "pipeline/congestion/settings.h"
#include "pipeline/port/frames.h"
#include "pipeline/port/port.h"
#include "pipeline/wire/gsi.h"

namespace uroce::datapath {
namespace {

constexpr uint32_t kRelayFrames = 256;

}  // namespace

Device::Device(std::string name, uint32_t index, drivers::Port* port, uint32_t workers)
    : name_(std::move(name)),
      index_(index),
      port_(port),
      workers_(workers),
      queues_(port->queues()),
      relays_(workers),
      counters_(workers) {
  assert(queues_ <= workers_);
  for (uint32_t worker = 0; worker < workers; ++worker) {
    if (QueueOf(worker)) continue;
    relays_[worker] = std::make_unique<drivers::FrameQueue>(kRelayFrames);
  }
}

// With a queue for each worker, worker i drives queue i. Ports with fewer queues begin at different
// workers, so that the first worker does not drive all ports with one queue.
uint32_t Device::DriverOfQueue(uint32_t queue) const {
  return queues_ == workers_ ? queue : (index_ + queue) % workers_;
}

void Device::SetCongestionOfPriorities(const SettingsOfPriorities& settings, uint64_t line_bps) {
  for (CounterBlock& block : counters_) {
    for (uint32_t priority = 0; priority < congestion::kPriorities; ++priority) {
      congestion::Environment& environment = block.congestion[priority];
      environment.settings = settings[priority];
      environment.priority = priority;
      environment.line_bps = line_bps;
    }
  }
}

void Device::SetCongestion(const congestion::Settings& settings, uint64_t line_bps) {
  SettingsOfPriorities all;
  all.fill(settings);
  SetCongestionOfPriorities(all, line_bps);
}

congestion::Environment& Device::CongestionOf(uint32_t worker, uint8_t traffic_class) {
  return congestion(worker)[congestion::PriorityOf(traffic_class)];
}

bool Device::HasAddress(const Gid& gid) const {
  return std::ranges::any_of(addresses, [&](const Address& its) { return its.gid == gid; });
}

std::optional<uint16_t> Device::QueueOf(uint32_t worker) const {
  for (uint32_t queue = 0; queue < queues_; ++queue) {
    if (DriverOfQueue(queue) == worker) return static_cast<uint16_t>(queue);
  }
  return std::nullopt;
}

WorkerSet Device::drivers() const {
  WorkerSet set = 0;
  for (uint32_t queue = 0; queue < queues_; ++queue) set |= SetOf(DriverOfQueue(queue));
  return set;
}

uint32_t Device::DriverOf(uint32_t worker) const {
  return QueueOf(worker) ? worker : DriverOfQueue(worker % queues_);
}

uint64_t Device::Sum(std::atomic<uint64_t> DeviceCounters::*counter) const {
  uint64_t sum = 0;
  for (uint32_t worker = 0; worker < workers_; ++worker) sum += Of(worker, counter);
  return sum;
}

void Taps::BeginTurn() {
  const Nanos time = clock.Wall();
  for (CaptureTap* tap : list) tap->Publish(time);
}

namespace {

uint64_t TotalBytes(std::span<rte_mbuf* const> frames) {
  uint64_t bytes = 0;
  for (const rte_mbuf* frame : frames) bytes += frame->data_len;
  return bytes;
}

// The share of each worker's READs in the receive buffers of a port. Linux counts up to a quarter
// of a socket's buffer as full that is empty again (udp_rmem_release).
uint64_t RoomForReads(const drivers::Port& port, uint32_t workers) {
  return port.receive_buffer_bytes() / 4 * 3 * port.queues() / workers;
}

}  // namespace

DevicePort::DevicePort(Device* device, CrossWorkerLink* cross_worker, Taps* taps)
    : device_(*device),
      port_(device->port()),
      position_(static_cast<uint16_t>(device->index())),
      cross_worker_(*cross_worker),
      taps_(*taps),
      counters_(device->counters(cross_worker->index())),
      histograms_(device->histograms(cross_worker->index())),
      environments_(device->congestion(cross_worker->index())),
      // The worker of the first queue runs an emulated network. To the others its time stands still
      // also when nothing is under way.
      may_lag_(port_->may_lag() && device->QueueOf(cross_worker->index()) == uint16_t{0}),
      turn_limit_(port_->turn_limit()),
      queue_(device->QueueOf(cross_worker->index())),
      driver_(device->DriverOf(cross_worker->index())),
      serves_host_(device->host_worker() == cross_worker->index()),
      serves_gsi_(cross_worker->OwnerOf(wire::kGsiQpn) == cross_worker->index()),
      reads_(RoomForReads(*port_, cross_worker->workers())),
      share_(device->rate()) {
  for (uint32_t worker = 0; worker < cross_worker->workers(); ++worker) {
    if (worker == cross_worker->index() || device->DriverOf(worker) != cross_worker->index())
      continue;
    relays_.push_back(device->relay(worker));
  }
}

DevicePort::~DevicePort() { DropFrames(); }

void DevicePort::DropFrames() {
  superframes_.EndTurn(nullptr);
  rte_pktmbuf_free_bulk(pending_.data(), pending_count_);
  pending_count_ = 0;
  pending_bytes_ = 0;
  for (; own_count_ != 0; --own_count_, ++own_head_) rte_pktmbuf_free(own_[own_head_ % kOwnRing]);
}

void DevicePort::Unplug(drivers::Port* absent) {
  DropFrames();
  port_ = absent;
}

SessionFlow* DevicePort::FlowOf(const Session* session, SharedRate* rate) {
  for (const auto& flow : flows_) {
    if (flow->session == session) return flow.get();
  }
  flows_.push_back(std::make_unique<SessionFlow>(session, rate));
  return flows_.back().get();
}

void DevicePort::ForgetSession(const Session* session) {
  std::erase_if(flows_, [&](const auto& flow) {
    if (flow->session != session) return false;
    sessions_.Remove(*flow);
    if (flow->resume.filed()) --paused_count_;
    paused_.Remove(flow->resume);
    return true;
  });
}

void DevicePort::Pause(SessionFlow& flow) {
  sessions_.Remove(flow);
  if (!flow.resume.filed()) ++paused_count_;
  paused_.File(flow.resume, flow.share.next_send());
}

void DevicePort::ResumeExpired(Nanos now) {
  while (TimerEntry* const entry = paused_.PopExpired(now)) {
    --paused_count_;
    SessionFlow& flow = *static_cast<SessionFlow::Timer*>(entry)->flow;
    if (!flow.queue_pairs.empty()) sessions_.Add(flow);
  }
}

void DevicePort::NoteWait(Nanos wait, Nanos now) {
  // No packet has waited where its network waited, too.
  const Nanos more_lag = may_lag_ ? port_->Lag(now) - environments_.front().lag : Nanos(0);
  const Nanos told = std::max(wait - more_lag, Nanos(0));
  for (congestion::Environment& environment : environments_) {
    environment.host_delay = told;
    environment.stalled = environment.stalled + told;
  }
}

void DevicePort::NoteLag(Nanos now) {
  const Nanos lag = port_->Lag(now);
  if (lag == environments_.front().lag) return;
  for (congestion::Environment& environment : environments_) environment.lag = lag;
}

uint16_t DevicePort::Receive(rte_mbuf** frames, Nanos now) {
  const auto most = static_cast<uint16_t>(turn_limit_.frames);
  uint16_t count = queue_ ? port_->ReceiveWhole(*queue_, frames, most, now) : 0;
  if (may_lag_) [[unlikely]]
    NoteLag(now);
  if (count != 0) CountArrived({frames, count});
  has_more_ = count == most;
  if (own_count_ != 0) [[unlikely]] {
    count += ReceiveOwn(frames + count);
    has_more_ |= own_count_ != 0;
  }
  return count;
}

// A superframe is counted packet by packet where it is taken apart.
void DevicePort::CountArrived(std::span<rte_mbuf* const> frames) {
  uint64_t packets = 0;
  uint64_t bytes = 0;
  for (const rte_mbuf* frame : frames) {
    if (mark_.IsSet(*frame)) continue;
    ++packets;
    bytes += frame->data_len;
  }
  Count(counters_.port_rcv_packets, packets);
  Count(counters_.port_rcv_bytes, bytes);
}

uint16_t DevicePort::ReceiveOwn(rte_mbuf** frames) {
  uint16_t count = 0;
  for (uint32_t i = std::min(own_count_, kBurst); i != 0; --i) {
    rte_mbuf* const frame = own_[own_head_ % kOwnRing];
    const uint32_t bytes = frame->data_len;
    const uint32_t owner = cross_worker_.OwnerOf(drivers::DestinationOf(*frame));
    if (owner == cross_worker_.index()) {
      frames[count++] = frame;
    } else if (!cross_worker_.Give(owner, position_, frame)) {
      break;
    }
    CountReceived(bytes);
    ++own_head_;
    --own_count_;
  }
  return count;
}

uint32_t DevicePort::TransmitRoom() const {
  return queue_ ? port_->TransmitRoom(*queue_) : device_.relay(cross_worker_.index())->Room(kBurst);
}

uint32_t DevicePort::LookForRoom() const {
  if (own_count_ > kOwnRing - 3 * kBurst || HasFullTurn()) return 0;
  // A turn receives a burst of the frames that the device sends to itself: more would pile up.
  const uint32_t most = own_count_ == 0 ? turn_limit_.frames : kBurst;
  const uint32_t room = std::min<uint32_t>(TransmitRoom(), most);
  return room > pending_count_ ? room - pending_count_ : 0;
}

bool DevicePort::TakeRelayed(uint32_t most) {
  const uint32_t before = pending_count_;
  for (drivers::FrameQueue* relay : relays_) {
    const auto limit = static_cast<uint16_t>(std::min(most, LookForRoom()));
    if (limit == 0) break;
    const uint16_t taken = relay->Take(pending_.data() + pending_count_, limit);
    pending_bytes_ += TotalBytes({pending_.data() + pending_count_, taken});
    pending_count_ += taken;
  }
  return pending_count_ != before;
}

bool DevicePort::has_work() const {
  if (own_count_ != 0) return true;
  const bool has_relayed =
      std::ranges::any_of(relays_, [](const auto* relay) { return !relay->empty(); });
  const bool wants_to_send = pending_count_ != 0 || (!sessions_.empty() && !is_paced_) ||
                             host_has_frames() || gsi_has_frames() || has_relayed;
  return wants_to_send && !IsHeldBack();
}

void DevicePort::Queue(rte_mbuf* frame, bool to_self, const uroce_capture_note& note) {
  CountSent(frame->data_len, to_self);
  if (!taps_.list.empty()) {
    taps_.Add(device_.index(), UROCE_CAPTURE_OUTBOUND, frame, note);
  }
  if (to_self) {
    own_[(own_head_ + own_count_++) % kOwnRing] = frame;
  } else {
    pending_[pending_count_++] = frame;
    pending_bytes_ += frame->data_len;
  }
}

void DevicePort::Flush(Nanos now) {
  if (pending_count_ == 0) return;
  // A superframe that goes on leaves with the next turn, unless the kernel has nothing else to do.
  const bool is_one_kept =
      superframes_.EndTurn(pending_count_ > 1 ? pending_[pending_count_ - 1] : nullptr);
  const auto count = static_cast<uint16_t>(pending_count_ - (is_one_kept ? 1 : 0));
  uint16_t taken = 0;
  if (queue_) {
    taken = port_->TransmitBurst(*queue_, pending_.data(), count, now);
  } else {
    taken = device_.relay(cross_worker_.index())->Put(pending_.data(), count);
    if (taken != 0) cross_worker_.WantWake(driver_);
  }
  std::copy(pending_.begin() + taken, pending_.begin() + pending_count_, pending_.begin());
  pending_count_ -= taken;
  pending_bytes_ = TotalBytes({pending_.data(), pending_count_});
}

}  // namespace uroce::datapath
