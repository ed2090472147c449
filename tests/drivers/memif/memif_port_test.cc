// SPDX-License-Identifier: Apache-2.0
// Frames between the two ends of a memif, and ends that go and come.
#include "drivers/memif/memif_port.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "drivers/memif/memif_connection.h"
#include "pipeline/os/fd.h"
#include "tests/drivers/memif/memif_ends.h"

namespace uroce::drivers {
namespace {

using testing::HasSubstr;

TEST_F(MemifPortTest, FramesOfAllLengthsPassBothWaysInOrder) {
  Connect();
  for (Port* from : {client_.get(), server_.get()}) {
    Port& to = from == client_.get() ? *server_ : *client_;
    next_number_ = 0;
    uint32_t sent = 0;
    // Many times around the ring, and past the wrap of its 16-bit indices.
    for (int turn = 0; turn < 8000; ++turn) {
      const auto length = static_cast<uint16_t>(4 + turn % 2044);
      ASSERT_EQ(Send(*from, {Frame(sent, 60), Frame(sent + 1, length)}), 2);
      sent += 2;
      ASSERT_THAT(Receive(to), testing::ElementsAre(60, length));
    }
    EXPECT_EQ(next_number_, sent);
  }
}

TEST_F(MemifPortTest, AFullRingHoldsTheSenderBackAndLosesNothing) {
  Connect();
  for (Port* from : {client_.get(), server_.get()}) {
    Port& to = from == client_.get() ? *server_ : *client_;
    next_number_ = 0;
    uint16_t sent = 0;
    while (from->TransmitRoom(0) != 0)
      sent = static_cast<uint16_t>(sent + Send(*from, {Frame(sent)}));
    EXPECT_EQ(sent, 32);
    EXPECT_EQ(Send(*from, {Frame(99)}), 0);
    EXPECT_EQ(Receive(to, 10).size(), 10u);
    EXPECT_EQ(from->TransmitRoom(0), 10);
    EXPECT_EQ(Receive(to).size(), 22u);
    EXPECT_EQ(from->counters().tx_discards, 0u);
  }
}

TEST_F(MemifPortTest, APeerThatTakesNothingForLongCostsCountedFramesOnly) {
  Connect();
  while (client_->TransmitRoom(0) != 0) Send(*client_, {Frame(next_number_)});
  Receive(*client_);
  now_ = now_ + Nanos(900'000'000);
  Receive(*client_);
  EXPECT_EQ(client_->TransmitRoom(0), 0);
  now_ = now_ + Nanos(200'000'000);
  Receive(*client_);
  EXPECT_GT(client_->TransmitRoom(0), 0);
  EXPECT_EQ(Send(*client_, {Frame(1), Frame(2)}), 2);
  EXPECT_EQ(client_->counters().tx_discards, 2u);
}

TEST_F(MemifPortTest, WithoutAPeerTheLinkIsDownAndFramesAreDroppedAndCounted) {
  client_ = Open("client");
  Maintain();
  EXPECT_FALSE(client_->Info().link_up);
  EXPECT_EQ(client_->Info().why_down, "no server yet");
  EXPECT_GT(client_->TransmitRoom(0), 0);
  EXPECT_EQ(Send(*client_, {Frame(0), Frame(1)}), 2);
  EXPECT_EQ(client_->counters().tx_discards, 2u);
  EXPECT_TRUE(client_->BeforeSleep(0));
}

TEST_F(MemifPortTest, EitherEndMayGoAndComeBack) {
  Connect();
  for (int round = 0; round < 20; ++round) {
    next_number_ = 0;
    Send(*client_, {Frame(0)});  // Lost with the connection.
    std::unique_ptr<Port>& leaves = round % 2 == 0 ? server_ : client_;
    leaves.reset();
    Maintain();
    EXPECT_FALSE((server_ ? server_ : client_)->Info().link_up);
    leaves = Open(round % 2 == 0 ? "server" : "client");
    ASSERT_NO_FATAL_FAILURE(MaintainUntilUp());
    EXPECT_THAT(Receive(*server_), testing::IsEmpty());
    ASSERT_EQ(Send(*client_, {Frame(0)}), 1);
    EXPECT_EQ(Receive(*server_).size(), 1u);
    ASSERT_EQ(Send(*server_, {Frame(1)}), 1);
    EXPECT_EQ(Receive(*client_).size(), 1u);
  }
}

TEST_F(MemifPortTest, ASleeperIsWokenByTheFirstFrameAndByNoOther) {
  Connect();
  for (Port* sleeper : {server_.get(), client_.get()}) {
    Port& other = sleeper == server_.get() ? *client_ : *server_;
    next_number_ = 0;
    Receive(*sleeper);
    EXPECT_TRUE(sleeper->BeforeSleep(0));
    EXPECT_NE(sleeper->NextDeadline(0), kNever) << "a sender without a fence may have missed it";
    EXPECT_FALSE(IsReadable(sleeper->wait_fd(0)));
    sleeper->AfterSleep(0);
    Receive(*sleeper);
    EXPECT_TRUE(sleeper->BeforeSleep(0));
    EXPECT_EQ(sleeper->NextDeadline(0), kNever) << "no need to look twice";
    Send(other, {Frame(0)});
    EXPECT_TRUE(IsReadable(sleeper->wait_fd(0)));
    sleeper->AfterSleep(0);
    EXPECT_EQ(Receive(*sleeper).size(), 1u);
    Send(other, {Frame(1)});
    EXPECT_FALSE(IsReadable(sleeper->wait_fd(0))) << "one that is awake needs no system call";
    EXPECT_FALSE(sleeper->BeforeSleep(0)) << "a frame is there";
    sleeper->AfterSleep(0);
    EXPECT_EQ(Receive(*sleeper).size(), 1u);
  }
}

TEST_F(MemifPortTest, AFrameLongerThanAnMbufIsDroppedAndCounted) {
  Connect();
  // The pool's mbufs hold 2048 bytes; the rings carry more.
  auto big = MakePool("big", 9000, 16);
  ASSERT_TRUE(big.ok());
  rte_mbuf* frame = rte_pktmbuf_alloc(*big);
  frame->data_len = 2049;
  frame->pkt_len = 2049;
  EXPECT_EQ(client_->TransmitBurst(0, &frame, 1, now_), 1);
  Send(*client_, {Frame(0)});
  EXPECT_THAT(Receive(*server_), testing::ElementsAre(64));
  EXPECT_EQ(server_->counters().rx_missed, 1u);
  rte_mempool_free(*big);
}

TEST_F(MemifPortTest, WhoDoesNotFitIsTurnedAwayWithTheReason) {
  const std::pair<std::string, std::string> refused[] = {{";id=3", "id 3 is not 0"},
                                                         {";secret=no", "wrong secret"}};
  server_ = Open("server");
  for (const auto& [options, reason] : refused) {
    client_ = Open("client", options);
    Maintain();
    EXPECT_FALSE(client_->Info().link_up);
    EXPECT_THAT(client_->Info().why_down, HasSubstr(reason));
  }
  client_ = Open("client");
  ASSERT_NO_FATAL_FAILURE(MaintainUntilUp());
  auto third = Open("client");
  third->Maintain(AtOnce);
  Maintain();
  third->Maintain(AtOnce);
  EXPECT_THAT(third->Info().why_down, HasSubstr("already connected"));
  EXPECT_TRUE(client_->Info().link_up);
}

TEST_F(MemifPortTest, AServerTakesAStaleSocketButNothingElse) {
  { const Fd stale = *ListenForMemif(socket_); }
  server_ = Open("server");
  const auto complaint = [this](const std::string& path) {
    return std::string(
        OpenPort(Parse("role=server;socket=" + path), {}, pool()).status().message());
  };
  EXPECT_THAT(complaint(socket_), HasSubstr("another process listens there already"));
  EXPECT_THAT(complaint(directory_ + "/no/m.sock"),
              HasSubstr("the directory " + directory_ + "/no"));
  std::ofstream(directory_ + "/file") << "precious";
  EXPECT_THAT(complaint(directory_ + "/file"), HasSubstr("no socket"));
  EXPECT_TRUE(std::filesystem::exists(directory_ + "/file"));
  server_.reset();
  EXPECT_FALSE(std::filesystem::exists(socket_)) << "it leaves nothing behind";
}

/// While it lives, this process may open `spare` fds and no more.
class FewFds {
 public:
  explicit FewFds(rlim_t spare) {
    getrlimit(RLIMIT_NOFILE, &before_);
    const Fd next(dup(STDERR_FILENO));  // The lowest that is free; those above it are free too.
    const rlimit few{static_cast<rlim_t>(next.get()) + spare, before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &few);
  }
  ~FewFds() { setrlimit(RLIMIT_NOFILE, &before_); }
  FewFds(const FewFds&) = delete;
  FewFds& operator=(const FewFds&) = delete;

 private:
  rlimit before_{};
};

// Once it listens, any process may connect and send fds, whose close may hang: nothing fails after
// that.
TEST_F(MemifPortTest, AServerThatCannotBeMadeHasNeverListened) {
  const MemifConfig config = Parse("role=server;socket=" + socket_);
  int failures = 0;
  for (rlim_t spare = 0; spare < 16; ++spare) {
    absl::Status status;
    {
      const FewFds few(spare);
      status = OpenPort(config, {}, pool()).status();
    }
    if (status.ok()) break;
    ++failures;
    EXPECT_FALSE(std::filesystem::exists(socket_)) << spare << " fds: " << status;
  }
  EXPECT_GE(failures, 2);
}

}  // namespace
}  // namespace uroce::drivers
