// SPDX-License-Identifier: Apache-2.0
// What UC and UD do otherwise than reliable connections: nothing is answered, each datagram has a
// path of its own, and stands behind the header that brought it.
#include <rte_mbuf.h>

#include <cassert>
#include <cstring>

#include "drivers/frame_destination.h"
#include "pipeline/datapath/address_table.h"
#include "pipeline/datapath/notes.h"
#include "pipeline/datapath/received_frame.h"
#include "pipeline/datapath/worker_impl.h"
#include "pipeline/wire/grh_area.h"

namespace uroce::datapath {
namespace {

using transport::Effect;
using transport::ReceiveResult;

static_assert(transport::kGrhAreaBytes == std::tuple_size_v<decltype(wire::GrhArea({}, {}))>);

// The transport counts per queue pair; here is what it leaves to the device.
void CountResult(DeviceCounters& counters, ReceiveResult result) {
  if (result == ReceiveResult::kBadState) Count(counters.rx_bad_state);
  if (result == ReceiveResult::kMalformed) Count(counters.rx_malformed);
}

// Ethernet to DETH are more bytes than the area: it is written over them.
void PutGrhArea(const wire::Packet& packet, const wire::FrameView& view, rte_mbuf* frame) {
  const auto area = wire::GrhArea(BytesOf(*frame), view);
  assert(packet.payload.data() >= rte_pktmbuf_mtod(frame, const uint8_t*) + area.size());
  std::memcpy(const_cast<uint8_t*>(packet.payload.data()) - area.size(), area.data(), area.size());
}

}  // namespace

bool Worker::Impl::ExecuteUnreliable(QueuePair& qp, const wire::Packet& packet,
                                     const wire::FrameView& view, rte_mbuf* frame) {
  Effect effect;
  const ReceiveResult result = qp.core().OnUnreliablePacket(packet, now, effect);
  CountResult(qp.links().port->counters(), result);
  // Before the effect: a datagram's writes over the headers.
  if (IsRecorded(qp)) RecordUnreliable(qp, result, frame);
  if (effect.kind == Effect::Kind::kNone) return false;
  if (effect.grh_area) {
    PutGrhArea(packet, view, frame);
    effect.local.offset_bytes -= transport::kGrhAreaBytes;
    effect.local.length_bytes += transport::kGrhAreaBytes;
  }
  return !StartEffect(qp, effect, packet, frame);
}

// Whoever sends: the Q_Key decides.
bool Worker::Impl::IsForDevice(const DevicePort& port, const wire::Packet& packet,
                               const wire::FrameView& view) {
  for (const Device::Address& address : port.device().addresses) {
    if (address.gid == packet.destination && address.vlan_id == (view.vlan_tci & kVlanIdMask)) {
      return true;
    }
  }
  return false;
}

const wire::HeaderTemplate* Worker::Impl::TemplateOfDatagram(const QueuePair& qp,
                                                             const transport::TxPacket& packet) {
  const AddressVector* const vector = qp.config().session->FindAddress(packet.path);
  // Its protection domain is of one program and one device.
  if (vector == nullptr || vector->pd() != qp.config().pd) return nullptr;
  return &vector->header_template();
}

bool Worker::Impl::FinishUnreliable(QueuePair& qp, const transport::TxPacket& packet,
                                    rte_mbuf* frame) {
  qp.core().OnSent(packet);
  if (!qp.core().is_datagram()) return qp.links().to_self;
  drivers::SetDestination(*frame, packet.header.dest_qpn);
  if (packet.header.dest_qpn == kMulticastQpn) LoopBack(qp, packet, *frame);
  const Mac& mac = qp.config().device->mac;
  return std::memcmp(rte_pktmbuf_mtod(frame, const uint8_t*), mac.data(), mac.size()) == 0;
}

}  // namespace uroce::datapath
