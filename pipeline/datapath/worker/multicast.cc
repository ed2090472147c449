// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/worker/multicast.h"

#include <bit>

#include "pipeline/datapath/frames/received_frame.h"
#include "pipeline/datapath/worker/receiving_states.h"

namespace uroce::datapath {
namespace {

// Whether the member itself sent the packet: a queue pair does not receive its own datagrams.
bool IsFromMember(const Device& device, const QueuePair& member, const wire::Packet& packet) {
  return packet.header.deth.source_qpn == member.qpn() && device.HasAddress(packet.source);
}

}  // namespace

void MulticastReceiver::Receive(DevicePort& port, const wire::Packet& packet,
                                const wire::FrameView& view, const rte_mbuf* frame) {
  if (mark_.IsSet(*frame)) return DeliverToMembers(port, packet, frame);
  const bool is_taken = context_.admission.IsForGroup(port, packet, view, frame);
  context_.recorder.Record(port, frame);
  if (!is_taken) return;
  Count(port.counters().multicast_rcv_packets);
  GiveToOthers(port, packet, frame);
  DeliverToMembers(port, packet, frame);
}

void MulticastReceiver::GiveToOthers(DevicePort& port, const wire::Packet& packet,
                                     const rte_mbuf* frame) {
  WorkerSet others = 0;
  for (const Device::Member& member : port.device().groups.find(packet.destination)->second) {
    if (member.worker != context_.worker) others |= SetOf(member.worker);
  }
  for (; others != 0; others &= others - 1) {
    rte_mbuf* const copy = Copy(port, *frame);
    if (copy == nullptr) return;
    if (!context_.hand_over.Give(port, copy, static_cast<uint32_t>(std::countr_zero(others)))) {
      rte_pktmbuf_free(copy);
    }
  }
}

void MulticastReceiver::DeliverToMembers(DevicePort& port, const wire::Packet& packet,
                                         const rte_mbuf* frame) {
  // The group may have gone since another worker looked.
  const auto group = port.device().groups.find(packet.destination);
  if (group == port.device().groups.end()) return;
  for (const Device::Member& member : group->second) {
    QueuePair& qp = *member.queue_pair;
    if (member.worker != context_.worker || IsFromMember(port.device(), qp, packet)) continue;
    if (!TakesPackets(qp.state())) {
      Count(port.counters().rx_bad_state);
      continue;
    }
    rte_mbuf* const copy = Copy(port, *frame);
    if (copy == nullptr) return;
    Deliver(qp, copy);
  }
}

void MulticastReceiver::Deliver(QueuePair& qp, rte_mbuf* copy) {
  wire::Packet packet;
  wire::FrameView view;
  const bool decoded = DecodeAgain(*copy, packet, view);
  context_.recorder.Begin(packet);
  const bool kept = decoded && context_.executor.Receive(qp, packet, view, copy);
  if (!kept) rte_pktmbuf_free(copy);
}

rte_mbuf* MulticastReceiver::Copy(DevicePort& port, const rte_mbuf& frame) {
  rte_mbuf* const copy = context_.stash.Copy(frame, port.counters());
  if (copy != nullptr) mark_.Set(*copy);
  return copy;
}

}  // namespace uroce::datapath
