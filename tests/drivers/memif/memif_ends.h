// SPDX-License-Identifier: Apache-2.0
// Two ends of a memif in one process.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "drivers/memif/memif_port.h"
#include "tests/drivers/frame_pool.h"

namespace uroce::drivers {

inline constexpr std::chrono::seconds kLong{60};

inline void AtOnce(absl::FunctionRef<void()> work) { work(); }

inline bool IsReadable(int fd) {
  pollfd item{fd, POLLIN, 0};
  return poll(&item, 1, 0) == 1;
}

class MemifPortTest : public FramePoolTest {
 protected:
  void SetUp() override {
    FramePoolTest::SetUp();
    char directory[] = "/tmp/uroce-memif-test-XXXXXX";
    directory_ = mkdtemp(directory);
    socket_ = directory_ + "/m.sock";
  }
  void TearDown() override {
    server_.reset();
    client_.reset();
    std::filesystem::remove_all(directory_);
    FramePoolTest::TearDown();
  }

  static MemifConfig Parse(const std::string& options) {
    const auto config = ParseMemifConfig(ParseDeviceArguments("net_memif0;" + options).value());
    EXPECT_TRUE(config.ok()) << config.status();
    return *config;
  }
  MemifConfig ConfigOf(const std::string& role, const std::string& more = "") const {
    return Parse("role=" + role + ";socket=" + socket_ + ";rsize=5" + more);
  }
  std::unique_ptr<Port> Open(const std::string& role, const std::string& more = "") {
    auto port = OpenPort(ConfigOf(role, more), {}, pool());
    EXPECT_TRUE(port.ok()) << port.status();
    return *std::move(port);
  }
  /// Lets control look after both ends until nothing is left to read.
  void Maintain() {
    do {
      for (Port* port : {server_.get(), client_.get()}) {
        if (port != nullptr) port->Maintain(AtOnce);
      }
    } while ((server_ != nullptr && IsReadable(server_->maintain_fd())) ||
             (client_ != nullptr && IsReadable(client_->maintain_fd())));
  }
  /// A server looks at a client's fds on its own thread.
  void MaintainUntilUp() {
    const auto deadline = std::chrono::steady_clock::now() + kLong;
    while (!server_->Info().link_up || !client_->Info().link_up) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline)
          << server_->Info().why_down << ", " << client_->Info().why_down;
      Maintain();
      std::this_thread::yield();
    }
  }
  void Connect() {
    server_ = Open("server");
    client_ = Open("client");
    MaintainUntilUp();
  }
  uint16_t Send(Port& port, std::vector<rte_mbuf*> frames) {
    const auto count = static_cast<uint16_t>(frames.size());
    const uint16_t sent = port.TransmitBurst(0, frames.data(), count, now_);
    for (size_t i = sent; i < frames.size(); ++i) rte_pktmbuf_free(frames[i]);
    return sent;
  }
  /// Lengths of what arrives, in order; its contents are checked.
  std::vector<uint32_t> Receive(Port& port, uint16_t most = 64) {
    rte_mbuf* frames[64];
    const uint16_t count = port.ReceiveBurst(0, frames, most, now_);
    std::vector<uint32_t> lengths;
    for (uint16_t i = 0; i < count; ++i) {
      EXPECT_EQ(NumberOf(frames[i]), next_number_++);
      const auto* bytes = rte_pktmbuf_mtod(frames[i], const uint8_t*);
      for (uint16_t at = 4; at < frames[i]->data_len; ++at) EXPECT_EQ(bytes[at], 0x5a);
      lengths.push_back(frames[i]->pkt_len);
      rte_pktmbuf_free(frames[i]);
    }
    return lengths;
  }

  std::string directory_;
  std::string socket_;
  std::unique_ptr<Port> server_;
  std::unique_ptr<Port> client_;
  Nanos now_{1'000'000'000};
  uint32_t next_number_ = 0;
};

}  // namespace uroce::drivers
