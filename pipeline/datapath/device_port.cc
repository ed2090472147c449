// SPDX-License-Identifier: Apache-2.0
// Bursts between a worker and a port.
#include "pipeline/datapath/device_port.h"

#include <algorithm>

#include "drivers/port.h"
#include "pipeline/datapath/clock.h"

namespace uroce::datapath {

void Taps::BeginTurn(Clock& clock, Nanos now) {
  if (list.empty()) return;
  time = clock.Wall(now);
  for (CaptureTap* tap : list) tap->Publish();
}

DevicePort::DevicePort(Device* device, Taps* taps)
    : device_(*device), port_(*device->port()), taps_(*taps) {}

DevicePort::~DevicePort() {
  rte_pktmbuf_free_bulk(pending_.data(), pending_count_);
  for (; own_count_ != 0; --own_count_, ++own_head_) rte_pktmbuf_free(own_[own_head_ % kOwnRing]);
}

SessionFlow* DevicePort::FlowOf(const Session* session) {
  for (const auto& flow : flows_) {
    if (flow->session == session) return flow.get();
  }
  flows_.push_back(std::make_unique<SessionFlow>());
  flows_.back()->session = session;
  return flows_.back().get();
}

void DevicePort::ForgetSession(const Session* session) {
  std::erase_if(flows_, [&](const auto& flow) {
    if (flow->session != session) return false;
    sessions_.Remove(*flow);
    return true;
  });
}

uint16_t DevicePort::Receive(rte_mbuf** frames, Nanos now) {
  uint16_t count = port_.ReceiveBurst(frames, kBurst, now);
  for (uint32_t i = std::min(own_count_, kBurst); i != 0; --i, --own_count_) {
    frames[count++] = own_[own_head_++ % kOwnRing];
  }
  if (count == 0) return 0;
  uint64_t bytes = 0;
  for (uint16_t i = 0; i < count; ++i) bytes += frames[i]->data_len;
  Count(counters().port_rcv_packets, count);
  Count(counters().port_rcv_bytes, bytes);
  return count;
}

uint32_t DevicePort::LookForRoom() const {
  if (own_count_ > kOwnRing - 3 * kBurst) return 0;
  const uint32_t room = std::min<uint32_t>(port_.TransmitRoom(), kBurst);
  return room > pending_count_ ? room - pending_count_ : 0;
}

void DevicePort::Queue(rte_mbuf* frame, bool to_self, const uroce_capture_note& note) {
  Count(counters().port_xmit_packets);
  Count(counters().port_xmit_bytes, frame->data_len);
  if (!taps_.list.empty()) {
    taps_.Add(device_.index(), UROCE_CAPTURE_OUTBOUND, frame, note);
  }
  if (to_self) {
    own_[(own_head_ + own_count_++) % kOwnRing] = frame;
  } else {
    pending_[pending_count_++] = frame;
  }
}

void DevicePort::Flush(Nanos now) {
  if (pending_count_ == 0) return;
  const uint16_t taken =
      port_.TransmitBurst(pending_.data(), static_cast<uint16_t>(pending_count_), now);
  std::copy(pending_.begin() + taken, pending_.begin() + pending_count_, pending_.begin());
  pending_count_ -= taken;
}

}  // namespace uroce::datapath
