// SPDX-License-Identifier: Apache-2.0
// Peers of a memif that lie, in the rings and on the socket.
#include "drivers/memif/memif_connection.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "pipeline/os/event_signal.h"
#include "tests/drivers/memif/memif_ends.h"
#include "tests/drivers/send_fd.h"
#include "tests/drivers/stuck_fd.h"

namespace uroce::drivers {
namespace {

using testing::HasSubstr;

/// A client that follows the protocol up to the rings, and then does as it likes.
class LyingClient : public MemifPortTest {
 protected:
  void ConnectLiar() {
    if (server_ == nullptr) server_ = Open("server");
    liar_ = std::make_unique<MemifConnection>(ConfigOf("client"), ConnectMemif(socket_), &signal_,
                                              pool());
    while (liar_->state() == MemifConnection::State::kHandshake) {
      server_->Maintain(AtOnce);
      liar_->OnReadable();
    }
    Maintain();
    ASSERT_TRUE(server_->Info().link_up);
  }
  void TearDown() override {
    liar_.reset();
    MemifPortTest::TearDown();
  }
  /// The server must end the connection, with no other harm done.
  void ExpectEnd() {
    Send(*server_, {Frame(0)});
    Receive(*server_);
    Maintain();
    EXPECT_FALSE(server_->Info().link_up);
    EXPECT_THAT(server_->Info().why_down, HasSubstr("impossible"));
  }
  memif::RingHeader* RingTo(bool server) {
    auto* const region = liar_->memory().data();
    const size_t ring_bytes = sizeof(memif::RingHeader) + 32 * sizeof(memif::Descriptor);
    return reinterpret_cast<memif::RingHeader*>(region + (server ? 0 : ring_bytes));
  }
  static memif::Descriptor* SlotsOf(memif::RingHeader* ring) {
    return reinterpret_cast<memif::Descriptor*>(ring + 1);
  }

  EventSignal signal_ = *EventSignal::Make();
  std::unique_ptr<MemifConnection> liar_;
};

TEST_F(LyingClient, AnIndexBeyondTheRingEndsTheConnection) {
  ConnectLiar();
  RingTo(true)->head = 33;
  ExpectEnd();
  ConnectLiar();
  RingTo(false)->head = 40000;
  ExpectEnd();
}

TEST_F(LyingClient, ABufferOutsideTheSharedMemoryEndsTheConnection) {
  const memif::Descriptor lies[] = {
      {.flags = 0, .region = 1, .length_bytes = 64, .offset_bytes = 0, .metadata = 0},
      {.flags = 0, .region = 0, .length_bytes = 64, .offset_bytes = 0xffffffc0, .metadata = 0},
      {.flags = 0, .region = 0, .length_bytes = 0xffffffff, .offset_bytes = 4096, .metadata = 0},
      {.flags = 0, .region = 0xffff, .length_bytes = 1, .offset_bytes = 0, .metadata = 0}};
  for (const memif::Descriptor& lie : lies) {
    for (const bool to_server : {true, false}) {
      ConnectLiar();
      SlotsOf(RingTo(to_server))[0] = lie;
      RingTo(to_server)->head = 1;
      ExpectEnd();
      liar_.reset();
    }
  }
}

TEST_F(LyingClient, AFrameWithoutEndEndsTheConnection) {
  ConnectLiar();
  for (int i = 0; i < 32; ++i) SlotsOf(RingTo(true))[i].flags = memif::kFrameGoesOn;
  RingTo(true)->head = 32;
  ExpectEnd();
}

TEST_F(LyingClient, FramesOverManySlotsArriveWhole) {
  ConnectLiar();
  next_number_ = 0x5a5a5a5a;
  memif::Descriptor* const slots = SlotsOf(RingTo(true));
  for (uint16_t i = 0; i < 3; ++i) {
    slots[i] = {.flags = i < 2 ? memif::kFrameGoesOn : uint16_t{0},
                .region = 0,
                .length_bytes = 500,
                .offset_bytes = 10'000u * (i + 1),
                .metadata = 0};
    std::memset(liar_->memory().data() + slots[i].offset_bytes, 0x5a, 500);
  }
  RingTo(true)->head = 2;
  EXPECT_THAT(Receive(*server_), testing::IsEmpty()) << "its end has not come";
  RingTo(true)->head = 3;
  EXPECT_THAT(Receive(*server_), testing::ElementsAre(1500));
}

/// Has eventfds wait for the other side, and fills the counter of one.
void MakeBlocking(int event_fd) { ASSERT_EQ(fcntl(event_fd, F_SETFL, 0), 0); }
void Fill(int event_fd) {
  const uint64_t most = UINT64_MAX - 1;
  ASSERT_EQ(write(event_fd, &most, sizeof(most)), ssize_t{sizeof(most)});
}

/// Does `work`, and says whether it ended before `unblock` was called to end it.
bool EndsAlone(const std::function<void()>& work, const std::function<void()>& unblock) {
  std::packaged_task<void()> task(work);
  std::future<void> done = task.get_future();
  std::thread thread(std::move(task));
  const bool alone = done.wait_for(std::chrono::seconds(10)) == std::future_status::ready;
  if (!alone) unblock();
  thread.join();
  return alone;
}

TEST_F(LyingClient, AnEventfdWithoutEventsDoesNotHoldTheSleeperUp) {
  ConnectLiar();
  const int event = liar_->peer_event_fd();
  Receive(*server_);
  ASSERT_TRUE(server_->BeforeSleep(0));
  MakeBlocking(event);
  EXPECT_TRUE(EndsAlone([this] { server_->AfterSleep(0); },
                        [event] {
                          const uint64_t one = 1;
                          ASSERT_GT(write(event, &one, sizeof(one)), 0);
                        }));
}

TEST_F(LyingClient, AFullEventfdDoesNotHoldTheSenderUp) {
  ConnectLiar();
  const int event = liar_->event_fd();
  MakeBlocking(event);
  Fill(event);
  RingTo(false)->flags = 0;
  EXPECT_TRUE(EndsAlone([this] { EXPECT_EQ(Send(*server_, {Frame(0)}), 1); },
                        [event] {
                          uint64_t count = 0;
                          ASSERT_GT(read(event, &count, sizeof(count)), 0);
                        }));
  EXPECT_TRUE(IsReadable(event));
}

TEST_F(LyingClient, NonsenseOnTheControlSocketEndsTheConnection) {
  server_ = Open("server");
  for (const size_t size : {size_t{1}, size_t{128}, size_t{4000}}) {
    const Fd liar = ConnectMemif(socket_);
    const std::vector<uint8_t> bytes(size, 7);
    ASSERT_EQ(send(liar.get(), bytes.data(), size, 0), static_cast<ssize_t>(size));
    Maintain();
    EXPECT_FALSE(server_->Info().link_up);
    EXPECT_NE(server_->Info().why_down, "no client yet");
  }
  client_ = Open("client");
  MaintainUntilUp();
}

/// A client that sends what it likes, with or without an fd.
class LyingPeer {
 public:
  explicit LyingPeer(const std::string& path) : socket_(ConnectMemif(path)) {}

  void Say(memif::MessageType type, int fd = -1) {
    memif::Message message{};
    message.type = type;
    if (type == memif::MessageType::kInit) message.init.version = memif::kVersion;
    if (type == memif::MessageType::kAddRegion) message.add_region.size_bytes = 4096;
    const ssize_t sent = SendWithFd(socket_.get(), &message, sizeof(message), fd, MSG_NOSIGNAL);
    ASSERT_EQ(sent, ssize_t{sizeof(message)});
  }
  /// The reason of a server that has ended it; empty: it has not.
  std::string Reason() {
    memif::Message message{};
    while (recv(socket_.get(), &message, sizeof(message), MSG_DONTWAIT) > 0) {
      if (message.type == memif::MessageType::kDisconnect) return message.disconnect.reason;
    }
    return {};
  }

 private:
  Fd socket_;
};

TEST_F(LyingClient, AWrongFdEndsTheConnectionWithTheReason) {
  using enum memif::MessageType;
  const Fd file(memfd_create("t", MFD_CLOEXEC));
  struct Lie {
    std::vector<memif::MessageType> before;
    memif::MessageType type;
    int fd;
    std::string reason;
  };
  const Lie lies[] = {{{kInit}, kAddRegion, file.get(), "not sealed"},
                      {{kInit}, kAddRegion, -1, "without memory"},
                      {{kInit}, kAddRing, file.get(), "without an eventfd"},
                      {{kInit}, kAddRing, -1, "without an eventfd"},
                      {{}, kInit, file.get(), "out of turn"}};
  server_ = Open("server");
  for (const Lie& lie : lies) {
    LyingPeer liar(socket_);
    for (const memif::MessageType type : lie.before) liar.Say(type);
    liar.Say(lie.type, lie.fd);
    std::string reason;
    const auto deadline = std::chrono::steady_clock::now() + kLong;
    while (reason.empty() && std::chrono::steady_clock::now() < deadline) {
      Maintain();
      reason = liar.Reason();
    }
    EXPECT_THAT(reason, HasSubstr(lie.reason));
  }
}

TEST_F(LyingClient, PeersWhoseFdsHangAreOfABoundedNumberAndDelayNoPort) {
  using enum memif::MessageType;
  constexpr int kMost = 8;
  server_ = Open("server");
  StuckFd stuck[kMost];
  for (StuckFd& each : stuck) {
    {
      LyingPeer liar(socket_);
      liar.Say(kInit);
      liar.Say(kAddRegion, each.fd.get());
      liar.Say(kConnect, each.fd.get());
    }
    each.fd.Reset();
    EXPECT_TRUE(EndsAlone([this] { Maintain(); }, [&each] { each.peer.Reset(); }));
  }
  client_ = Open("client");
  Maintain();
  Maintain();
  EXPECT_FALSE(server_->Info().link_up) << "there is no room for it";
  EXPECT_FALSE(IsReadable(server_->maintain_fd())) << "though it waits";
  for (StuckFd& each : stuck) each.peer.Reset();
  MaintainUntilUp();
}

}  // namespace
}  // namespace uroce::drivers
