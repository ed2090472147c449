// SPDX-License-Identifier: Apache-2.0
// DPDK's own driver as the peer of a memif.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rte_alarm.h>
#include <rte_dev.h>
#include <rte_ethdev.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

#include "tests/drivers/memif/memif_ends.h"

namespace uroce::drivers {
namespace {

/// DPDK's own driver as the peer, which answers from its own thread.
class DpdkPeerTest : public MemifPortTest {
 protected:
  void OpenPeer(const std::string& role) {
    const std::string name = "net_memif_" + role;
    const std::string options =
        ",socket-abstract=no,bsize=8192,role=" + role + ",socket=" + socket_;
    ASSERT_EQ(rte_dev_probe((name + options).c_str()), 0);
    ASSERT_EQ(rte_eth_dev_get_port_by_name(name.c_str(), &peer_), 0);
    const rte_eth_conf conf{};
    ASSERT_EQ(rte_eth_dev_configure(peer_, 1, 1, &conf), 0);
    ASSERT_EQ(rte_eth_rx_queue_setup(peer_, 0, 64, SOCKET_ID_ANY, nullptr, pool()), 0);
    ASSERT_EQ(rte_eth_tx_queue_setup(peer_, 0, 64, SOCKET_ID_ANY, nullptr), 0);
    ASSERT_EQ(rte_eth_dev_start(peer_), 0);
  }
  bool PeerIsUp() const {
    rte_eth_link link{};
    rte_eth_link_get_nowait(peer_, &link);
    return link.link_status == RTE_ETH_LINK_UP;
  }
  void ExchangeFrames(Port& ours) {
    while (!PeerIsUp() || !ours.Info().link_up) {
      ours.Maintain(AtOnce);
      std::this_thread::yield();
    }
    rte_mbuf* frame = nullptr;
    rte_eth_rx_burst(peer_, 0, &frame, 1);  // Its driver hands over empty buffers only now.
    for (uint32_t i = 0; i < 3000; ++i) {
      ASSERT_EQ(Send(ours, {Frame(i, 2000)}), 1);
      while (rte_eth_rx_burst(peer_, 0, &frame, 1) == 0) {
      }
      EXPECT_EQ(frame->pkt_len, 2000u);
      while (rte_eth_tx_burst(peer_, 0, &frame, 1) == 0) {
      }
      ASSERT_THAT(Receive(ours), testing::ElementsAre(2000));
    }
  }
  /// Its driver frees what a disconnect leaves on EAL's interrupt thread. Alarms fire there too:
  /// once one has, what that thread was at before is done.
  static void AwaitInterruptThread() {
    std::atomic<bool> done = false;
    const auto tell = [](void* flag) { *static_cast<std::atomic<bool>*>(flag) = true; };
    ASSERT_EQ(rte_eal_alarm_set(1, tell, &done), 0);
    while (!done) std::this_thread::yield();
  }
  void ClosePeer() {
    ASSERT_NO_FATAL_FAILURE(AwaitInterruptThread());
    rte_eth_dev_stop(peer_);
    rte_eth_dev_close(peer_);
  }

  uint16_t peer_ = 0;
};

TEST_F(DpdkPeerTest, DpdksClientSpeaksToOurServer) {
  server_ = Open("server");
  ASSERT_NO_FATAL_FAILURE(OpenPeer("client"));
  ExchangeFrames(*server_);
  ClosePeer();
  while (server_->Info().link_up) server_->Maintain(AtOnce);
}

TEST_F(DpdkPeerTest, OurClientSpeaksToDpdksServer) {
  ASSERT_NO_FATAL_FAILURE(OpenPeer("server"));
  client_ = Open("client");
  ExchangeFrames(*client_);
  client_.reset();
  while (PeerIsUp()) std::this_thread::yield();
  ClosePeer();
}

}  // namespace
}  // namespace uroce::drivers
