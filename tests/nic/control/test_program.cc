// SPDX-License-Identifier: Apache-2.0
#include "tests/nic/control/test_program.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>

#include "tests/nic/control/hand_daemon.h"

namespace uroce::nic {
namespace {

/// DPDK starts once per process, and so does the daemon under test.
class DaemonUnderTest : public testing::Environment {
 public:
  static DaemonUnderTest& Get() {
    static auto* const daemon =
        static_cast<DaemonUnderTest*>(testing::AddGlobalTestEnvironment(new DaemonUnderTest));
    return *daemon;
  }

  void SetUp() override {
    Limits limits;
    limits.pds = 40;
    daemon_ = std::make_unique<HandDaemon>(limits);
    thread_ = std::thread([this] {
      while (!stop_) daemon_->Turn(10);
    });
  }
  void TearDown() override {
    stop_ = true;
    thread_.join();
    daemon_.reset();
  }
  const std::string& path() const { return daemon_->socket_path(); }

 private:
  std::unique_ptr<HandDaemon> daemon_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

const auto& environment = DaemonUnderTest::Get();  // Made before any test runs.

}  // namespace

const std::string& SocketPath() { return environment.path(); }

Json Dump(uint32_t what) {
  ControlClient tool(SocketPath());
  const Answer answer = tool.Call(UROCE_DUMP, uroce_dump{what, 0});
  EXPECT_EQ(answer.error, 0) << answer.text;
  std::string text;
  char piece[4096];
  ssize_t got = 0;
  while ((got = read(answer.fds.at(0).get(), piece, sizeof(piece))) > 0) {
    text.append(piece, static_cast<size_t>(got));
  }
  return Json::parse(text);
}

uroce_qp_attr ToInit() {
  uroce_qp_attr attr{};
  attr.attr_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  return attr;
}

uroce_qp_attr ToRtr(const Gid& dgid, uint8_t sgid_index) {
  uroce_qp_attr attr{};
  attr.attr_mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = 77;
  attr.rq_psn = 0xabcdef;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.sgid_index = sgid_index;
  std::copy(dgid.bytes.begin(), dgid.bytes.end(), attr.ah_attr.dgid);
  return attr;
}

uroce_qp_attr ToRts() {
  uroce_qp_attr attr{};
  attr.attr_mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                   IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = 14;
  attr.sq_psn = 0x123;
  return attr;
}

Gid GidOf(const char* text) { return ParseInterfaceAddress(text)->gid; }

}  // namespace uroce::nic
