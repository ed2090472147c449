// SPDX-License-Identifier: Apache-2.0
// ibv_modify_qp on each type of queue pair: every transition and every bit of the mask against the
// table of docs/protocol/transport.md, section 1.
#include "nic/devices/modify_rules.h"

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <map>

namespace uroce::nic {
namespace {

using transport::QpState;

// The table in the words of the document, so that a slip in the code's own table shows.
constexpr uint32_t kPk = IBV_QP_PKEY_INDEX, kPo = IBV_QP_PORT, kAf = IBV_QP_ACCESS_FLAGS;
constexpr uint32_t kQk = IBV_QP_QKEY, kAv = IBV_QP_AV, kCs = IBV_QP_CUR_STATE,
                   kAlt = IBV_QP_ALT_PATH;
constexpr uint32_t kMig = IBV_QP_PATH_MIG_STATE, kRnrt = IBV_QP_MIN_RNR_TIMER;

struct Row {
  uint32_t required;
  uint32_t optional;
};

using TransitionTable = std::map<std::pair<QpState, QpState>, Row>;

TransitionTable ReliableRows() {
  TransitionTable t;
  t[{QpState::kReset, QpState::kInit}] = {kPk | kPo | kAf, 0};
  t[{QpState::kInit, QpState::kInit}] = {0, kPk | kPo | kAf};
  t[{QpState::kInit, QpState::kRtr}] = {
      kAv | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | kRnrt,
      kAlt | kAf | kPk};
  t[{QpState::kRtr, QpState::kRts}] = {IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                           IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
                                       kCs | kAlt | kAf | kRnrt | kMig};
  t[{QpState::kRts, QpState::kRts}] = {0, kCs | kAf | kAlt | kMig | kRnrt};
  t[{QpState::kSqd, QpState::kSqd}] = {
      0, kPo | kAv | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
             IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC | kAlt | kAf | kPk | kRnrt | kMig};
  t[{QpState::kSqd, QpState::kRts}] = {0, kCs | kAlt | kAf | kRnrt | kMig};
  return t;
}

TransitionTable UnreliableRows() {
  TransitionTable t;
  t[{QpState::kReset, QpState::kInit}] = {kPk | kPo | kAf, 0};
  t[{QpState::kInit, QpState::kInit}] = {0, kPk | kPo | kAf};
  t[{QpState::kInit, QpState::kRtr}] = {kAv | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
                                        kAlt | kAf | kPk};
  t[{QpState::kRtr, QpState::kRts}] = {IBV_QP_SQ_PSN, kCs | kAlt | kAf | kMig};
  t[{QpState::kRts, QpState::kRts}] = {0, kCs | kAf | kAlt | kMig};
  t[{QpState::kSqd, QpState::kSqd}] = {0, kAv | kAlt | kAf | kPk | kMig};
  t[{QpState::kSqd, QpState::kRts}] = {0, kCs | kAlt | kAf | kMig};
  t[{QpState::kSqe, QpState::kRts}] = {0, kCs | kAf};
  return t;
}

TransitionTable DatagramRows() {
  TransitionTable t;
  t[{QpState::kReset, QpState::kInit}] = {kPk | kPo | kQk, 0};
  t[{QpState::kInit, QpState::kInit}] = {0, kPk | kPo | kQk};
  t[{QpState::kInit, QpState::kRtr}] = {0, kPk | kQk};
  t[{QpState::kRtr, QpState::kRts}] = {IBV_QP_SQ_PSN, kCs | kQk};
  t[{QpState::kRts, QpState::kRts}] = {0, kCs | kQk};
  t[{QpState::kSqd, QpState::kSqd}] = {0, kPk | kQk};
  t[{QpState::kSqd, QpState::kRts}] = {0, kCs | kQk};
  t[{QpState::kSqe, QpState::kRts}] = {0, kCs | kQk | IBV_QP_RATE_LIMIT};
  return t;
}

TransitionTable InitiatorRows() {
  TransitionTable t = ReliableRows();
  t[{QpState::kInit, QpState::kRtr}] = {kAv | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
                                        kAlt | kAf | kPk};
  t[{QpState::kRtr, QpState::kRts}].optional = kCs | kAlt | kAf | kMig;
  t[{QpState::kRts, QpState::kRts}] = {0, kCs | kAf | kAlt | kMig};
  t[{QpState::kSqd, QpState::kSqd}].optional &= ~(IBV_QP_MAX_DEST_RD_ATOMIC | kRnrt);
  t[{QpState::kSqd, QpState::kRts}] = {0, kCs | kAlt | kAf | kMig};
  return t;
}

TransitionTable TargetRows() {
  TransitionTable t = ReliableRows();
  t[{QpState::kRtr, QpState::kRts}].required = IBV_QP_TIMEOUT | IBV_QP_SQ_PSN;
  t[{QpState::kSqd, QpState::kSqd}] = {
      0, kPo | kAv | IBV_QP_TIMEOUT | IBV_QP_MAX_DEST_RD_ATOMIC | kAlt | kAf | kPk | kRnrt | kMig};
  return t;
}

TransitionTable RowsOf(uint32_t type) {
  switch (type) {
    case IBV_QPT_UD:
      return DatagramRows();
    case IBV_QPT_UC:
      return UnreliableRows();
    case IBV_QPT_XRC_SEND:
      return InitiatorRows();
    case IBV_QPT_XRC_RECV:
      return TargetRows();
    default:
      return ReliableRows();
  }
}

/// What all types have in common is added here.
TransitionTable Table(uint32_t type) {
  TransitionTable t = RowsOf(type);
  t[{QpState::kRts, QpState::kSqd}] = {0, IBV_QP_EN_SQD_ASYNC_NOTIFY};
  for (const QpState from : {QpState::kRtr, QpState::kRts, QpState::kSqd}) {
    t[{from, QpState::kRts}].optional |= IBV_QP_RATE_LIMIT;
  }
  for (int from = 0; from <= 6; ++from) {
    t[{QpState(from), QpState::kReset}] = {0, 0};
    if (from != 0) t[{QpState(from), QpState::kErr}] = {0, 0};
  }
  return t;
}

// A claim of the present state is legal from RTR on, and otherwise as any other bit.
bool ClaimFails(uint32_t mask, QpState from) {
  return (mask & kCs) != 0 && (from < QpState::kRtr || from > QpState::kSqe);
}

/// Every type that is served has its own table.
class TransitionTest : public testing::TestWithParam<uint32_t> {
 protected:
  bool Expected(QpState from, QpState to, uint32_t mask) const {
    const auto row = table_.find({from, to});
    if (row == table_.end() || ClaimFails(mask, from)) return false;
    const uint32_t allowed = row->second.required | row->second.optional | IBV_QP_STATE;
    return (row->second.required & ~mask) == 0 && (mask & ~allowed) == 0;
  }

  static bool Allowed(QpState from, QpState to, uint32_t mask) {
    uroce_qp_attr attr{};
    attr.attr_mask = mask;
    attr.qp_state = static_cast<uint32_t>(to);
    attr.cur_qp_state = static_cast<uint32_t>(from);
    return CheckTransition(attr, {from, false, IBV_MTU_4096, GetParam()}).ok();
  }

  uint32_t RequiredMask(QpState from, QpState to) const {
    const auto row = table_.find({from, to});
    return IBV_QP_STATE | (row == table_.end() ? 0 : row->second.required);
  }

  const TransitionTable table_ = Table(GetParam());
};

INSTANTIATE_TEST_SUITE_P(Types, TransitionTest,
                         testing::Values(IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_SEND,
                                         IBV_QPT_XRC_RECV));

TEST_P(TransitionTest, EveryTransitionWithEverySingleBitAddedOrTakenAway) {
  for (int from = 0; from <= 6; ++from) {
    for (int to = 0; to <= 6; ++to) {
      const QpState a = QpState(from), b = QpState(to);
      const uint32_t base = RequiredMask(a, b);
      EXPECT_EQ(Allowed(a, b, base), Expected(a, b, base)) << from << "->" << to;
      for (int bit = 1; bit <= 25; ++bit) {
        const uint32_t mask = base ^ (1u << bit);
        EXPECT_EQ(Allowed(a, b, mask), Expected(a, b, mask))
            << from << "->" << to << " mask 0x" << std::hex << mask;
      }
    }
  }
}

TEST_P(TransitionTest, EveryPairOfOptionalBits) {
  for (const auto& [states, row] : table_) {
    for (int i = 1; i <= 25; ++i) {
      for (int j = 1; j <= 25; ++j) {
        const uint32_t mask = (IBV_QP_STATE | row.required) ^ (1u << i) ^ (1u << j);
        EXPECT_EQ(Allowed(states.first, states.second, mask),
                  Expected(states.first, states.second, mask))
            << int(states.first) << "->" << int(states.second) << " mask 0x" << std::hex << mask;
      }
    }
  }
}

TEST(ModifyRulesTest, TypesThatAreNotServedHaveNoTransition) {
  uroce_qp_attr attr{};
  attr.attr_mask = IBV_QP_STATE | kPk | kPo | kAf;
  attr.qp_state = IBV_QPS_INIT;
  for (const uint32_t type : {0u, 8u, 32u, 0xffffffffu}) {
    EXPECT_FALSE(CheckTransition(attr, {QpState::kReset, false, 5, type}).ok()) << type;
  }
}

TEST(ModifyRulesTest, WhatTheOtherHalfOfAnExtendedConnectionHasIsNotHeard) {
  constexpr uint32_t kTargets = IBV_QP_MAX_DEST_RD_ATOMIC | kRnrt;
  constexpr uint32_t kInitiators = IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY;
  constexpr uint32_t kBoth = kTargets | kInitiators | IBV_QP_STATE | kAv | IBV_QP_TIMEOUT;
  EXPECT_EQ(MaskOfHalf(IBV_QPT_XRC_SEND, kBoth), kBoth & ~kTargets);
  EXPECT_EQ(MaskOfHalf(IBV_QPT_XRC_RECV, kBoth), kBoth & ~kInitiators);
  EXPECT_EQ(MaskOfHalf(IBV_QPT_RC, kBoth), kBoth);
  EXPECT_EQ(MaskOfHalf(IBV_QPT_UD, kBoth), kBoth);
}

TEST(ModifyRulesTest, WithoutStateTheQueuePairStaysInItsState) {
  uroce_qp_attr attr{};
  attr.attr_mask = kAf;
  attr.qp_state = IBV_QPS_ERR;  // Not looked at.
  EXPECT_EQ(NextState(attr, QpState::kRts), QpState::kRts);
  EXPECT_TRUE(CheckTransition(attr, {QpState::kRts, false, 5}).ok());
  EXPECT_FALSE(CheckTransition(attr, {QpState::kRtr, false, 5}).ok());
}

TEST(ModifyRulesTest, WrongClaimOfTheCurrentStateIsRefused) {
  uroce_qp_attr attr{};
  attr.attr_mask = IBV_QP_STATE | kCs;
  attr.qp_state = IBV_QPS_RTS;
  attr.cur_qp_state = IBV_QPS_SQD;
  EXPECT_FALSE(CheckTransition(attr, {QpState::kRts, false, 5}).ok());
  EXPECT_TRUE(CheckTransition(attr, {QpState::kSqd, false, 5}).ok());
}

TEST(ModifyRulesTest, StatesBeyondErrAreRefused) {
  uroce_qp_attr attr{};
  attr.attr_mask = IBV_QP_STATE;
  for (const uint32_t state : {7u, 8u, 0x100u, 0xffffffffu}) {
    attr.qp_state = state;
    EXPECT_FALSE(CheckTransition(attr, {QpState::kRts, false, 5}).ok()) << state;
  }
}

TEST(ModifyRulesTest, LeavingSqdForRtsWaitsForTheDrain) {
  uroce_qp_attr attr{};
  attr.attr_mask = IBV_QP_STATE;
  for (const auto& [to, allowed] : std::map<ibv_qp_state, bool>{{IBV_QPS_RTS, false},
                                                                {IBV_QPS_SQD, false},
                                                                {IBV_QPS_ERR, true},
                                                                {IBV_QPS_RESET, true}}) {
    attr.qp_state = to;
    EXPECT_EQ(CheckTransition(attr, {QpState::kSqd, true, 5}).ok(), allowed) << to;
    EXPECT_TRUE(CheckTransition(attr, {QpState::kSqd, false, 5}).ok()) << to;
  }
}

bool InRange(uint32_t mask, void (*set)(uroce_qp_attr&)) {
  uroce_qp_attr attr{};
  attr.attr_mask = mask;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.path_mtu = 3;
  set(attr);
  return CheckRanges(attr, {QpState::kInit, false, IBV_MTU_1024}).ok();
}

TEST(ModifyRulesTest, ValuesAtAndBeyondTheirLimits) {
  EXPECT_TRUE(InRange(IBV_QP_TIMEOUT, [](auto& a) { a.timeout = 31; }));
  EXPECT_FALSE(InRange(IBV_QP_TIMEOUT, [](auto& a) { a.timeout = 32; }));
  EXPECT_TRUE(InRange(kRnrt, [](auto& a) { a.min_rnr_timer = 31; }));
  EXPECT_FALSE(InRange(kRnrt, [](auto& a) { a.min_rnr_timer = 32; }));
  EXPECT_TRUE(InRange(IBV_QP_RETRY_CNT, [](auto& a) { a.retry_cnt = 7; }));
  EXPECT_FALSE(InRange(IBV_QP_RETRY_CNT, [](auto& a) { a.retry_cnt = 8; }));
  EXPECT_TRUE(InRange(IBV_QP_RNR_RETRY, [](auto& a) { a.rnr_retry = 7; }));
  EXPECT_FALSE(InRange(IBV_QP_RNR_RETRY, [](auto& a) { a.rnr_retry = 8; }));
  EXPECT_TRUE(InRange(IBV_QP_MAX_QP_RD_ATOMIC, [](auto& a) { a.max_rd_atomic = 16; }));
  EXPECT_FALSE(InRange(IBV_QP_MAX_QP_RD_ATOMIC, [](auto& a) { a.max_rd_atomic = 17; }));
  EXPECT_FALSE(InRange(IBV_QP_MAX_DEST_RD_ATOMIC, [](auto& a) { a.max_dest_rd_atomic = 17; }));
  EXPECT_FALSE(InRange(kPk, [](auto& a) { a.pkey_index = 1; }));
  EXPECT_FALSE(InRange(kPo, [](auto& a) { a.port_num = 2; }));
  EXPECT_FALSE(InRange(kPo, [](auto& a) { a.port_num = 0; }));
  EXPECT_TRUE(InRange(kPo, [](auto& a) { a.port_num = 1; }));
  EXPECT_FALSE(InRange(IBV_QP_DEST_QPN, [](auto& a) { a.dest_qp_num = 0x1000000; }));
  EXPECT_FALSE(InRange(kAlt, [](auto&) {}));
  EXPECT_TRUE(InRange(IBV_QP_RATE_LIMIT, [](auto& a) { a.rate_limit = 0; }));
  EXPECT_FALSE(InRange(IBV_QP_RATE_LIMIT, [](auto& a) { a.rate_limit = 99; }));
  EXPECT_TRUE(InRange(IBV_QP_RATE_LIMIT, [](auto& a) { a.rate_limit = 100; }));
  EXPECT_TRUE(InRange(IBV_QP_RATE_LIMIT, [](auto& a) { a.rate_limit = 100'000'000; }));
  EXPECT_FALSE(InRange(IBV_QP_RATE_LIMIT, [](auto& a) { a.rate_limit = 100'000'001; }));
}

TEST(ModifyRulesTest, QkeysOfManagementAreForPrivilegedPrograms) {
  uroce_qp_attr attr{};
  attr.attr_mask = kQk;
  const auto check = [&](uint32_t qkey, bool is_privileged) {
    attr.qkey = qkey;
    return CheckRanges(attr, {QpState::kRts, false, 5, IBV_QPT_UD, is_privileged}).ok();
  };
  EXPECT_TRUE(check(0x7fffffff, false));
  EXPECT_FALSE(check(0x80000000, false));
  EXPECT_TRUE(check(0x80000000, true));
}

TEST(ModifyRulesTest, PathMtuAboveThePortsActiveMtuIsRefused) {
  EXPECT_TRUE(InRange(IBV_QP_PATH_MTU, [](auto& a) { a.path_mtu = 3; }));
  EXPECT_FALSE(InRange(IBV_QP_PATH_MTU, [](auto& a) { a.path_mtu = 4; }));
  EXPECT_FALSE(InRange(IBV_QP_PATH_MTU, [](auto& a) { a.path_mtu = 0; }));
}

TEST(ModifyRulesTest, AddressVectorNeedsAGlobalRouteAndThePort) {
  EXPECT_TRUE(InRange(kAv, [](auto&) {}));
  EXPECT_FALSE(InRange(kAv, [](auto& a) { a.ah_attr.is_global = 0; }));
  EXPECT_FALSE(InRange(kAv, [](auto& a) { a.ah_attr.port_num = 2; }));
}

TEST(ModifyRulesTest, PsnsAreMaskedNotRefused) {
  uroce_qp_attr from{}, to{};
  from.attr_mask = IBV_QP_SQ_PSN | IBV_QP_RQ_PSN;
  from.sq_psn = 0xff123456;
  from.rq_psn = 0x01000000;
  Assign(from, to);
  EXPECT_EQ(to.sq_psn, 0x123456u);
  EXPECT_EQ(to.rq_psn, 0u);
}

TEST(ModifyRulesTest, OnlyWhatTheMaskNamesIsAssigned) {
  uroce_qp_attr from{}, to{};
  from.attr_mask = IBV_QP_TIMEOUT;
  from.timeout = 14;
  from.retry_cnt = 7;
  Assign(from, to);
  EXPECT_EQ(to.timeout, 14);
  EXPECT_EQ(to.retry_cnt, 0);
}

}  // namespace
}  // namespace uroce::nic
