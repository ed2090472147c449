// SPDX-License-Identifier: Apache-2.0
#include "drivers/dpdk/dpdk_device.h"

#include <gtest/gtest.h>

#include "drivers/dpdk/dpdk_port.h"

namespace uroce::drivers {
namespace {

TEST(FlowControlTest, ThatOfAnInterfaceIsSetByEthtool) {
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

TEST(DeviceChecksTest, AnMtuThatTheDriverCannotCarryIsRefused) {
  const auto tap = ParseDeviceArguments("net_tap0;iface=x");
  ASSERT_TRUE(tap.ok());
  const absl::Status status = CheckDevice(*tap, {.mtu_bytes = 4200});
  EXPECT_NE(status.message().find("mtu=4200 is more than the 1500"), std::string::npos) << status;
}

TEST(DeviceChecksTest, AVirtioUserWithoutItsServerSaysSo) {
  const auto virtio = ParseDeviceArguments("net_virtio_user0;path=/nonexistent/socket");
  ASSERT_TRUE(virtio.ok());
  const absl::Status status = CheckDevice(*virtio, {});
  EXPECT_NE(status.message().find("path=/nonexistent/socket: no process listens there"),
            std::string::npos)
      << status;
}

TEST(DpdkPortTest, AMissingInterfaceIsNamed) {
  const auto arguments = ParseDeviceArguments("net_af_packet0;iface=nosuch0");
  ASSERT_TRUE(arguments.ok());
  const auto port = OpenPort(DpdkDevice{.text = "", .arguments = *arguments}, {}, nullptr);
  ASSERT_FALSE(port.ok());
  EXPECT_EQ(port.status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(port.status().message().find("nosuch0"), std::string::npos) << port.status();
}

}  // namespace
}  // namespace uroce::drivers
