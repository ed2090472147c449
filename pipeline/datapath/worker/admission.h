// SPDX-License-Identifier: Apache-2.0
// The checks that every received packet has to pass, for whatever queue pair it is
// (docs/protocol/transport.md, section 4.1, step 1).
#pragma once

#include <rte_mbuf.h>

#include "drivers/pending_icrc.h"
#include "pipeline/datapath/frames/received_frame.h"
#include "pipeline/datapath/port/device_port.h"
#include "pipeline/datapath/queue/queue_pair.h"
#include "pipeline/datapath/worker/frame_recorder.h"
#include "pipeline/datapath/worker/packet_addresses.h"
#include "pipeline/datapath/worker/receiving_states.h"
#include "pipeline/wire/decode.h"
#include "pipeline/wire/icrc.h"
#include "pipeline/wire/packet.h"

namespace uroce::datapath {

/// A dropped packet is counted, and its annotation says why. One thread. The checks that every
/// packet passes through are inline.
class Admission {
 public:
  explicit Admission(FrameRecorder& recorder) : recorder_(recorder) {}

  /// Whether a packet is for this device. Counts congestion marks of packets that
  /// are.
  bool IsForPort(DevicePort& port, const wire::Packet& packet, const wire::FrameView& view);
  /// Whether `qp` takes the packet: checks its service and its state, and calls Admit.
  bool IsForQueuePair(const QueuePair& qp, DevicePort& port, const wire::Packet& packet,
                      const wire::FrameView& view, const rte_mbuf* frame);
  /// Whether a CNP is valid for `qp`, which may be null: `qp` has congestion control, and the CNP
  /// comes from the peer that `qp` sends to.
  bool IsCnpFor(const QueuePair* qp, DevicePort& port, const wire::Packet& packet,
                const wire::FrameView& view, const rte_mbuf* frame);
  /// Whether a packet to queue pair 1 passes the checks. `link` counts its own refusals.
  bool IsForGsi(GsiLink& link, DevicePort& port, const wire::Packet& packet,
                const wire::FrameView& view, const rte_mbuf* frame);
  /// Whether a packet to a multicast group passes the checks that are common to all members.
  bool IsForGroup(DevicePort& port, const wire::Packet& packet, const wire::FrameView& view,
                  const rte_mbuf* frame);

 private:
  /// Checks the partition, the addresses, and last the ICRC, which costs most. `is_addressed`: the
  /// packet's addresses are right.
  bool Admit(DevicePort& port, const wire::Packet& packet, const wire::FrameView& view,
             const rte_mbuf* frame, bool is_addressed);

  FrameRecorder& recorder_;
  const drivers::PendingIcrc pending_;
};

inline bool Admission::Admit(DevicePort& port, const wire::Packet& packet,
                             const wire::FrameView& view, const rte_mbuf* frame,
                             bool is_addressed) {
  DeviceCounters& counters = port.counters();
  if (!IsOurPkey(packet.header.pkey)) {
    return recorder_.Drop(counters.rx_bad_pkey, UROCE_REASON_BAD_PKEY);
  }
  if (!is_addressed) return recorder_.Drop(counters.rx_bad_address, UROCE_REASON_BAD_ADDRESS);
  if (!pending_.IsSet(*frame) && !wire::IcrcIsRight(BytesOf(*frame), view)) {
    return recorder_.Drop(counters.rx_icrc_encapsulated, UROCE_REASON_BAD_ICRC);
  }
  return true;
}

inline bool Admission::IsForPort(DevicePort& port, const wire::Packet& packet,
                                 const wire::FrameView& view) {
  DeviceCounters& counters = port.counters();
  if (view.destination != port.device().mac) {
    recorder_.Begin();  // The packet's queue pair and mark are another device's.
    return recorder_.Drop(counters.rx_not_roce, UROCE_REASON_NOT_ROCE);
  }
  if (packet.congestion_experienced) Count(counters.np_ecn_marked_roce_packets);
  return true;
}

inline bool Admission::IsForQueuePair(const QueuePair& qp, DevicePort& port,
                                      const wire::Packet& packet, const wire::FrameView& view,
                                      const rte_mbuf* frame) {
  DeviceCounters& counters = port.counters();
  if (ServiceOf(packet.header.opcode) != qp.core().service()) {
    return recorder_.Drop(counters.rx_bad_opcode, UROCE_REASON_BAD_OPCODE);
  }
  if (!TakesPackets(qp.state())) {
    return recorder_.Drop(counters.rx_bad_state, UROCE_REASON_BAD_STATE,
                          static_cast<uint8_t>(qp.state()));
  }
  const bool is_addressed = qp.core().is_datagram() ? IsForDevice(port.device(), packet, view)
                                                    : IsFromPeer(qp.path(), packet, view);
  return Admit(port, packet, view, frame, is_addressed);
}

}  // namespace uroce::datapath
