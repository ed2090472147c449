// SPDX-License-Identifier: Apache-2.0
// Queue pair 1 belongs to no program: its datagrams go to the control thread, as copies.
#include "pipeline/datapath/received_frame.h"
#include "pipeline/datapath/worker_impl.h"
#include "pipeline/wire/gsi.h"
#include "pipeline/wire/icrc.h"

namespace uroce::datapath {
namespace {

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

}  // namespace

// The checks of any datagram, in the order of Steer.
void Worker::Impl::ReceiveGsi(DevicePort& port, const wire::Packet& packet,
                              const wire::FrameView& view, const rte_mbuf* frame) {
  DeviceCounters& counters = port.counters();
  GsiLink& link = *port.device().gsi_link;
  const auto drop = [this](std::atomic<uint64_t>& counter, uint8_t reason) {
    Count(counter);
    note.reason = reason;
  };
  const wire::GsiResult result = wire::CheckGsi(packet.header, packet.payload.size());
  if (result != wire::GsiResult::kOk) return drop(link.counters().rx_refused, ReasonOf(result));
  if (!IsOurPkey(packet.header.pkey)) return drop(counters.rx_bad_pkey, UROCE_REASON_BAD_PKEY);
  if (!IsForDevice(port, packet, view)) {
    return drop(counters.rx_bad_address, UROCE_REASON_BAD_ADDRESS);
  }
  if (!wire::IcrcIsRight(BytesOf(*frame), view)) {
    return drop(counters.rx_icrc_encapsulated, UROCE_REASON_BAD_ICRC);
  }
  if (link.Hand(BytesOf(*frame))) return link.Flush();
  note.reason = UROCE_REASON_NO_RECEIVE;
}

}  // namespace uroce::datapath
