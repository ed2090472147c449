// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/worker/congestion_control.h"

#include <array>
#include <cstring>

#include "pipeline/congestion/settings.h"
#include "pipeline/datapath/worker/frame.h"
#include "pipeline/port/frames.h"
#include "pipeline/transport/pacing.h"
#include "pipeline/wire/encode.h"
#include "pipeline/wire/icrc.h"

namespace uroce::datapath {
namespace {

constexpr std::array<uint8_t, 16> kCnpPayload{};
constexpr uint32_t kPriorityShift = 13;
/// The traffic class of a decoded frame, which the path of its sender may not share.
uint8_t TrafficClassOf(const rte_mbuf* frame, const wire::FrameView& view) {
  const uint8_t* const ip = rte_pktmbuf_mtod(frame, const uint8_t*) + view.ip_offset;
  return view.is_ipv6 ? static_cast<uint8_t>(ip[0] << 4 | ip[1] >> 4) : ip[1];
}

Mac SourceMac(const rte_mbuf* frame) {
  Mac mac;
  std::memcpy(mac.data(), rte_pktmbuf_mtod(frame, const uint8_t*) + mac.size(), mac.size());
  return mac;
}

/// Where the CNP for a marked packet goes (docs/protocol/congestion.md, section 3).
wire::HeaderTemplateConfig HeadersOf(const QueuePair& qp, const wire::Packet& packet,
                                     const wire::FrameView& view, const rte_mbuf* marked,
                                     const congestion::NotificationSettings& settings) {
  const bool is_datagram = qp.core().is_datagram();
  const uint32_t vlan = view.vlan_tci & kVlanIdMask;
  const uint32_t tag = vlan == 0 ? 0 : vlan | settings.cnp_802p_prio << kPriorityShift;
  const Qpn peer = is_datagram ? packet.header.deth.source_qpn : qp.path().remote_qpn;
  return {.source_mac = qp.port().device().mac,
          .destination_mac = is_datagram ? SourceMac(marked) : qp.path().destination_mac,
          .vlan_tci = static_cast<uint16_t>(tag),
          .source = packet.destination,
          .destination = packet.source,
          .traffic_class = wire::EcnCapable(static_cast<uint8_t>(settings.cnp_dscp << 2)),
          .hop_limit = qp.path().hop_limit,
          .udp_source_port = wire::UdpSourcePort(0, qp.qpn(), peer),
          .dest_qpn = peer,
          .is_migrated = false};
}

}  // namespace

void CongestionControl::OnMarked(QueuePair& qp, const wire::Packet& packet,
                                 const wire::FrameView& view, const rte_mbuf* frame) {
  if (!congestion::IsNotified(packet.header.opcode)) return;
  const congestion::Environment& environment = qp.port().CongestionOf(TrafficClassOf(frame, view));
  if (!IsDue(qp, packet, environment)) return;
  // A responder with a reaction point does the same with the CNP; one without it is asked for less.
  if (transport::IsReadResponse(packet.header.opcode) && EnvironmentOf(qp).reacts()) Slow(qp);
  SendCnp(qp, packet, view, frame, environment.settings.np);
}

bool CongestionControl::IsDue(QueuePair& qp, const wire::Packet& packet,
                              const congestion::Environment& environment) {
  if (!environment.notifies()) return false;
  // When the port is full, this CNP is lost, and the next mark gets one.
  if (!qp.port().HasReserve()) return false;
  const Nanos interval = congestion::Micros(environment.settings.np.min_time_between_cnps);
  const Nanos now = time_.now();
  if (!qp.core().is_datagram()) return qp.flow().answers.OnMarked(now, interval);
  return datagrams_.OnMarked(packet.source, packet.header.deth.source_qpn, now, interval);
}

void CongestionControl::SendCnp(QueuePair& qp, const wire::Packet& packet,
                                const wire::FrameView& view, const rte_mbuf* marked,
                                const congestion::NotificationSettings& settings) {
  DevicePort& port = qp.port();
  rte_mbuf* const frame = stash_.Take(port.counters());
  if (frame == nullptr) return;
  ++qp.flow().cnps_sent;
  const wire::HeaderTemplateConfig path = HeadersOf(qp, packet, view, marked, settings);
  uint8_t* const start = rte_pktmbuf_mtod(frame, uint8_t*);
  const wire::EncodedHeaders headers =
      wire::EncodeHeaders(wire::HeaderTemplate(path), {.opcode = wire::Opcode::kCnp},
                          kCnpPayload.size(), identification_++, start);
  uint8_t* const payload = start + headers.length_bytes;
  const uint32_t crc =
      wire::CopyCrc32(headers.crc_state, payload, kCnpPayload.data(), kCnpPayload.size());
  const size_t trailer = wire::WriteTrailer(payload + kCnpPayload.size(), kCnpPayload.size(), crc);
  const size_t length = headers.length_bytes + kCnpPayload.size() + trailer;
  frame->data_len = static_cast<uint16_t>(length);
  frame->pkt_len = frame->data_len;
  drivers::SetDestination(*frame, path.dest_qpn);
  Count(port.counters().np_cnp_sent);
  const bool reads = transport::IsReadResponse(packet.header.opcode);
  port.Queue(frame, path.destination_mac == port.device().mac,
             {.reason = UROCE_REASON_CNP_SENT,
              .qpn = qp.qpn().value(),
              .psn = packet.header.psn.value(),
              .rate_mbps = reads ? RateMbps(qp) : 0});
}

void CongestionControl::Charge(QueuePair& qp, const transport::TxPacket& packet, uint32_t bytes,
                               Nanos gap) {
  transport::PacedFlow{qp.flow().rate, limited_}.Charge(packet, bytes, gap, time_.now());
}

void CongestionControl::OnLosses(QueuePair& qp, transport::Losses losses) {
  switch (transport::MeaningOf(losses, EnvironmentOf(qp))) {
    case transport::LossMeaning::kNothing:
      return;
    case transport::LossMeaning::kWindowOnly:
      Count(qp.port().counters().roce_slow_restart);
      return;
    case transport::LossMeaning::kAsCnp:
      return SlowByLoss(qp);
  }
}

void CongestionControl::SlowByLoss(QueuePair& qp) {
  const bool was_limited = qp.flow().rate.point() != nullptr;
  if (!Slow(qp)) return;
  DeviceCounters& counters = qp.port().counters();
  Count(counters.roce_slow_restart);
  Count(counters.roce_slow_restart_cnps);
  if (!was_limited) Count(counters.roce_slow_restart_trans);
}

}  // namespace uroce::datapath
