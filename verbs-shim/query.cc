// SPDX-License-Identifier: Apache-2.0
// Attributes of a device and its port. Values: docs/protocol/verbs-semantics.md, sections
// 2 and 3.
#include <string.h>

#include "verbs-shim/objects.h"
#include "verbs-shim/real_library.h"
#include "verbs-shim/verbs_ops.h"

#undef ibv_query_port

namespace uroce::shim {
namespace {

UROCE_REAL(ibv_query_device, "IBVERBS_1.1");
UROCE_REAL(ibv_query_port, "IBVERBS_1.1");
UROCE_REAL(ibv_query_pkey, "IBVERBS_1.1");
UROCE_REAL(ibv_get_pkey_index, "IBVERBS_1.5");

// A verb of libibverbs 1.16, which older headers do not declare.
using QueryPortSpeed = int(ibv_context*, uint32_t port, uint64_t* speed);
constinit RealFunction<QueryPortSpeed> real_query_port_speed("ibv_query_port_speed",
                                                             "IBVERBS_1.16");

constexpr uint16_t kDefaultPkey = 0xffff;
/// Bytes of ibv_port_attr that the exported symbol fills: programs built with old headers have no
/// more. Programs built with newer headers call the op, which takes a length.
constexpr size_t kOldPortAttrBytes = offsetof(ibv_port_attr, flags);

void DescribeDevice(const uroce_device_info& info, ibv_device_attr& attr) {
  memset(&attr, 0, sizeof(attr));
  static_assert(sizeof(attr.fw_ver) >= sizeof(info.firmware));
  memcpy(attr.fw_ver, info.firmware, sizeof(info.firmware));
  attr.node_guid = info.node_guid;
  attr.sys_image_guid = info.node_guid;
  attr.max_mr_size = info.max_mr_size;
  attr.page_size_cap = 0xfffff000;
  attr.vendor_id = 0xffffff;  // We have no OUI.
  attr.max_qp = static_cast<int>(info.max_qp);
  attr.max_qp_wr = static_cast<int>(info.max_qp_wr);
  attr.device_cap_flags = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_SYS_IMAGE_GUID |
                          IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SRQ_RESIZE |
                          IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B |
                          IBV_DEVICE_MEM_MGT_EXTENSIONS | IBV_DEVICE_XRC;
  attr.max_sge = static_cast<int>(info.max_sge);
  attr.max_sge_rd = static_cast<int>(info.max_sge);
  attr.max_cq = static_cast<int>(info.max_cq);
  attr.max_cqe = static_cast<int>(info.max_cqe);
  attr.max_mr = static_cast<int>(info.max_mr);
  attr.max_mw = static_cast<int>(info.max_mw);
  attr.max_pd = static_cast<int>(info.max_pd);
  attr.max_qp_rd_atom = static_cast<int>(info.max_qp_rd_atom);
  attr.max_qp_init_rd_atom = static_cast<int>(info.max_qp_rd_atom);
  attr.max_res_rd_atom = static_cast<int>(info.max_qp_rd_atom * info.max_qp);
  attr.atomic_cap = IBV_ATOMIC_HCA;
  attr.max_ah = static_cast<int>(info.max_ah);
  attr.max_srq = static_cast<int>(info.max_srq);
  attr.max_srq_wr = static_cast<int>(info.max_qp_wr);
  attr.max_srq_sge = static_cast<int>(info.max_sge);
  attr.max_mcast_grp = static_cast<int>(info.max_mcast_groups);
  attr.max_mcast_qp_attach = static_cast<int>(info.max_mcast_members);
  attr.max_total_mcast_qp_attach = attr.max_mcast_grp;
  attr.max_pkeys = 1;
  attr.local_ca_ack_delay = static_cast<uint8_t>(info.local_ca_ack_delay);
  attr.phys_port_cnt = 1;
}

/// Types of queue pairs that IBV_QP_RATE_LIMIT is for, a bit for each.
constexpr uint32_t kPacedTypes = 1u << IBV_QPT_RC | 1u << IBV_QPT_UC | 1u << IBV_QPT_UD |
                                 1u << IBV_QPT_XRC_SEND | 1u << IBV_QPT_XRC_RECV;

void DescribeExtensions(ibv_device_attr_ex& attr) {
  attr.phys_port_cnt_ex = 1;
  attr.device_cap_flags_ex = attr.orig_attr.device_cap_flags;
  // Completion timestamps are times of CLOCK_MONOTONIC, in ns.
  attr.completion_timestamp_mask = UINT64_MAX;
  attr.hca_core_clock = 1000000;  // kHz
  attr.cq_mod_caps = {UINT16_MAX, UINT16_MAX};
  attr.max_dm_size = kMaxDeviceMemoryBytes;
  // Each access checks the pages of copied memory, so they need not be present before.
  attr.odp_caps.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
  constexpr uint32_t kOfDatagrams =
      IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;
  constexpr uint32_t kOfUnreliable = kOfDatagrams | IBV_ODP_SUPPORT_WRITE;
  constexpr uint32_t kOfReliable = kOfUnreliable | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC;
  attr.odp_caps.per_transport_caps.rc_odp_caps = kOfReliable;
  attr.odp_caps.per_transport_caps.uc_odp_caps = kOfUnreliable;
  attr.odp_caps.per_transport_caps.ud_odp_caps = kOfDatagrams;
  attr.xrc_odp_caps = kOfReliable;
  attr.packet_pacing_caps = {.qp_rate_limit_min = UROCE_MIN_RATE_LIMIT,
                             .qp_rate_limit_max = UROCE_MAX_RATE_LIMIT,
                             .supported_qpts = kPacedTypes};
}

int DescribePort(Context& context, uint8_t port, ibv_port_attr& attr) {
  memset(&attr, 0, sizeof(attr));
  if (port != 1) return EINVAL;
  uroce_port_info info;
  const int error =
      Call(*context.connection, UROCE_QUERY_PORT, uroce_handle{context.handle, 0}, &info);
  if (error != 0) return error;
  attr.state = static_cast<ibv_port_state>(info.state);
  attr.max_mtu = static_cast<ibv_mtu>(info.max_mtu);
  attr.active_mtu = static_cast<ibv_mtu>(info.active_mtu);
  attr.gid_tbl_len = static_cast<int>(info.gid_table_length);
  attr.port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS;
  attr.max_msg_sz = context.device->info.max_msg_size;
  attr.bad_pkey_cntr = info.bad_pkey_counter;
  attr.pkey_tbl_len = 1;
  attr.max_vl_num = 1;
  attr.active_width = static_cast<uint8_t>(info.active_width);
  attr.active_speed = static_cast<uint8_t>(info.active_speed);
  attr.phys_state = static_cast<uint8_t>(info.phys_state);
  attr.link_layer = IBV_LINK_LAYER_ETHERNET;
  attr.flags = IBV_QPF_GRH_REQUIRED;
  return 0;
}

int PortSpeed(Context& context, uint32_t port, uint64_t* speed) {
  if (port != 1) return EINVAL;
  constexpr uint64_t kUnitBps = 100'000'000;
  uroce_port_info info;
  const int error =
      Call(*context.connection, UROCE_QUERY_PORT, uroce_handle{context.handle, 0}, &info);
  if (error == 0) *speed = info.speed_bps < kUnitBps ? 1 : info.speed_bps / kUnitBps;
  return error;
}

int CheckPkeyPlace(uint8_t port, int index) { return port == 1 && index == 0 ? 0 : EINVAL; }

}  // namespace

int QueryPort(ibv_context* context, uint8_t port, ibv_port_attr* attributes, size_t length) {
  ibv_port_attr attr;
  const int error = DescribePort(*Ours(context), port, attr);
  if (error != 0) return error;
  memset(attributes, 0, length);
  memcpy(attributes, &attr, length < sizeof(attr) ? length : sizeof(attr));
  return 0;
}

int QueryDeviceEx(ibv_context* context, const ibv_query_device_ex_input* input,
                  ibv_device_attr_ex* attributes, size_t length) {
  if (input != nullptr && input->comp_mask != 0) return EINVAL;
  if (length < sizeof(attributes->orig_attr)) return EINVAL;
  memset(attributes, 0, length);
  ibv_device_attr_ex attr = {};
  DescribeDevice(Ours(context)->device->info, attr.orig_attr);
  DescribeExtensions(attr);
  memcpy(attributes, &attr, length < sizeof(attr) ? length : sizeof(attr));
  return 0;
}

// Like mlx5: the whole count is in tv_nsec.
int QueryRtValues(ibv_context*, ibv_values_ex* values) {
  const bool wants_clock = (values->comp_mask & IBV_VALUES_MASK_RAW_CLOCK) != 0;
  values->comp_mask = wants_clock ? IBV_VALUES_MASK_RAW_CLOCK : 0;
  if (!wants_clock) return EINVAL;
  values->raw_clock.tv_sec = 0;
  values->raw_clock.tv_nsec = static_cast<long>(ClockNs(CLOCK_MONOTONIC));
  return 0;
}

}  // namespace uroce::shim

using namespace uroce::shim;

extern "C" {

UROCE_EXPORT int ibv_query_device(ibv_context* context, ibv_device_attr* attributes) {
  if (!IsOurs(context)) return real_ibv_query_device.CallOr(ENOSYS, context, attributes);
  if (!Ours(context)->connection->is_live()) return EIO;
  DescribeDevice(Ours(context)->device->info, *attributes);
  return 0;
}

UROCE_EXPORT int ibv_query_port(ibv_context* context, uint8_t port,
                                _compat_ibv_port_attr* attributes) {
  if (!IsOurs(context)) return real_ibv_query_port.CallOr(ENOSYS, context, port, attributes);
  return QueryPort(context, port, reinterpret_cast<ibv_port_attr*>(attributes), kOldPortAttrBytes);
}

// The name in C++ is ours: newer headers declare libibverbs' own.
int ExportedQueryPortSpeed(ibv_context* context, uint32_t port,
                           uint64_t* speed) __asm__("ibv_query_port_speed");

UROCE_EXPORT int ExportedQueryPortSpeed(ibv_context* context, uint32_t port, uint64_t* speed) {
  return IsOurs(context) ? PortSpeed(*Ours(context), port, speed)
                         : real_query_port_speed.CallOr(EOPNOTSUPP, context, port, speed);
}

UROCE_EXPORT int ibv_query_pkey(ibv_context* context, uint8_t port, int index, __be16* pkey) {
  if (!IsOurs(context)) return real_ibv_query_pkey.CallOr(-1, context, port, index, pkey);
  const int error = CheckPkeyPlace(port, index);
  if (error != 0) {
    errno = error;
    return -1;
  }
  *pkey = kDefaultPkey;
  return 0;
}

UROCE_EXPORT int ibv_get_pkey_index(ibv_context* context, uint8_t port, __be16 pkey) {
  if (!IsOurs(context)) return real_ibv_get_pkey_index.CallOr(-1, context, port, pkey);
  if (port == 1 && pkey == kDefaultPkey) return 0;
  errno = EINVAL;
  return -1;
}

}  // extern "C"
