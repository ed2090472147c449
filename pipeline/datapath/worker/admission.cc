// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/worker/admission.h"

#include <algorithm>

#include "pipeline/datapath/queue/address_table.h"
#include "pipeline/datapath/queue/session.h"
#include "pipeline/wire/gsi.h"

namespace uroce::datapath {
namespace {

// A group is joined on all VLANs of a device.
bool IsInVlan(const Device& device, uint16_t vlan_id) {
  return std::ranges::any_of(device.addresses, [vlan_id](const Device::Address& address) {
    return address.vlan_id == vlan_id;
  });
}

uint8_t ReasonOf(wire::GsiResult result) {
  switch (result) {
    case wire::GsiResult::kOk:
    case wire::GsiResult::kNotGsi:
      return UROCE_REASON_NONE;
    case wire::GsiResult::kBadOpcode:
      return UROCE_REASON_BAD_OPCODE;
    case wire::GsiResult::kBadQkey:
      return UROCE_REASON_BAD_QKEY;
    case wire::GsiResult::kBadLength:
      return UROCE_REASON_MESSAGE_REFUSED;
  }
  return UROCE_REASON_NONE;
}

/// Whether `qp` has sent to where the packet comes from.
bool IsFromAPeer(const QueuePair& qp, const wire::Packet& packet, const wire::FrameView& view) {
  if (!qp.core().is_datagram()) return IsFromPeer(qp.path(), packet, view);
  return std::ranges::any_of(qp.flow().paths, [&](uint32_t handle) {
    const AddressVector* const vector = qp.config().session->FindAddress(handle);
    return vector != nullptr && vector->pd() == qp.config().pd &&
           IsFromPeer(vector->path(), packet, view);
  });
}

}  // namespace

bool Admission::IsCnpFor(const QueuePair* qp, DevicePort& port, const wire::Packet& packet,
                         const wire::FrameView& view, const rte_mbuf* frame) {
  const bool reacts =
      qp != nullptr && TakesPackets(qp->state()) && port.CongestionOf(qp->traffic_class()).reacts();
  if (!reacts || !IsFromAPeer(*qp, packet, view)) {
    return recorder_.Drop(port.counters().rp_cnp_ignored, UROCE_REASON_CNP_IGNORED);
  }
  return Admit(port, packet, view, frame, true);
}

bool Admission::IsForGsi(GsiLink& link, DevicePort& port, const wire::Packet& packet,
                         const wire::FrameView& view, const rte_mbuf* frame) {
  const wire::GsiResult result = wire::CheckGsi(packet.header, packet.payload.size());
  if (result != wire::GsiResult::kOk) {
    return recorder_.Drop(link.counters().rx_refused, ReasonOf(result));
  }
  return Admit(port, packet, view, frame, IsForDevice(port.device(), packet, view));
}

bool Admission::IsForGroup(DevicePort& port, const wire::Packet& packet,
                           const wire::FrameView& view, const rte_mbuf* frame) {
  DeviceCounters& counters = port.counters();
  const Device& device = port.device();
  if (!device.groups.contains(packet.destination) ||
      !IsInVlan(device, view.vlan_tci & kVlanIdMask)) {
    recorder_.Begin();  // No queue pair here is in the group.
    return recorder_.Drop(counters.rx_not_roce, UROCE_REASON_NOT_ROCE);
  }
  if (packet.congestion_experienced) Count(counters.np_ecn_marked_roce_packets);
  if (ServiceOf(packet.header.opcode) != wire::Service::kUd) {
    return recorder_.Drop(counters.rx_bad_opcode, UROCE_REASON_BAD_OPCODE);
  }
  // A mark on a multicast packet gets no CNP: that would report one path among many to the sender.
  return Admit(port, packet, view, frame, true);
}

}  // namespace uroce::datapath
