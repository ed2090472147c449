// SPDX-License-Identifier: Apache-2.0
#include "drivers/dpdk/dpdk_device.h"

#include <gtest/gtest.h>

#include "drivers/dpdk/device_checks.h"

namespace uroce::drivers {
namespace {

TEST(FlowControlTest, TheKernelsInterfacesAreSetByEthtool) {
  EXPECT_EQ(EthtoolCommand("eth0", FlowControl::kOff), "ethtool -A eth0 rx off tx off");
  EXPECT_EQ(EthtoolCommand("eth0", FlowControl::kRx), "ethtool -A eth0 rx on tx off");
  EXPECT_EQ(EthtoolCommand("eth0", FlowControl::kTx), "ethtool -A eth0 rx off tx on");
  EXPECT_EQ(EthtoolCommand("eth0", FlowControl::kFull), "ethtool -A eth0 rx on tx on");
  const auto arguments = ParseDeviceArguments("net_af_packet0;iface=lo");
  ASSERT_TRUE(arguments.ok());
  const absl::Status status = CheckDevice(*arguments, {.flow_control = FlowControl::kFull});
  EXPECT_NE(status.message().find("ethtool -A lo rx on tx on"), absl::string_view::npos) << status;
}

// Names of statistics in DPDK 22.11's drivers: e1000, ixgbe, i40e, bnxt, cxgbe, qede, sfc.
TEST(FlowControlTest, PauseFramesHaveManyNames) {
  for (const char* name :
       {"rx_flow_control_xoff_packets", "rx_priority3_xoff_packets", "rx_pause_frames", "rx_pause",
        "rx_pfc_ena_frames_pri0", "RX_MAC_PFC_PKTS"}) {
    EXPECT_EQ(PauseStatisticOf(name), PauseStatistic::kReceived) << name;
  }
  for (const char* name : {"tx_flow_control_xoff_packets", "tx_pause_packets", "tx_pause"}) {
    EXPECT_EQ(PauseStatisticOf(name), PauseStatistic::kSent) << name;
  }
  for (const char* name : {"rx_flow_control_xon_packets", "rx_prio0_pause_duration",
                           "rx_priority0_xon_to_xoff_packets", "rx_good_packets", "xoff"}) {
    EXPECT_EQ(PauseStatisticOf(name), PauseStatistic::kNone) << name;
  }
}

}  // namespace
}  // namespace uroce::drivers
