// SPDX-License-Identifier: Apache-2.0
// Encodes messages of the connection manager: one function per message, as in decode.cc.
#include <cstring>

#include "pipeline/wire/cm/codec.h"
#include "pipeline/wire/cm/layout.h"

namespace uroce::wire {
namespace {

Be<4> Id(CommId id) { return Be<4>(id.value()); }
uint8_t Bits(uint32_t value, uint32_t mask, uint32_t shift) {
  return static_cast<uint8_t>((value & mask) << shift);
}
uint8_t Flag(bool value, uint32_t shift) { return Bits(value ? 1 : 0, 1, shift); }
uint8_t Join(uint8_t a, uint8_t b, uint8_t c = 0) { return static_cast<uint8_t>(a | b | c); }

CmPathLayout ToLayout(const CmPath& path) {
  return {.local_lid = Be<2>(path.local_lid),
          .remote_lid = Be<2>(path.remote_lid),
          .local = path.local,
          .remote = path.remote,
          .flow_rate = Be<4>(path.flow_label << 12 | (path.packet_rate & 0x3f)),
          .traffic_class = path.traffic_class,
          .hop_limit = path.hop_limit,
          .sl = Join(Bits(path.sl, 15, 4), Flag(path.subnet_local, 3)),
          .timeout = Bits(path.local_ack_timeout, 31, 3)};
}

CmReqLayout ToLayout(const CmReq& req) {
  return {.local_comm_id = Id(req.local_comm_id),
          .reserved0 = 0,
          .vendor_id = Be<3>(req.vendor_id),
          .service_id = Be<8>(req.service_id),
          .local_ca_guid = Be<8>(req.local_ca_guid),
          .reserved1 = Be<4>(0),
          .local_qkey = Be<4>(req.local_qkey),
          .local_qpn = Be<3>(req.local_qpn.value()),
          .responder_resources = req.responder_resources,
          .local_eecn = Be<3>(req.local_eecn),
          .initiator_depth = req.initiator_depth,
          .remote_eecn = Be<3>(req.remote_eecn),
          .service = Join(Bits(req.remote_cm_response_timeout, 31, 3),
                          Bits(static_cast<uint32_t>(req.transport), 3, 1),
                          Flag(req.end_to_end_flow_control, 0)),
          .starting_psn = Be<3>(req.starting_psn.value()),
          .retry = Join(Bits(req.local_cm_response_timeout, 31, 3), Bits(req.retry_count, 7, 0)),
          .pkey = Be<2>(req.pkey),
          .mtu = Join(Bits(req.path_mtu, 15, 4), Flag(req.rdc_exists, 3),
                      Bits(req.rnr_retry_count, 7, 0)),
          .shared = Join(Bits(req.max_cm_retries, 15, 4), Flag(req.srq, 3),
                         Bits(req.extended_transport, 7, 0)),
          .primary = ToLayout(req.primary),
          .alternate = ToLayout(req.alternate),
          .private_data = req.private_data};
}

CmMraLayout ToLayout(const CmMra& mra) {
  return {.local_comm_id = Id(mra.local_comm_id),
          .remote_comm_id = Id(mra.remote_comm_id),
          .about = Bits(static_cast<uint32_t>(mra.about), 3, 6),
          .service_timeout = Bits(mra.service_timeout, 31, 3),
          .private_data = mra.private_data};
}

CmRejLayout ToLayout(const CmRej& rej) {
  return {.local_comm_id = Id(rej.local_comm_id),
          .remote_comm_id = Id(rej.remote_comm_id),
          .about = Bits(static_cast<uint32_t>(rej.about), 3, 6),
          .info_bytes = Bits(rej.info_bytes, 0x7f, 1),
          .reason = Be<2>(static_cast<uint16_t>(rej.reason)),
          .info = rej.info,
          .private_data = rej.private_data};
}

CmRepLayout ToLayout(const CmRep& rep) {
  return {.local_comm_id = Id(rep.local_comm_id),
          .remote_comm_id = Id(rep.remote_comm_id),
          .local_qkey = Be<4>(rep.local_qkey),
          .local_qpn = Be<3>(rep.local_qpn.value()),
          .vendor_id_high = static_cast<uint8_t>(rep.vendor_id >> 16),
          .local_eecn = Be<3>(rep.local_eecn),
          .vendor_id_middle = static_cast<uint8_t>(rep.vendor_id >> 8),
          .starting_psn = Be<3>(rep.starting_psn.value()),
          .vendor_id_low = static_cast<uint8_t>(rep.vendor_id),
          .responder_resources = rep.responder_resources,
          .initiator_depth = rep.initiator_depth,
          .delay = Join(Bits(rep.target_ack_delay, 31, 3), Bits(rep.failover_accepted, 3, 1),
                        Flag(rep.end_to_end_flow_control, 0)),
          .rnr = Join(Bits(rep.rnr_retry_count, 7, 5), Flag(rep.srq, 4)),
          .local_ca_guid = Be<8>(rep.local_ca_guid),
          .private_data = rep.private_data};
}

template <typename Pair>
CmPairLayout PairToLayout(const Pair& pair) {
  return {.local_comm_id = Id(pair.local_comm_id),
          .remote_comm_id = Id(pair.remote_comm_id),
          .private_data = pair.private_data};
}
CmPairLayout ToLayout(const CmRtu& rtu) { return PairToLayout(rtu); }
CmPairLayout ToLayout(const CmDrep& drep) { return PairToLayout(drep); }

CmDreqLayout ToLayout(const CmDreq& dreq) {
  return {.local_comm_id = Id(dreq.local_comm_id),
          .remote_comm_id = Id(dreq.remote_comm_id),
          .remote_qpn = Be<3>(dreq.remote_qpn.value()),
          .reserved = 0,
          .private_data = dreq.private_data};
}

CmSidrReqLayout ToLayout(const CmSidrReq& request) {
  return {.request_id = Id(request.request_id),
          .pkey = Be<2>(request.pkey),
          .reserved = Be<2>(0),
          .service_id = Be<8>(request.service_id),
          .private_data = request.private_data};
}

CmSidrRepLayout ToLayout(const CmSidrRep& reply) {
  return {.request_id = Id(reply.request_id),
          .status = static_cast<uint8_t>(reply.status),
          .info_bytes = reply.info_bytes,
          .vendor_id_high = Be<2>(static_cast<uint16_t>(reply.vendor_id >> 8)),
          .qpn = Be<3>(reply.qpn.value()),
          .vendor_id_low = static_cast<uint8_t>(reply.vendor_id),
          .service_id = Be<8>(reply.service_id),
          .qkey = Be<4>(reply.qkey),
          .info = reply.info,
          .private_data = reply.private_data};
}

CmLapLayout ToLayout(const CmLap& lap) {
  return {.local_comm_id = Id(lap.local_comm_id),
          .remote_comm_id = Id(lap.remote_comm_id),
          .reserved = Be<4>(0),
          .remote_qpn = Be<3>(lap.remote_qpn.value()),
          .timeout = Bits(lap.remote_cm_response_timeout, 31, 3),
          .alternate_path = lap.alternate_path,
          .private_data = lap.private_data};
}

CmAprLayout ToLayout(const CmApr& apr) {
  return {.local_comm_id = Id(apr.local_comm_id),
          .remote_comm_id = Id(apr.remote_comm_id),
          .info_bytes = apr.info_bytes,
          .status = static_cast<uint8_t>(apr.status),
          .reserved = Be<2>(0),
          .info = apr.info,
          .private_data = apr.private_data};
}

}  // namespace

std::array<uint8_t, kMadBytes> EncodeCm(const CmMessage& message) {
  std::array<uint8_t, kMadBytes> mad;
  const MadHeaderLayout header = {.base_version = kMadBaseVersion,
                                  .management_class = kCmClass,
                                  .class_version = kCmClassVersion,
                                  .method = kMadMethodSend,
                                  .status = Be<2>(0),
                                  .class_specific = Be<2>(0),
                                  .transaction_id = Be<8>(message.transaction_id),
                                  .attribute_id = Be<2>(static_cast<uint16_t>(message.attribute())),
                                  .reserved = Be<2>(0),
                                  .attribute_modifier = Be<4>(message.attribute_modifier)};
  std::memcpy(mad.data(), &header, sizeof header);
  std::visit(
      [&mad](const auto& body) {
        const auto layout = ToLayout(body);
        static_assert(sizeof layout == kMadDataBytes);
        std::memcpy(mad.data() + sizeof(MadHeaderLayout), &layout, sizeof layout);
      },
      message.body);
  return mad;
}

}  // namespace uroce::wire
