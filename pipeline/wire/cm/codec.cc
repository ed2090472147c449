// SPDX-License-Identifier: Apache-2.0
// The codec between messages of the connection manager and the 256 bytes of a MAD
// (docs/protocol/cm.md, sections 1 and 2).
#include "pipeline/wire/cm/codec.h"

#include <bit>
#include <cstring>

#include "pipeline/wire/cm/layout.h"

namespace uroce::wire {

// Decodes messages of the connection manager: one function per message lists where each value is.

namespace {

using MadData = std::array<uint8_t, kMadDataBytes>;

CommId Id(Be<4> value) { return CommId(value.value()); }

CmPath FromLayout(const CmPathLayout& layout) {
  const uint32_t flow_rate = layout.flow_rate.value();
  return {.local_lid = layout.local_lid.value(),
          .remote_lid = layout.remote_lid.value(),
          .local = layout.local,
          .remote = layout.remote,
          .flow_label = flow_rate >> 12,
          .packet_rate = static_cast<uint8_t>(flow_rate & 0x3f),
          .traffic_class = layout.traffic_class,
          .hop_limit = layout.hop_limit,
          .sl = static_cast<uint8_t>(layout.sl >> 4),
          .subnet_local = (layout.sl & 8) != 0,
          .local_ack_timeout = static_cast<uint8_t>(layout.timeout >> 3)};
}

CmReq FromLayout(const CmReqLayout& layout) {
  return {.local_comm_id = Id(layout.local_comm_id),
          .vendor_id = layout.vendor_id.value(),
          .service_id = layout.service_id.value(),
          .local_ca_guid = layout.local_ca_guid.value(),
          .local_qkey = layout.local_qkey.value(),
          .local_qpn = Qpn(layout.local_qpn.value()),
          .responder_resources = layout.responder_resources,
          .local_eecn = layout.local_eecn.value(),
          .initiator_depth = layout.initiator_depth,
          .remote_eecn = layout.remote_eecn.value(),
          .remote_cm_response_timeout = static_cast<uint8_t>(layout.service >> 3),
          .transport = static_cast<CmTransport>(layout.service >> 1 & 3),
          .end_to_end_flow_control = (layout.service & 1) != 0,
          .starting_psn = Psn(layout.starting_psn.value()),
          .local_cm_response_timeout = static_cast<uint8_t>(layout.retry >> 3),
          .retry_count = static_cast<uint8_t>(layout.retry & 7),
          .pkey = layout.pkey.value(),
          .path_mtu = static_cast<uint8_t>(layout.mtu >> 4),
          .rdc_exists = (layout.mtu & 8) != 0,
          .rnr_retry_count = static_cast<uint8_t>(layout.mtu & 7),
          .max_cm_retries = static_cast<uint8_t>(layout.shared >> 4),
          .srq = (layout.shared & 8) != 0,
          .extended_transport = static_cast<uint8_t>(layout.shared & 7),
          .primary = FromLayout(layout.primary),
          .alternate = FromLayout(layout.alternate),
          .private_data = layout.private_data};
}

CmMra FromLayout(const CmMraLayout& layout) {
  return {.local_comm_id = Id(layout.local_comm_id),
          .remote_comm_id = Id(layout.remote_comm_id),
          .about = static_cast<CmAbout>(layout.about >> 6),
          .service_timeout = static_cast<uint8_t>(layout.service_timeout >> 3),
          .private_data = layout.private_data};
}

CmRej FromLayout(const CmRejLayout& layout) {
  return {.local_comm_id = Id(layout.local_comm_id),
          .remote_comm_id = Id(layout.remote_comm_id),
          .about = static_cast<CmAbout>(layout.about >> 6),
          .info_bytes = static_cast<uint8_t>(layout.info_bytes >> 1),
          .reason = static_cast<RejReason>(layout.reason.value()),
          .info = layout.info,
          .private_data = layout.private_data};
}

CmRep FromLayout(const CmRepLayout& layout) {
  return {.local_comm_id = Id(layout.local_comm_id),
          .remote_comm_id = Id(layout.remote_comm_id),
          .local_qkey = layout.local_qkey.value(),
          .local_qpn = Qpn(layout.local_qpn.value()),
          .vendor_id = uint32_t{layout.vendor_id_high} << 16 |
                       uint32_t{layout.vendor_id_middle} << 8 | layout.vendor_id_low,
          .local_eecn = layout.local_eecn.value(),
          .starting_psn = Psn(layout.starting_psn.value()),
          .responder_resources = layout.responder_resources,
          .initiator_depth = layout.initiator_depth,
          .target_ack_delay = static_cast<uint8_t>(layout.delay >> 3),
          .failover_accepted = static_cast<uint8_t>(layout.delay >> 1 & 3),
          .end_to_end_flow_control = (layout.delay & 1) != 0,
          .rnr_retry_count = static_cast<uint8_t>(layout.rnr >> 5),
          .srq = (layout.rnr & 0x10) != 0,
          .local_ca_guid = layout.local_ca_guid.value(),
          .private_data = layout.private_data};
}

template <typename Pair>
Pair PairFromLayout(const CmPairLayout& layout) {
  return {.local_comm_id = Id(layout.local_comm_id),
          .remote_comm_id = Id(layout.remote_comm_id),
          .private_data = layout.private_data};
}

CmDreq FromLayout(const CmDreqLayout& layout) {
  return {.local_comm_id = Id(layout.local_comm_id),
          .remote_comm_id = Id(layout.remote_comm_id),
          .remote_qpn = Qpn(layout.remote_qpn.value()),
          .private_data = layout.private_data};
}

CmSidrReq FromLayout(const CmSidrReqLayout& layout) {
  return {.request_id = Id(layout.request_id),
          .pkey = layout.pkey.value(),
          .service_id = layout.service_id.value(),
          .private_data = layout.private_data};
}

CmSidrRep FromLayout(const CmSidrRepLayout& layout) {
  return {.request_id = Id(layout.request_id),
          .status = static_cast<SidrStatus>(layout.status),
          .info_bytes = layout.info_bytes,
          .vendor_id = uint32_t{layout.vendor_id_high.value()} << 8 | layout.vendor_id_low,
          .qpn = Qpn(layout.qpn.value()),
          .service_id = layout.service_id.value(),
          .qkey = layout.qkey.value(),
          .info = layout.info,
          .private_data = layout.private_data};
}

CmLap FromLayout(const CmLapLayout& layout) {
  return {.local_comm_id = Id(layout.local_comm_id),
          .remote_comm_id = Id(layout.remote_comm_id),
          .remote_qpn = Qpn(layout.remote_qpn.value()),
          .remote_cm_response_timeout = static_cast<uint8_t>(layout.timeout >> 3),
          .alternate_path = layout.alternate_path,
          .private_data = layout.private_data};
}

CmApr FromLayout(const CmAprLayout& layout) {
  return {.local_comm_id = Id(layout.local_comm_id),
          .remote_comm_id = Id(layout.remote_comm_id),
          .info_bytes = layout.info_bytes,
          .status = static_cast<AprStatus>(layout.status),
          .info = layout.info,
          .private_data = layout.private_data};
}

/// Returns false when `attribute` is unknown.
bool DecodeBody(CmAttribute attribute, const MadData& data, CmBody& body) {
  switch (attribute) {
    case CmAttribute::kReq:
      body = FromLayout(std::bit_cast<CmReqLayout>(data));
      return true;
    case CmAttribute::kMra:
      body = FromLayout(std::bit_cast<CmMraLayout>(data));
      return true;
    case CmAttribute::kRej:
      body = FromLayout(std::bit_cast<CmRejLayout>(data));
      return true;
    case CmAttribute::kRep:
      body = FromLayout(std::bit_cast<CmRepLayout>(data));
      return true;
    case CmAttribute::kRtu:
      body = PairFromLayout<CmRtu>(std::bit_cast<CmPairLayout>(data));
      return true;
    case CmAttribute::kDreq:
      body = FromLayout(std::bit_cast<CmDreqLayout>(data));
      return true;
    case CmAttribute::kDrep:
      body = PairFromLayout<CmDrep>(std::bit_cast<CmPairLayout>(data));
      return true;
    case CmAttribute::kSidrReq:
      body = FromLayout(std::bit_cast<CmSidrReqLayout>(data));
      return true;
    case CmAttribute::kSidrRep:
      body = FromLayout(std::bit_cast<CmSidrRepLayout>(data));
      return true;
    case CmAttribute::kLap:
      body = FromLayout(std::bit_cast<CmLapLayout>(data));
      return true;
    case CmAttribute::kApr:
      body = FromLayout(std::bit_cast<CmAprLayout>(data));
      return true;
  }
  return false;
}

CmDecodeResult CheckHeader(const MadHeaderLayout& header) {
  if (header.base_version != kMadBaseVersion) return CmDecodeResult::kBadBaseVersion;
  if (header.management_class != kCmClass) return CmDecodeResult::kNotCm;
  if (header.class_version != kCmClassVersion) return CmDecodeResult::kBadClassVersion;
  return header.method == kMadMethodSend ? CmDecodeResult::kOk : CmDecodeResult::kBadMethod;
}

/// Whether a message names the sender's communication ID and, except the first message, the
/// receiver's. The sender of a REJ may have none.
struct HasIds {
  bool operator()(const CmRej&) const { return true; }
  bool operator()(const CmReq& message) const { return message.local_comm_id != CommId(); }
  bool operator()(const CmSidrReq& message) const { return message.request_id != CommId(); }
  bool operator()(const CmSidrRep& message) const { return message.request_id != CommId(); }
  bool operator()(const auto& message) const {
    return message.local_comm_id != CommId() && message.remote_comm_id != CommId();
  }
};

struct InfoFits {
  template <typename Message>
  bool operator()(const Message& message) const {
    if constexpr (requires { message.info_bytes; }) return message.info_bytes <= kCmAriBytes;
    return true;
  }
};

}  // namespace

CmDecodeResult DecodeCm(std::span<const uint8_t> mad, CmMessage& message) {
  if (mad.size() != kMadBytes) return CmDecodeResult::kBadLength;
  MadHeaderLayout header;
  std::memcpy(&header, mad.data(), sizeof header);
  const CmDecodeResult checked = CheckHeader(header);
  if (checked != CmDecodeResult::kOk) return checked;
  MadData data;
  std::memcpy(data.data(), mad.data() + sizeof header, data.size());
  const auto attribute = static_cast<CmAttribute>(header.attribute_id.value());
  if (!DecodeBody(attribute, data, message.body)) return CmDecodeResult::kUnknownAttribute;
  if (!std::visit(HasIds{}, message.body)) return CmDecodeResult::kZeroCommId;
  if (!std::visit(InfoFits{}, message.body)) return CmDecodeResult::kBadInfo;
  message.transaction_id = header.transaction_id.value();
  message.attribute_modifier = header.attribute_modifier.value();
  return CmDecodeResult::kOk;
}

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
