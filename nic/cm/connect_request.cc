// SPDX-License-Identifier: Apache-2.0
#include "nic/cm/connect_request.h"

#include <algorithm>

namespace uroce::nic::cm {
namespace {

constexpr uint16_t kPermissiveLid = 0xffff;

/// The path says whether a router is in between: as in Linux, hop limits up to 1 mean none.
wire::CmPath MakePath(const ConnectParameters& parameters) {
  const Route& route = parameters.route;
  const bool routed = route.hop_limit > 1;
  const uint16_t lid = routed ? kPermissiveLid : 0;
  return {
      .local_lid = lid,
      .remote_lid = lid,
      .local = route.local,
      .remote = route.remote,
      .flow_label = route.flow_label,
      .traffic_class = route.traffic_class,
      .hop_limit = route.hop_limit,
      .sl = route.sl,
      .subnet_local = !routed,
      .local_ack_timeout = AckTimeout(parameters.local_ca_ack_delay, parameters.packet_life_time)};
}

/// Addresses and port, then the program's private data.
template <size_t bytes>
wire::CmBytes<bytes> MakePrivateData(const Route& route, uint16_t source_port,
                                     std::span<const uint8_t> data) {
  wire::CmBytes<bytes> field{};
  wire::EncodeRdmaCmHeader(
      {.source_port = source_port, .source = route.local, .destination = route.remote}, field);
  std::ranges::copy(data, field.begin() + wire::kRdmaCmHeaderBytes);
  return field;
}

}  // namespace

wire::CmReq MakeReq(CommId id, const ConnectParameters& parameters) {
  const QueuePairParameters& qp = parameters.qp;
  return {.local_comm_id = id,
          .service_id = wire::ServiceIdOf(parameters.service),
          .local_ca_guid = qp.local_ca_guid,
          .local_qpn = qp.qpn,
          .responder_resources = qp.responder_resources,
          .initiator_depth = qp.initiator_depth,
          .remote_cm_response_timeout = parameters.cm_response_timeout,
          .transport = parameters.xrc ? wire::CmTransport::kExtended : parameters.transport,
          .end_to_end_flow_control = qp.end_to_end_flow_control,
          .starting_psn = qp.starting_psn,
          .local_cm_response_timeout = parameters.cm_response_timeout,
          .retry_count = parameters.retry_count,
          .path_mtu = parameters.path_mtu,
          .rnr_retry_count = qp.rnr_retry_count,
          .max_cm_retries = parameters.max_cm_retries,
          .srq = qp.srq,
          .extended_transport = parameters.xrc ? wire::kCmExtendedXrc : uint8_t{0},
          .primary = MakePath(parameters),
          .private_data = MakePrivateData<92>(parameters.route, parameters.source_port,
                                              parameters.private_data)};
}

wire::CmRep MakeRep(CommId id, CommId remote_id, bool xrc, const AcceptParameters& parameters) {
  const QueuePairParameters& qp = parameters.qp;
  return {.local_comm_id = id,
          .remote_comm_id = remote_id,
          .local_qpn = xrc ? Qpn() : qp.qpn,
          .local_eecn = xrc ? qp.qpn.value() : 0,
          .starting_psn = qp.starting_psn,
          .responder_resources = qp.responder_resources,
          .initiator_depth = qp.initiator_depth,
          .target_ack_delay = parameters.target_ack_delay,
          .end_to_end_flow_control = qp.end_to_end_flow_control,
          .rnr_retry_count = qp.rnr_retry_count,
          .srq = xrc || qp.srq,
          .local_ca_guid = qp.local_ca_guid,
          .private_data = Padded<196>(parameters.private_data)};
}

wire::CmSidrReq MakeSidrReq(CommId id, const ResolveParameters& parameters) {
  return {.request_id = id,
          .service_id = wire::ServiceIdOf(parameters.service),
          .private_data = MakePrivateData<216>(parameters.route, parameters.source_port,
                                               parameters.private_data)};
}

}  // namespace uroce::nic::cm
