// SPDX-License-Identifier: Apache-2.0
// Datagrams to multicast groups (docs/protocol/transport.md, section 10): each member gets a copy
// of its own, since what is written in front of its payload goes over the headers.
#include <rte_debug.h>
#include <rte_mbuf.h>
#include <rte_mbuf_dyn.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "drivers/frame_destination.h"
#include "pipeline/datapath/address_table.h"
#include "pipeline/datapath/notes.h"
#include "pipeline/datapath/received_frame.h"
#include "pipeline/datapath/session.h"
#include "pipeline/datapath/worker_impl.h"
#include "pipeline/wire/icrc.h"

namespace uroce::datapath {
namespace {

// Groups are joined on all VLANs of a device.
bool IsInVlan(const Device& device, uint16_t vlan_id) {
  return std::ranges::any_of(device.addresses, [vlan_id](const Device::Address& address) {
    return address.vlan_id == vlan_id;
  });
}

// A queue pair does not hear itself.
bool IsFromMember(const Device& device, const QueuePair& member, const wire::Packet& packet) {
  return packet.header.deth.source_qpn == member.qpn() && device.HasAddress(packet.source);
}

}  // namespace

uint64_t Worker::Impl::RegisterMulticastCopy() {
  static constexpr rte_mbuf_dynflag kFlag{.name = "uroce_multicast_copy", .flags = 0};
  const int bit = rte_mbuf_dynflag_register(&kFlag);
  RTE_VERIFY(bit >= 0);
  return uint64_t{1} << static_cast<uint32_t>(bit);
}

void Worker::Impl::OnMulticast(DevicePort& port, const wire::Packet& packet,
                               const wire::FrameView& view, const rte_mbuf* frame) {
  if (IsMulticastCopy(*frame)) return DeliverToMembers(port, packet, frame);
  const bool taken = IsMulticastTaken(port, packet, view, frame);
  Record(port, frame);
  if (!taken) return;
  Count(port.counters().multicast_rcv_packets);
  WorkerSet others = 0;
  for (const Device::Member& member : port.device().groups.find(packet.destination)->second) {
    if (member.worker != config.index) others |= SetOf(member.worker);
  }
  for (; others != 0; others &= others - 1) {
    rte_mbuf* const copy = CopyFrame(port, *frame);
    if (copy == nullptr) return;
    if (!HandOver(port, copy, static_cast<uint32_t>(std::countr_zero(others)))) {
      rte_pktmbuf_free(copy);
    }
  }
  DeliverToMembers(port, packet, frame);
}

bool Worker::Impl::IsMulticastTaken(DevicePort& port, const wire::Packet& packet,
                                    const wire::FrameView& view, const rte_mbuf* frame) {
  DeviceCounters& counters = port.counters();
  const auto drop = [this](std::atomic<uint64_t>& counter, uint8_t reason) {
    Count(counter);
    note.reason = reason;
    return false;
  };
  const Device& device = port.device();
  if (!device.groups.contains(packet.destination) ||
      !IsInVlan(device, view.vlan_tci & kVlanIdMask)) {
    note = {};  // Nobody here has asked for it.
    return drop(counters.rx_not_roce, UROCE_REASON_NOT_ROCE);
  }
  if (packet.congestion_experienced) Count(counters.rx_ecn_marked);
  if (ServiceOf(packet.header.opcode) != wire::Service::kUd) {
    return drop(counters.rx_bad_opcode, UROCE_REASON_BAD_OPCODE);
  }
  if (!IsOurPkey(packet.header.pkey)) {
    return drop(counters.rx_bad_pkey, UROCE_REASON_BAD_PKEY);
  }
  if (!wire::IcrcIsRight(BytesOf(*frame), view)) {
    return drop(counters.rx_icrc_encapsulated, UROCE_REASON_BAD_ICRC);
  }
  return true;
}

void Worker::Impl::DeliverToMembers(DevicePort& port, const wire::Packet& packet,
                                    const rte_mbuf* frame) {
  // It may be gone since another worker looked.
  const auto group = port.device().groups.find(packet.destination);
  if (group == port.device().groups.end()) return;
  for (const Device::Member& member : group->second) {
    QueuePair& qp = *member.queue_pair;
    if (member.worker != config.index || IsFromMember(port.device(), qp, packet)) continue;
    if (!TakesPackets(qp.state())) {
      Count(port.counters().rx_bad_state);
      continue;
    }
    rte_mbuf* const copy = CopyFrame(port, *frame);
    if (copy == nullptr) return;
    Deliver(qp, copy);
  }
}

void Worker::Impl::Deliver(QueuePair& qp, rte_mbuf* copy) {
  wire::Packet packet;
  wire::FrameView view;
  const bool decoded = DecodeAgain(*copy, packet, view);
  note = NoteOf(packet);
  ++qp.traffic().received_packets;
  qp.traffic().received_bytes += copy->data_len;
  const bool kept = decoded && ExecuteOrKeep(qp, packet, view, copy);
  if (!kept) rte_pktmbuf_free(copy);
}

rte_mbuf* Worker::Impl::CopyFrame(DevicePort& port, const rte_mbuf& frame) {
  rte_mbuf* const copy = TakeFrame(port);
  if (copy == nullptr) return nullptr;
  if (frame.data_len > rte_pktmbuf_tailroom(copy)) {
    stash[stash_count++] = copy;
    Count(port.counters().no_buffer);
    return nullptr;
  }
  std::memcpy(rte_pktmbuf_mtod(copy, uint8_t*), rte_pktmbuf_mtod(&frame, const uint8_t*),
              frame.data_len);
  copy->data_len = frame.data_len;
  copy->pkt_len = frame.data_len;
  copy->ol_flags |= multicast_copy;
  return copy;
}

void Worker::Impl::LoopBack(QueuePair& qp, const transport::TxPacket& packet,
                            const rte_mbuf& frame) {
  DevicePort& port = *qp.links().port;
  Count(port.counters().multicast_xmit_packets);
  const AddressVector* const vector = qp.config().session->FindAddress(packet.path);
  if (vector == nullptr || !port.device().groups.contains(vector->path().destination)) return;
  rte_mbuf* const copy = CopyFrame(port, frame);
  if (copy == nullptr) return;
  copy->ol_flags &= ~multicast_copy;  // It has yet to be given to the members.
  drivers::SetDestination(*copy, qp.qpn());
  port.QueueLoopback(copy);
}

}  // namespace uroce::datapath
