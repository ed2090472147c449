// SPDX-License-Identifier: Apache-2.0
#include "pipeline/os/unix_socket.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "tests/drivers/send_fd.h"
#include "tests/drivers/stuck_fd.h"

namespace uroce::drivers {
namespace {

class UnixSocketPathTest : public testing::Test {
 protected:
  UnixSocketPathTest() {
    char name[] = "/tmp/uroce-test-XXXXXX";
    directory_ = mkdtemp(name);
    path_ = directory_ + "/socket";
  }
  ~UnixSocketPathTest() override {
    if (server_ >= 0) close(server_);
    std::filesystem::remove_all(directory_);
  }
  void Listen() {
    server_ = socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, sizeof(address.sun_path) - 1);
    ASSERT_EQ(bind(server_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    ASSERT_EQ(listen(server_, 1), 0);
  }
  void Die() {
    close(server_);
    server_ = -1;
  }
  static void ExpectError(const absl::Status& status, const char* hint) {
    EXPECT_NE(status.message().find(hint), std::string::npos) << status;
  }

  std::string directory_;
  std::string path_;
  int server_ = -1;
};

TEST_F(UnixSocketPathTest, AFreePathIsRightForAServerAndWrongForAClient) {
  EXPECT_TRUE(PrepareServerPath(path_).ok());
  ExpectError(CheckServerListens(path_), "no process listens there");
}

TEST_F(UnixSocketPathTest, ASocketThatADeadServerLeftIsRemoved) {
  Listen();
  Die();
  ExpectError(CheckServerListens(path_), "no process listens there");
  EXPECT_TRUE(PrepareServerPath(path_).ok());
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(UnixSocketPathTest, ALiveServerKeepsItsSocket) {
  Listen();
  EXPECT_TRUE(CheckServerListens(path_).ok());
  ExpectError(PrepareServerPath(path_), "another process listens there already");
  EXPECT_TRUE(std::filesystem::exists(path_));
}

TEST_F(UnixSocketPathTest, AFileIsNotTakenForASocket) {
  std::ofstream(path_) << "precious";
  ExpectError(PrepareServerPath(path_), "exists and is no socket");
  EXPECT_EQ(std::filesystem::file_size(path_), 8u);
}

TEST_F(UnixSocketPathTest, DirectoryAndLengthAreChecked) {
  ExpectError(PrepareServerPath(directory_ + "/missing/socket"), "No such file or directory");
  ExpectError(PrepareServerPath(directory_ + "/" + std::string(120, 'x')), "1 to 107 bytes");
  ExpectError(CheckServerListens(""), "1 to 107 bytes");
}

using Outcome = UntrustedSocket::Outcome;
constexpr std::chrono::seconds kLong{60};

/// Sends bytes, and with them an fd unless it is -1.
ssize_t Send(int socket, const char* text, int fd = -1) {
  return SendWithFd(socket, text, std::strlen(text), fd, MSG_NOSIGNAL | MSG_DONTWAIT);
}

class UntrustedSocketTest : public testing::Test {
 protected:
  UntrustedSocketTest() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    socket_ = std::make_unique<UntrustedSocket>(Fd(ends[0]), thread_);
    peer_end_.Reset(ends[1]);
  }
  UntrustedSocket::Received Receive() { return socket_->Receive(buffer_); }

  std::shared_ptr<SideThread> thread_ = std::make_shared<SideThread>();
  std::unique_ptr<UntrustedSocket> socket_;
  Fd peer_end_;
  std::array<uint8_t, 8> buffer_{};
};

TEST_F(UntrustedSocketTest, MessagesComeOneAfterTheOther) {
  EXPECT_EQ(Receive().outcome, Outcome::kNothing);
  Send(peer_end_.get(), "one");
  Send(peer_end_.get(), "longer than there is room for");
  EXPECT_EQ(Receive().bytes, 3u);
  EXPECT_EQ(buffer_[0], 'o');
  EXPECT_EQ(Receive().bytes, 29u);
  EXPECT_EQ(Receive().outcome, Outcome::kNothing);
  peer_end_.Reset();
  EXPECT_EQ(Receive().outcome, Outcome::kHangup);
}

TEST_F(UntrustedSocketTest, AMessageWithAnFdIsNotTaken) {
  StuckFd stuck;
  ASSERT_GT(Send(peer_end_.get(), "fd", stuck.fd.get()), 0);
  Send(peer_end_.get(), "behind");
  stuck.fd.Reset();
  EXPECT_EQ(Receive().outcome, Outcome::kFds);
  EXPECT_EQ(Receive().outcome, Outcome::kFds);
  socket_.reset();  // The thread hangs with it: this one does not.
  EXPECT_EQ(Send(peer_end_.get(), "gone"), -1);
  thread_.reset();
  EXPECT_FALSE(SideThread::AwaitAll(std::chrono::milliseconds(20)));
  stuck.peer.Reset();
  EXPECT_TRUE(SideThread::AwaitAll(kLong));
}

TEST_F(UntrustedSocketTest, WhatLiesBehindOtherMessagesAndADeadPeerIsFoundToo) {
  StuckFd stuck;
  Send(peer_end_.get(), "one");
  Send(peer_end_.get(), "two");
  ASSERT_GT(Send(peer_end_.get(), "fd", stuck.fd.get()), 0);
  send(socket_->fd(), "unread", 6, 0);  // So that the end of the peer is a reset.
  peer_end_.Reset();
  stuck.fd.Reset();
  socket_.reset();
  thread_.reset();
  EXPECT_FALSE(SideThread::AwaitAll(std::chrono::milliseconds(20)));
  stuck.peer.Reset();
  EXPECT_TRUE(SideThread::AwaitAll(kLong));
}

TEST_F(UntrustedSocketTest, OneWithoutFdsIsClosedAtOnce) {
  Send(peer_end_.get(), "unread");
  socket_.reset();
  pollfd end{.fd = peer_end_.get(), .events = 0, .revents = 0};
  EXPECT_EQ(poll(&end, 1, 0), 1);
  EXPECT_NE(end.revents & POLLHUP, 0);
}

}  // namespace
}  // namespace uroce::drivers
