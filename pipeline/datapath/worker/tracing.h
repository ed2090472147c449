// SPDX-License-Identifier: Apache-2.0
// Fires the probes of packets, for the parts of a worker that handle them.
#pragma once

#include "pipeline/base/probes.h"
#include "pipeline/datapath/queue/queue_pair.h"
#include "pipeline/datapath/worker/annotations.h"
#include "pipeline/wire/aeth_syndrome.h"
#include "pipeline/wire/packet.h"

namespace uroce::datapath {

/// For an acknowledgement or NAK that `qp` sends or has received.
inline void TraceAcknowledgement(const QueuePair& qp, const wire::TransportHeader& header,
                                 bool is_sent) {
  const uint8_t syndrome = header.aeth.syndrome;
  if ((syndrome & wire::kSyndromeKindMask) == wire::kSyndromeAck) {
    probes::Ack(qp.qpn().value(), header.psn.value(), header.aeth.msn, is_sent);
  } else {
    probes::Nak(qp.qpn().value(), header.psn.value(), syndrome, is_sent);
  }
}

inline void TraceSent(const QueuePair& qp, const transport::TxPacket& packet,
                      uint32_t frame_bytes) {
  const wire::TransportHeader& header = packet.header;
  probes::Send(qp.qpn().value(), header.psn.value(), static_cast<uint32_t>(header.opcode),
               frame_bytes);
  if (packet.retransmission) [[unlikely]] {
    probes::Retransmit(qp.qpn().value(), header.psn.value(),
                       static_cast<uint32_t>(packet.resend.cause), packet.resend.number);
  }
  if (header.opcode == wire::Opcode::kAcknowledge) TraceAcknowledgement(qp, header, true);
}

inline void TraceReceived(const QueuePair& qp, const wire::Packet& packet) {
  probes::Receive(qp.qpn().value(), packet.header.psn.value(),
                  static_cast<uint32_t>(packet.header.opcode),
                  static_cast<uint32_t>(packet.payload.size()));
}

/// For what the transport of `qp` says of a packet. A packet that is kept is not dropped.
void TraceResult(const QueuePair& qp, const wire::Packet& packet, transport::PacketResult result);
void TraceResult(const QueuePair& qp, const wire::Packet& packet, transport::ReceiveResult result);

}  // namespace uroce::datapath
