// SPDX-License-Identifier: Apache-2.0
// What captures are told of frames, once it is known what became of them.
#include <rte_mbuf.h>

#include <algorithm>

#include "pipeline/datapath/notes.h"
#include "pipeline/datapath/received_frame.h"
#include "pipeline/datapath/worker_impl.h"
#include "pipeline/transport/request_shape.h"

namespace uroce::datapath {

using transport::QpState;

void Worker::Impl::Record(DevicePort& port, const rte_mbuf* frame) {
  if (taps.list.empty() || IsMulticastCopy(*frame)) return;
  taps.Add(port.device().index(), UROCE_CAPTURE_INBOUND, frame, note);
}

void Worker::Impl::RecordResult(QueuePair& qp, const wire::Packet& packet,
                                transport::PacketResult result, bool had_failed,
                                const rte_mbuf* frame, Showing showing) {
  const bool fails = !had_failed && qp.core().state() == QpState::kErr;
  if (showing == Showing::kAgain && !fails) return;
  if (result != transport::PacketResult::kAccepted) {
    AddResult(qp.core().reliable(), transport::IsResponse(packet.header.opcode), result, note);
  }
  if (fails) AddFailure(qp.core().reliable(), note);
  RecordWithFlight(qp, frame);
}

void Worker::Impl::RecordUnreliable(QueuePair& qp, transport::ReceiveResult result,
                                    const rte_mbuf* frame) {
  if (result != transport::ReceiveResult::kAccepted) AddResult(qp.core(), result, note);
  RecordWithFlight(qp, frame);
}

void Worker::Impl::RecordBadState(QueuePair& qp, const rte_mbuf* frame) {
  note.reason = UROCE_REASON_BAD_STATE;
  note.detail = static_cast<uint8_t>(qp.core().state());
  RecordWithFlight(qp, frame);
}

void Worker::Impl::RecordWithFlight(QueuePair& qp, const rte_mbuf* frame) {
  if (qp.flight() != nullptr) AddToFlight(qp, UROCE_CAPTURE_INBOUND, frame, note);
  Record(*qp.links().port, frame);
}

void Worker::Impl::RecordAbandoned(QueuePair& qp, uint8_t reason, const rte_mbuf* frame) {
  if (taps.list.empty()) return;
  note = {};
  note.reason = reason;
  note.qpn = qp.qpn().value();
  Record(*qp.links().port, frame);
}

void Worker::Impl::AddToFlight(QueuePair& qp, uint16_t direction, const rte_mbuf* frame,
                               const uroce_capture_note& its_note) {
  qp.flight()->Add(direction, BytesOf(*frame), clock.Wall(now), its_note);
}

void Worker::Impl::EndFlight(QueuePair& qp) {
  if (qp.flight() == nullptr || config.flights == nullptr) return;
  if (std::ranges::find(ended_flights, &qp) == ended_flights.end()) ended_flights.push_back(&qp);
}

void Worker::Impl::HandOverFlights() {
  std::erase_if(ended_flights, [this](QueuePair* qp) {
    // The NAK that tells the peer belongs to the flight.
    if (qp->core().state() == QpState::kErr && qp->core().HasPacket(now)) return false;
    HandOver(*qp);
    return true;
  });
}

void Worker::Impl::HandOver(QueuePair& qp) {
  config.flights->Take({.qpn = qp.qpn(),
                        .remote_qpn = qp.path().remote_qpn,
                        .device_index = qp.config().device->index(),
                        .time = clock.Wall(now),
                        .end = qp.links().flight_end,
                        .failure = qp.core().failure(),
                        .ring = qp.TakeFlight()});
}

}  // namespace uroce::datapath
