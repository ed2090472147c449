// SPDX-License-Identifier: Apache-2.0
// Layouts of the management datagrams of the connection manager on the wire (docs/protocol/cm.md,
// sections 1 and 2). Only the codec uses them.
#pragma once

#include <array>
#include <cstdint>

#include "pipeline/base/types.h"
#include "pipeline/wire/cm/message.h"
#include "pipeline/wire/gsi.h"
#include "pipeline/wire/packet.h"

namespace uroce::wire {

inline constexpr uint8_t kCmClassVersion = 2;
inline constexpr uint8_t kMadMethodSend = 0x03;

struct CmPathLayout {
  Be<2> local_lid;
  Be<2> remote_lid;
  Gid local;
  Gid remote;
  Be<4> flow_rate;  // 31:12 flow label, 5:0 packet rate
  uint8_t traffic_class;
  uint8_t hop_limit;
  uint8_t sl;       // 7:4 SL, 3 subnet local
  uint8_t timeout;  // 7:3 local ACK timeout
};

struct CmReqLayout {
  Be<4> local_comm_id;
  uint8_t reserved0;
  Be<3> vendor_id;
  Be<8> service_id;
  Be<8> local_ca_guid;
  Be<4> reserved1;
  Be<4> local_qkey;
  Be<3> local_qpn;
  uint8_t responder_resources;
  Be<3> local_eecn;
  uint8_t initiator_depth;
  Be<3> remote_eecn;
  uint8_t service;  // 7:3 remote CM response timeout, 2:1 transport, 0 end-to-end flow control
  Be<3> starting_psn;
  uint8_t retry;  // 7:3 local CM response timeout, 2:0 retry count
  Be<2> pkey;
  uint8_t mtu;     // 7:4 path MTU, 3 RDC exists, 2:0 RNR retry count
  uint8_t shared;  // 7:4 max CM retries, 3 SRQ, 2:0 extended transport
  CmPathLayout primary;
  CmPathLayout alternate;
  CmBytes<92> private_data;
};

struct CmMraLayout {
  Be<4> local_comm_id;
  Be<4> remote_comm_id;
  uint8_t about;            // 7:6
  uint8_t service_timeout;  // 7:3
  CmBytes<222> private_data;
};

struct CmRejLayout {
  Be<4> local_comm_id;
  Be<4> remote_comm_id;
  uint8_t about;       // 7:6
  uint8_t info_bytes;  // 7:1
  Be<2> reason;
  CmBytes<kCmAriBytes> info;
  CmBytes<148> private_data;
};

struct CmRepLayout {
  Be<4> local_comm_id;
  Be<4> remote_comm_id;
  Be<4> local_qkey;
  Be<3> local_qpn;
  uint8_t vendor_id_high;
  Be<3> local_eecn;
  uint8_t vendor_id_middle;
  Be<3> starting_psn;
  uint8_t vendor_id_low;
  uint8_t responder_resources;
  uint8_t initiator_depth;
  uint8_t delay;  // 7:3 target ACK delay, 2:1 failover accepted, 0 end-to-end flow control
  uint8_t rnr;    // 7:5 RNR retry count, 4 SRQ
  Be<8> local_ca_guid;
  CmBytes<196> private_data;
};

/// RTU and DREP.
struct CmPairLayout {
  Be<4> local_comm_id;
  Be<4> remote_comm_id;
  CmBytes<224> private_data;
};

struct CmDreqLayout {
  Be<4> local_comm_id;
  Be<4> remote_comm_id;
  Be<3> remote_qpn;
  uint8_t reserved;
  CmBytes<220> private_data;
};

struct CmSidrReqLayout {
  Be<4> request_id;
  Be<2> pkey;
  Be<2> reserved;
  Be<8> service_id;
  CmBytes<216> private_data;
};

struct CmSidrRepLayout {
  Be<4> request_id;
  uint8_t status;
  uint8_t info_bytes;
  Be<2> vendor_id_high;
  Be<3> qpn;
  uint8_t vendor_id_low;
  Be<8> service_id;
  Be<4> qkey;
  CmBytes<kCmAriBytes> info;
  CmBytes<136> private_data;
};

struct CmLapLayout {
  Be<4> local_comm_id;
  Be<4> remote_comm_id;
  Be<4> reserved;
  Be<3> remote_qpn;
  uint8_t timeout;  // 7:3 remote CM response timeout
  CmBytes<48> alternate_path;
  CmBytes<168> private_data;
};

struct CmAprLayout {
  Be<4> local_comm_id;
  Be<4> remote_comm_id;
  uint8_t info_bytes;
  uint8_t status;
  Be<2> reserved;
  CmBytes<kCmAriBytes> info;
  CmBytes<148> private_data;
};

/// The header of rdma_cm at the start of the private data of a REQ or SIDR_REQ
/// (docs/protocol/cm.md, section 3.1).
struct RdmaCmHeaderLayout {
  uint8_t version;     // 7:4 major, 3:0 minor
  uint8_t ip_version;  // 7:4
  Be<2> source_port;
  std::array<uint8_t, 16> source;
  std::array<uint8_t, 16> destination;
};

static_assert(kIsWireLayout<CmPathLayout, 44>);
static_assert(kIsWireLayout<CmReqLayout, kMadDataBytes>);
static_assert(kIsWireLayout<CmMraLayout, kMadDataBytes>);
static_assert(kIsWireLayout<CmRejLayout, kMadDataBytes>);
static_assert(kIsWireLayout<CmRepLayout, kMadDataBytes>);
static_assert(kIsWireLayout<CmPairLayout, kMadDataBytes>);
static_assert(kIsWireLayout<CmDreqLayout, kMadDataBytes>);
static_assert(kIsWireLayout<CmSidrReqLayout, kMadDataBytes>);
static_assert(kIsWireLayout<CmSidrRepLayout, kMadDataBytes>);
static_assert(kIsWireLayout<CmLapLayout, kMadDataBytes>);
static_assert(kIsWireLayout<CmAprLayout, kMadDataBytes>);
static_assert(kIsWireLayout<RdmaCmHeaderLayout, 36>);

}  // namespace uroce::wire
