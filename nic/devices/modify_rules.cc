// SPDX-License-Identifier: Apache-2.0
#include "nic/devices/modify_rules.h"

#include <infiniband/verbs.h>

#include "absl/strings/str_cat.h"

namespace uroce::nic {
namespace {

using transport::QpState;

struct Rule {
  QpState from;
  QpState to;
  uint32_t types;  ///< TypeBits of the types to which the rule applies.
  uint32_t required;
  uint32_t optional;
};

constexpr uint32_t TypeBit(uint32_t qp_type) { return qp_type < 32 ? 1u << qp_type : 0; }

constexpr uint32_t kRc = TypeBit(IBV_QPT_RC);
constexpr uint32_t kUc = TypeBit(IBV_QPT_UC);
constexpr uint32_t kUd = TypeBit(IBV_QPT_UD);
constexpr uint32_t kIni = TypeBit(IBV_QPT_XRC_SEND);
constexpr uint32_t kTgt = TypeBit(IBV_QPT_XRC_RECV);
constexpr uint32_t kConnected = kRc | kUc | kIni | kTgt;
constexpr uint32_t kAll = kConnected | kUd;

constexpr uint32_t kConnectedInit = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
constexpr uint32_t kDatagramInit = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
constexpr uint32_t kPeer = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
constexpr uint32_t kRtrOptional = IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX;
constexpr uint32_t kRtsRequired =
    IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
// Linux takes a rate limit for raw packets alone, and adapters for what their driver names.
constexpr uint32_t kUcRtsOptional = IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS |
                                    IBV_QP_PATH_MIG_STATE | IBV_QP_RATE_LIMIT;
constexpr uint32_t kRcRtsOptional = kUcRtsOptional | IBV_QP_MIN_RNR_TIMER;
constexpr uint32_t kUdRtsOptional = IBV_QP_CUR_STATE | IBV_QP_QKEY | IBV_QP_RATE_LIMIT;
constexpr uint32_t kUcSqdOptional =
    IBV_QP_AV | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PATH_MIG_STATE;
constexpr uint32_t kXrcSqdOptional = kUcSqdOptional | IBV_QP_PORT | IBV_QP_TIMEOUT;
constexpr uint32_t kIniSqdOptional =
    kXrcSqdOptional | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
constexpr uint32_t kTgtSqdOptional =
    kXrcSqdOptional | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
constexpr uint32_t kRcSqdOptional = kIniSqdOptional | kTgtSqdOptional;

// FindRule adds the transitions to RESET from any state, and to ERR from any state but RESET.
constexpr Rule kRules[] = {
    {QpState::kReset, QpState::kInit, kConnected, kConnectedInit, 0},
    {QpState::kReset, QpState::kInit, kUd, kDatagramInit, 0},
    {QpState::kInit, QpState::kInit, kConnected, 0, kConnectedInit},
    {QpState::kInit, QpState::kInit, kUd, 0, kDatagramInit},
    {QpState::kInit, QpState::kRtr, kRc | kTgt,
     kPeer | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER, kRtrOptional},
    {QpState::kInit, QpState::kRtr, kUc | kIni, kPeer, kRtrOptional},
    {QpState::kInit, QpState::kRtr, kUd, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
    {QpState::kRtr, QpState::kRts, kRc, kRtsRequired, kRcRtsOptional},
    {QpState::kRtr, QpState::kRts, kIni, kRtsRequired, kUcRtsOptional},
    {QpState::kRtr, QpState::kRts, kTgt, IBV_QP_TIMEOUT | IBV_QP_SQ_PSN, kRcRtsOptional},
    {QpState::kRtr, QpState::kRts, kUc, IBV_QP_SQ_PSN, kUcRtsOptional},
    {QpState::kRtr, QpState::kRts, kUd, IBV_QP_SQ_PSN, kUdRtsOptional},
    {QpState::kRts, QpState::kRts, kRc | kTgt, 0, kRcRtsOptional},
    {QpState::kRts, QpState::kRts, kUc | kIni, 0, kUcRtsOptional},
    {QpState::kRts, QpState::kRts, kUd, 0, kUdRtsOptional},
    {QpState::kRts, QpState::kSqd, kAll, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {QpState::kSqd, QpState::kSqd, kRc, 0, kRcSqdOptional},
    {QpState::kSqd, QpState::kSqd, kIni, 0, kIniSqdOptional},
    {QpState::kSqd, QpState::kSqd, kTgt, 0, kTgtSqdOptional},
    {QpState::kSqd, QpState::kSqd, kUc, 0, kUcSqdOptional},
    {QpState::kSqd, QpState::kSqd, kUd, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
    {QpState::kSqd, QpState::kRts, kRc | kTgt, 0, kRcRtsOptional},
    {QpState::kSqd, QpState::kRts, kUc | kIni, 0, kUcRtsOptional},
    {QpState::kSqd, QpState::kRts, kUd, 0, kUdRtsOptional},
    {QpState::kSqe, QpState::kRts, kUc, 0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS},
    {QpState::kSqe, QpState::kRts, kUd, 0, kUdRtsOptional},
};
constexpr Rule kToReset{QpState::kReset, QpState::kReset, kAll, 0, 0};
constexpr Rule kToError{QpState::kErr, QpState::kErr, kAll, 0, 0};

const Rule* FindRule(uint32_t qp_type, QpState from, QpState to) {
  if (to == QpState::kReset) return &kToReset;
  if (to == QpState::kErr) return from == QpState::kReset ? nullptr : &kToError;
  for (const Rule& rule : kRules) {
    const bool is_of_type = (rule.types & TypeBit(qp_type)) != 0;
    if (is_of_type && rule.from == from && rule.to == to) return &rule;
  }
  return nullptr;
}

absl::Status Refuse(absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("modify_qp: ", why));
}

bool MayClaim(QpState state) {
  return state == QpState::kRtr || state == QpState::kRts || state == QpState::kSqd ||
         state == QpState::kSqe;
}

absl::Status AtMost(const char* name, uint32_t value, uint32_t limit) {
  if (value <= limit) return absl::OkStatus();
  return Refuse(absl::StrCat(name, " ", value, " is above ", limit));
}

struct RangeRow {
  uint32_t mask;
  const char* name;
  uint8_t uroce_qp_attr::*value;
  uint8_t limit;
};
constexpr RangeRow kRanges[] = {
    {IBV_QP_TIMEOUT, "timeout", &uroce_qp_attr::timeout, 31},
    {IBV_QP_MIN_RNR_TIMER, "min_rnr_timer", &uroce_qp_attr::min_rnr_timer, 31},
    {IBV_QP_RETRY_CNT, "retry_cnt", &uroce_qp_attr::retry_cnt, 7},
    {IBV_QP_RNR_RETRY, "rnr_retry", &uroce_qp_attr::rnr_retry, 7},
    {IBV_QP_MAX_QP_RD_ATOMIC, "max_rd_atomic", &uroce_qp_attr::max_rd_atomic, kMaxRdAtomic},
    {IBV_QP_MAX_DEST_RD_ATOMIC, "max_dest_rd_atomic", &uroce_qp_attr::max_dest_rd_atomic,
     kMaxRdAtomic},
};

absl::Status CheckAddressVector(const uroce_ah_attr& attr) {
  if (attr.is_global == 0) return Refuse("the address vector needs is_global on Ethernet");
  if (attr.port_num != 1) return Refuse(absl::StrCat("ah_attr.port_num is ", attr.port_num));
  return AtMost("ah_attr.sl", attr.sl, 15);
}

/// 0 ends the limit.
bool IsRateLimit(uint32_t kbps) {
  return kbps == 0 || (kbps >= UROCE_MIN_RATE_LIMIT && kbps <= UROCE_MAX_RATE_LIMIT);
}

// Q_Keys with this bit are for management (docs/protocol/transport.md, section 10).
constexpr uint32_t kPrivilegedQkey = 1u << 31;

constexpr uint32_t kPsnMask = 0xffffff;  // PSNs are masked, not refused.

}  // namespace

uint32_t MaskOfHalf(uint32_t qp_type, uint32_t attr_mask) {
  constexpr uint32_t kOfTarget = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  constexpr uint32_t kOfInitiator = IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY;
  if (qp_type == IBV_QPT_XRC_SEND) return attr_mask & ~kOfTarget;
  return qp_type == IBV_QPT_XRC_RECV ? attr_mask & ~kOfInitiator : attr_mask;
}

QpState NextState(const uroce_qp_attr& attr, QpState state) {
  return (attr.attr_mask & IBV_QP_STATE) != 0 ? static_cast<QpState>(attr.qp_state) : state;
}

absl::Status CheckTransition(const uroce_qp_attr& attr, const ModifyView& view) {
  if ((attr.attr_mask & IBV_QP_STATE) != 0 && attr.qp_state > IBV_QPS_ERR) {
    return Refuse(absl::StrCat("there is no state ", attr.qp_state));
  }
  if ((attr.attr_mask & IBV_QP_CUR_STATE) != 0) {
    const auto claimed = static_cast<QpState>(attr.cur_qp_state);
    if (attr.cur_qp_state > IBV_QPS_ERR || !MayClaim(claimed) || claimed != view.state) {
      return Refuse(absl::StrCat("cur_qp_state ", attr.cur_qp_state, " is not its state ",
                                 static_cast<int>(view.state)));
    }
  }
  const QpState next = NextState(attr, view.state);
  const Rule* rule = FindRule(view.qp_type, view.state, next);
  if (rule == nullptr) {
    return Refuse(absl::StrCat("no transition from state ", static_cast<int>(view.state), " to ",
                               static_cast<int>(next)));
  }
  const uint32_t missing = rule->required & ~attr.attr_mask;
  const uint32_t excess = attr.attr_mask & ~(rule->required | rule->optional | IBV_QP_STATE);
  if (missing != 0) return Refuse(absl::StrCat("mask lacks 0x", absl::Hex(missing)));
  if (excess != 0) return Refuse(absl::StrCat("mask may not hold 0x", absl::Hex(excess)));
  // Leaving SQD for RTS, or changing anything in it, waits for the drain.
  if (view.state == QpState::kSqd && view.draining &&
      (next == QpState::kSqd || next == QpState::kRts)) {
    return Refuse("the send queue is still draining");
  }
  return absl::OkStatus();
}

absl::Status CheckRanges(const uroce_qp_attr& attr, const ModifyView& view) {
  const uint32_t mask = attr.attr_mask;
  if ((mask & IBV_QP_ALT_PATH) != 0) return Refuse("there are no alternate paths on RoCE");
  if ((mask & IBV_QP_PKEY_INDEX) != 0 && attr.pkey_index != 0) {
    return Refuse(absl::StrCat("pkey_index ", attr.pkey_index, " is not 0"));
  }
  if ((mask & IBV_QP_PORT) != 0 && attr.port_num != 1) {
    return Refuse(absl::StrCat("port_num ", attr.port_num, " is not 1"));
  }
  if ((mask & IBV_QP_PATH_MTU) != 0 &&
      (attr.path_mtu < IBV_MTU_256 || attr.path_mtu > view.active_mtu)) {
    return Refuse(absl::StrCat("path_mtu ", attr.path_mtu, " is not in 1 to ", view.active_mtu,
                               ", the port's active_mtu"));
  }
  if ((mask & IBV_QP_DEST_QPN) != 0 && attr.dest_qp_num > kPsnMask) {
    return Refuse(absl::StrCat("dest_qp_num ", attr.dest_qp_num, " has more than 24 bits"));
  }
  if ((mask & IBV_QP_RATE_LIMIT) != 0 && !IsRateLimit(attr.rate_limit)) {
    return Refuse(absl::StrCat("rate_limit ", attr.rate_limit, " kb/s is not in ",
                               UROCE_MIN_RATE_LIMIT, " to ", UROCE_MAX_RATE_LIMIT));
  }
  if ((mask & IBV_QP_QKEY) != 0 && (attr.qkey & kPrivilegedQkey) != 0 && !view.is_privileged) {
    return absl::PermissionDeniedError(
        "modify_qp: a qkey with bit 31 set is for privileged programs");
  }
  for (const RangeRow& row : kRanges) {
    if ((mask & row.mask) == 0) continue;
    if (absl::Status status = AtMost(row.name, attr.*row.value, row.limit); !status.ok()) {
      return status;
    }
  }
  return (mask & IBV_QP_AV) != 0 ? CheckAddressVector(attr.ah_attr) : absl::OkStatus();
}

void Assign(const uroce_qp_attr& from, uroce_qp_attr& to) {
  const uint32_t mask = from.attr_mask;
  // The program requests it again for each drain.
  to.en_sqd_async_notify = (mask & IBV_QP_EN_SQD_ASYNC_NOTIFY) ? from.en_sqd_async_notify : 0;
  if (mask & IBV_QP_ACCESS_FLAGS) to.qp_access_flags = from.qp_access_flags;
  if (mask & IBV_QP_PKEY_INDEX) to.pkey_index = from.pkey_index;
  if (mask & IBV_QP_PORT) to.port_num = from.port_num;
  if (mask & IBV_QP_AV) to.ah_attr = from.ah_attr;
  if (mask & IBV_QP_PATH_MTU) to.path_mtu = from.path_mtu;
  if (mask & IBV_QP_TIMEOUT) to.timeout = from.timeout;
  if (mask & IBV_QP_RETRY_CNT) to.retry_cnt = from.retry_cnt;
  if (mask & IBV_QP_RNR_RETRY) to.rnr_retry = from.rnr_retry;
  if (mask & IBV_QP_QKEY) to.qkey = from.qkey;
  if (mask & IBV_QP_RQ_PSN) to.rq_psn = from.rq_psn & kPsnMask;
  if (mask & IBV_QP_MAX_QP_RD_ATOMIC) to.max_rd_atomic = from.max_rd_atomic;
  if (mask & IBV_QP_MIN_RNR_TIMER) to.min_rnr_timer = from.min_rnr_timer;
  if (mask & IBV_QP_SQ_PSN) to.sq_psn = from.sq_psn & kPsnMask;
  if (mask & IBV_QP_MAX_DEST_RD_ATOMIC) to.max_dest_rd_atomic = from.max_dest_rd_atomic;
  if (mask & IBV_QP_PATH_MIG_STATE) to.path_mig_state = from.path_mig_state;
  if (mask & IBV_QP_DEST_QPN) to.dest_qp_num = from.dest_qp_num;
  if (mask & IBV_QP_RATE_LIMIT) to.rate_limit = from.rate_limit;
}

}  // namespace uroce::nic
