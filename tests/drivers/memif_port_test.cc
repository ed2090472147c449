// SPDX-License-Identifier: Apache-2.0
// Two ends of a memif in one process, the frames between them, peers that go and come, peers that
// lie, and DPDK's own driver as the peer.
#include "drivers/memif_port.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/memfd.h>
#include <poll.h>
#include <rte_dev.h>
#include <rte_ethdev.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "drivers/event_signal.h"
#include "drivers/memif_connection.h"
#include "drivers/memif_socket.h"
#include "tests/drivers/frame_pool.h"
#include "tests/drivers/stuck_fd.h"

namespace uroce::drivers {
namespace {

using testing::HasSubstr;

constexpr std::chrono::seconds kLong{60};

void AtOnce(absl::FunctionRef<void()> work) { work(); }

bool IsReadable(int fd) {
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

  DeviceArguments Arguments(const std::string& role, const std::string& more = "") const {
    const auto arguments =
        ParseDeviceArguments("net_memif0;role=" + role + ";socket=" + socket_ + ";rsize=5" + more);
    EXPECT_TRUE(arguments.ok()) << arguments.status();
    return *arguments;
  }
  std::unique_ptr<Port> Open(const std::string& role, const std::string& more = "") {
    auto port = OpenMemifPort(Arguments(role, more), pool());
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
  /// A server looks at a client's fds on a thread of its own.
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
  const std::pair<std::string, std::string> strangers[] = {{";id=3", "id 3 is not 0"},
                                                           {";secret=no", "wrong secret"}};
  server_ = Open("server");
  for (const auto& [options, reason] : strangers) {
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
    const auto arguments = ParseDeviceArguments("net_memif0;role=server;socket=" + path);
    return std::string(OpenMemifPort(*arguments, pool()).status().message());
  };
  EXPECT_THAT(complaint(socket_), HasSubstr("somebody listens there already"));
  EXPECT_THAT(complaint(directory_ + "/no/m.sock"),
              HasSubstr("the directory " + directory_ + "/no"));
  std::ofstream(directory_ + "/file") << "precious";
  EXPECT_THAT(complaint(directory_ + "/file"), HasSubstr("no socket"));
  EXPECT_TRUE(std::filesystem::exists(directory_ + "/file"));
  server_.reset();
  EXPECT_FALSE(std::filesystem::exists(socket_)) << "it leaves nothing behind";
}

/// A client that follows the protocol up to the rings, and then does as it likes.
class LyingClient : public MemifPortTest {
 protected:
  void ConnectLiar() {
    if (server_ == nullptr) server_ = Open("server");
    liar_ = std::make_unique<MemifConnection>(*ParseMemifConfig(Arguments("client")),
                                              ConnectMemif(socket_), &signal_, pool());
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
    const Fd stranger = ConnectMemif(socket_);
    const std::vector<uint8_t> bytes(size, 7);
    ASSERT_EQ(send(stranger.get(), bytes.data(), size, 0), static_cast<ssize_t>(size));
    Maintain();
    EXPECT_FALSE(server_->Info().link_up);
    EXPECT_NE(server_->Info().why_down, "no client yet");
  }
  client_ = Open("client");
  MaintainUntilUp();
}

/// A client that sends what it likes, with or without an fd.
class Stranger {
 public:
  explicit Stranger(const std::string& path) : socket_(ConnectMemif(path)) {}

  void Say(memif::MessageType type, int fd = -1) {
    memif::Message message{};
    message.type = type;
    if (type == memif::MessageType::kInit) message.init.version = memif::kVersion;
    if (type == memif::MessageType::kAddRegion) message.add_region.size_bytes = 4096;
    iovec part{&message, sizeof(message)};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    if (fd >= 0) {
      header.msg_control = control;
      header.msg_controllen = sizeof(control);
      cmsghdr* const rights = CMSG_FIRSTHDR(&header);
      *rights = {
          .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
      std::memcpy(CMSG_DATA(rights), &fd, sizeof(fd));
    }
    ASSERT_EQ(sendmsg(socket_.get(), &header, MSG_NOSIGNAL), ssize_t{sizeof(message)});
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
    Stranger stranger(socket_);
    for (const memif::MessageType type : lie.before) stranger.Say(type);
    stranger.Say(lie.type, lie.fd);
    std::string reason;
    const auto deadline = std::chrono::steady_clock::now() + kLong;
    while (reason.empty() && std::chrono::steady_clock::now() < deadline) {
      Maintain();
      reason = stranger.Reason();
    }
    EXPECT_THAT(reason, HasSubstr(lie.reason));
  }
}

TEST_F(LyingClient, PeersWhoseFdsHangAreOfABoundedNumberAndNobodyWaitsForThem) {
  using enum memif::MessageType;
  constexpr int kMost = 8;
  server_ = Open("server");
  StuckFd stuck[kMost];
  for (StuckFd& each : stuck) {
    {
      Stranger stranger(socket_);
      stranger.Say(kInit);
      stranger.Say(kAddRegion, each.fd.get());
      stranger.Say(kConnect, each.fd.get());
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

TEST(MemifMemoryTest, OnlyMemoryThatCannotShrinkIsMapped) {
  EXPECT_FALSE(MapMemifMemory(Fd(memfd_create("t", MFD_ALLOW_SEALING)), 4096).ok());
  EXPECT_FALSE(MapMemifMemory(Fd(), 4096).ok());
  auto memory = MakeMemifMemory(4096);
  ASSERT_TRUE(memory.ok());
  EXPECT_FALSE(MapMemifMemory(Fd(dup(memory->fd.get())), 4097).ok());
  EXPECT_FALSE(MapMemifMemory(Fd(dup(memory->fd.get())), 0).ok());
  EXPECT_TRUE(MapMemifMemory(Fd(dup(memory->fd.get())), 4096).ok());
  EXPECT_FALSE(IsEventFd(memory->fd.get()));
}

/// Huge pages that nobody has; 0 where there are none at all.
uint64_t FreeHugePages() {
  std::ifstream file("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
  uint64_t count = 0;
  file >> count;
  return count;
}

// A seal keeps the file's size, not its pages.
TEST(MemifMemoryTest, PagesThatThePeerTakesAwayAreZeros) {
  auto memory = MakeMemifMemory(8192);
  ASSERT_TRUE(memory.ok());
  memory->bytes()[0] = memory->bytes()[8191] = 7;
  ASSERT_TRUE(MappingGuard::Get().Strike(&memory->bytes()[100])) << "as on SIGBUS";
  EXPECT_EQ(memory->bytes()[0] + memory->bytes()[8191], 0);
  memory->bytes()[0] = 8;
  MappingGuard::Get().TakeStruck();
}

TEST(MemifMemoryTest, AHoleWhereThereIsNoHugePageIsZeros) {
  constexpr uint64_t kHuge = 2 << 20;
  constexpr uint64_t kMostPages = 8;  // That are taken from all others for a moment.
  const uint64_t before = FreeHugePages();
  if (before == 0 || before > kMostPages) {
    GTEST_SKIP() << "needs 1 to " << kMostPages << " free huge pages of 2 MB";
  }
  Fd file(memfd_create("t", MFD_ALLOW_SEALING | MFD_HUGETLB | MFD_HUGE_2MB));
  ASSERT_EQ(ftruncate(file.get(), kHuge), 0);
  ASSERT_EQ(fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  {
    const auto memory = MapMemifMemory(Fd(dup(file.get())), kHuge - 4096);
    ASSERT_TRUE(memory.ok()) << memory.status();
    memory->bytes()[0] = 7;
    ASSERT_EQ(fallocate(file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kHuge), 0);
    const uint64_t bytes = FreeHugePages() * kHuge;
    const Mapping all(mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_POPULATE, -1, 0),
                      bytes);
    ASSERT_NE(static_cast<void*>(all.data()), MAP_FAILED);
    EXPECT_EQ(memory->bytes()[0], 0);
    MappingGuard::Get().TakeStruck();
  }
  file.Reset();
  EXPECT_EQ(FreeHugePages(), before) << "the mapping is gone, though not of whole pages";
}

/// DPDK's own driver as the peer, which answers from a thread of its own.
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
  void ClosePeer() {
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
  while (PeerIsUp()) std::this_thread::yield();  // Its thread is not to meet the close.
  ClosePeer();
}

}  // namespace
}  // namespace uroce::drivers
