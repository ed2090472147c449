// SPDX-License-Identifier: Apache-2.0
// Counters of a port in the units and under the names of the kernel.
#include "nic/devices/device_files.h"

#include <gtest/gtest.h>

namespace uroce::nic {
namespace {

// IBTA volume 1, section 16.1.3.5: PortRcvData and PortXmitData count octets divided by 4.
TEST(CounterFilesTest, DataIsCountedInWordsOfFourBytes) {
  auto files = CounterFiles({{"port_rcv_bytes", 4003}, {"port_xmit_bytes", 8}});
  EXPECT_EQ(files["counters/port_rcv_data"], 1000u);
  EXPECT_EQ(files["counters/port_xmit_data"], 2u);
  EXPECT_FALSE(files.contains("hw_counters/port_rcv_bytes"));
}

TEST(CounterFilesTest, UnicastIsWhatIsNotMulticast) {
  auto files = CounterFiles({{"port_rcv_packets", 10},
                             {"multicast_rcv_packets", 3},
                             {"port_xmit_packets", 1},
                             {"multicast_xmit_packets", 2}});
  EXPECT_EQ(files["counters/unicast_rcv_packets"], 7u);
  EXPECT_EQ(files["counters/multicast_rcv_packets"], 3u);
  EXPECT_EQ(files["counters/port_rcv_packets"], 10u);
  EXPECT_EQ(files["counters/unicast_xmit_packets"], 0u) << "never below 0";
}

TEST(CounterFilesTest, ErrorsOfReceptionAreAddedUpAndStandAlone) {
  auto files = CounterFiles({{"rx_malformed", 1},
                             {"rx_icrc_encapsulated", 20},
                             {"port_rcv_damaged", 300},
                             {"rx_bad_pkey", 4000}});
  EXPECT_EQ(files["counters/port_rcv_errors"], 321u);
  EXPECT_EQ(files["counters/port_rcv_constraint_errors"], 4000u);
  EXPECT_EQ(files["hw_counters/rx_icrc_encapsulated"], 20u);
}

TEST(CounterFilesTest, AllOtherCountersHaveTheirNamesOfMlx5) {
  auto files = CounterFiles({{"out_of_sequence", 5}, {"np_cnp_sent", 6}, {"queue_pairs", 7}});
  EXPECT_EQ(files["hw_counters/out_of_sequence"], 5u);
  EXPECT_EQ(files["hw_counters/np_cnp_sent"], 6u);
  EXPECT_FALSE(files.contains("hw_counters/queue_pairs")) << "no counter";
}

TEST(CounterFilesTest, WhatCannotHappenIsZeroAndWhatIsNotKnownIsMissing) {
  auto files = CounterFiles({});
  EXPECT_EQ(files.at("counters/symbol_error"), 0u);
  EXPECT_EQ(files.at("counters/VL15_dropped"), 0u);
  EXPECT_FALSE(files.contains("counters/port_xmit_wait"));
}

}  // namespace
}  // namespace uroce::nic
