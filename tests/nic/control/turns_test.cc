// SPDX-License-Identifier: Apache-2.0
// What a program may have of the control thread in one turn, and of the daemon for good.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <future>
#include <latch>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

#include "nic/objects/nic.h"
#include "nic/objects/numbers.h"
#include "nic/objects/program.h"
#include "nic/objects/regions.h"
#include "pipeline/datapath/worker/worker.h"
#include "tests/nic/control/client.h"
#include "tests/nic/control/hand_daemon.h"
#include "tests/nic/control/memory/lending.h"

namespace uroce::nic {
namespace {

constexpr uint32_t kQueuePairs = 512;
constexpr uint32_t kMappings = 4;
constexpr uint32_t kSockets = 24;

struct Nothing {};

class ControlTurnsTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    daemon_ = new HandDaemon({.sockets_per_user = kSockets, .mappings_per_user = kMappings});
  }
  static void TearDownTestSuite() { delete daemon_; }

  ~ControlTurnsTest() override {
    clients_.clear();
    daemon_->TurnUntil([] { return daemon_->server().connection_count() == 0; });
  }

  ControlClient& Connect() {
    clients_.push_back(std::make_unique<ControlClient>(daemon_->socket_path()));
    const size_t before = daemon_->server().connection_count();
    daemon_->TurnUntil([&] { return daemon_->server().connection_count() > before; });
    return *clients_.back();
  }
  ControlClient& ConnectProgram() {
    ControlClient& client = Connect();
    Call(client, UROCE_HELLO, uroce_hello{UROCE_ABI_VERSION, 0});
    return client;
  }
  template <typename T>
  static std::vector<uint8_t> Bytes(const T& value) {
    if constexpr (std::is_empty_v<T>) return {};
    const auto* bytes = reinterpret_cast<const uint8_t*>(&value);
    return {bytes, bytes + sizeof(value)};
  }
  template <typename T>
  Answer Call(ControlClient& client, uint32_t command, const T& body) {
    client.Post(command, Bytes(body));
    Answer answer;
    daemon_->TurnUntil([&] {
      answer = client.Receive(MSG_DONTWAIT);
      return !answer.hung_up;
    });
    return answer;
  }
  static uint32_t AnswersOf(ControlClient& client) {
    uint32_t count = 0;
    while (!client.Receive(MSG_DONTWAIT).hung_up) ++count;
    return count;
  }
  /// A program with many queue pairs: to describe them takes long. Returns its context.
  uint32_t MakeQueuePairs(uint32_t count, uint32_t type = IBV_QPT_RC) {
    ControlClient& client = ConnectProgram();
    const uint32_t context = Call(client, UROCE_OPEN_CONTEXT, uroce_open_context{}).handle();
    const uint32_t pd = Call(client, UROCE_ALLOC_PD, uroce_handle{context, 0}).handle();
    const uint32_t cq =
        Call(client, UROCE_CREATE_CQ, uroce_create_cq{context, 16, 1, UROCE_NONE, 0}).handle();
    for (uint32_t i = 0; i < count; ++i) {
      const Answer made =
          Call(client, UROCE_CREATE_QP, uroce_create_qp{pd, type, cq, cq, 1, 0, {1, 1, 1, 1, 0}});
      EXPECT_EQ(made.error, 0) << made.text;
    }
    return context;
  }

  static inline HandDaemon* daemon_;
  std::vector<std::unique_ptr<ControlClient>> clients_;
};

TEST_F(ControlTurnsTest, RequestsAreReadAsTheirRepliesAre) {
  constexpr int kRequests = 30;
  ControlClient& client = ConnectProgram();
  for (int i = 0; i < kRequests; ++i) {
    client.Post(UROCE_LIST_DEVICES, {});
    daemon_->Turn();
  }
  EXPECT_FALSE(client.Receive(MSG_DONTWAIT).hung_up);
  ASSERT_TRUE(client.Receive(MSG_DONTWAIT).hung_up) << "a second reply before the first is read";
  int replies = 1;
  daemon_->TurnUntil([&] {
    while (!client.Receive(MSG_DONTWAIT).hung_up) ++replies;
    return replies == kRequests || daemon_->server().connection_count() == 0;
  });
  EXPECT_EQ(replies, kRequests);
}

TEST_F(ControlTurnsTest, AClientThatReadsNoReplyHasOneWithFds) {
  ControlClient& client = ConnectProgram();
  const uint64_t& sockets = daemon_->nic().user(geteuid()).sockets.used;
  for (int i = 0; i < 20; ++i) {
    client.Post(UROCE_OPEN_CONTEXT, Bytes(uroce_open_context{}));
    daemon_->Turn();
  }
  EXPECT_EQ(sockets, 1u);
  ControlClient& other = ConnectProgram();
  EXPECT_EQ(Call(other, UROCE_OPEN_CONTEXT, uroce_open_context{}).error, 0) << "others go on";
}

TEST_F(ControlTurnsTest, UnreadDumpsAreBounded) {
  ControlClient& tool = Connect();
  std::vector<Fd> readers;
  int error = 0;
  for (uint32_t i = 0; i <= kSockets && error == 0; ++i) {
    Answer answer = Call(tool, UROCE_DUMP, uroce_dump{UROCE_DUMP_DEVICES, 0});
    error = answer.error;
    if (error == 0) readers.push_back(std::move(answer.fds.at(0)));
    for (int turn = 0; turn < 10; ++turn) daemon_->Turn();  // All is sent, and nothing is read.
  }
  EXPECT_EQ(error, ENOMEM);
  EXPECT_EQ(readers.size(), kSockets / 3);
  char piece[65536];
  while (read(readers.front().get(), piece, sizeof(piece)) > 0) continue;
  EXPECT_EQ(Call(tool, UROCE_DUMP, uroce_dump{UROCE_DUMP_DEVICES, 0}).error, 0) << "one is read";
  readers.clear();
  Call(tool, UROCE_DUMP, uroce_dump{UROCE_DUMP_DEVICES, 0});
  EXPECT_LE(daemon_->nic().user(geteuid()).sockets.used, 6u) << "the others are closed";
}

// The kernel takes 25 ms to make 64 MB of pages.
TEST_F(ControlTurnsTest, NoTurnMakesThePagesOfACapture) {
  constexpr uroce_capture kRequest{.ring_bytes = 64 << 20};
  ControlClient& client = Connect();
  client.Post(UROCE_CAPTURE, Bytes(kRequest));
  daemon_->Turn(10);
  EXPECT_TRUE(client.Receive(MSG_DONTWAIT).hung_up);
  Answer answer;
  daemon_->TurnUntil([&] { return !(answer = client.Receive(MSG_DONTWAIT)).hung_up; });
  EXPECT_EQ(answer.error, 0) << answer.text;
  EXPECT_EQ(answer.fds.size(), 1u);
  EXPECT_GE(answer.As<uroce_capture_reply>().ring_bytes, kRequest.ring_bytes);
}

TEST_F(ControlTurnsTest, TheMemoryOfCapturesIsThatOfTheirUser) {
  constexpr uroce_capture kRequest{.ring_bytes = 1 << 20};
  Quota& memory = daemon_->nic().user(geteuid()).memory;
  const uint64_t limit = std::exchange(memory.limit, 2 * kRequest.ring_bytes);
  EXPECT_EQ(Call(Connect(), UROCE_CAPTURE, kRequest).error, 0);
  EXPECT_GE(memory.used, kRequest.ring_bytes);
  const Answer refused = Call(Connect(), UROCE_CAPTURE, kRequest);
  EXPECT_EQ(refused.error, ENOMEM) << refused.text;
  memory.limit = limit;
  Connect().Post(UROCE_CAPTURE, Bytes(kRequest));  // It has gone before there is a reply.
  daemon_->Turn(10);
  clients_.clear();
  daemon_->TurnUntil([&] { return memory.used == 0; });
  EXPECT_EQ(Call(Connect(), UROCE_CAPTURE, kRequest).error, 0);
}

TEST_F(ControlTurnsTest, ASocketOfAnEndedContextCountsWhileItsEventsAreUnread) {
  ControlClient& client = ConnectProgram();
  const uint64_t& sockets = daemon_->nic().user(geteuid()).sockets.used;
  const Answer opened = Call(client, UROCE_OPEN_CONTEXT, uroce_open_context{});
  const Nic& nic = daemon_->nic();
  daemon_->nic().programs().begin()->second->contexts().RaisePortEvent(*nic.devices()[0],
                                                                       IBV_EVENT_PORT_ERR);
  EXPECT_EQ(Call(client, UROCE_CLOSE_CONTEXT, uroce_handle{opened.handle(), 0}).error, 0);
  EXPECT_EQ(sockets, 1u);
  uroce_event_record record{};
  EXPECT_EQ(read(opened.fds[0].get(), &record, sizeof(record)), ssize_t{sizeof(record)});
  EXPECT_EQ(read(opened.fds[0].get(), &record, sizeof(record)), 0) << "its end";
  Call(client, UROCE_OPEN_CONTEXT, uroce_open_context{});
  EXPECT_EQ(sockets, 1u) << "of the new context";
}

TEST_F(ControlTurnsTest, AFloodOfCommandsGetsSixteenInATurn) {
  ControlClient& flooder = ConnectProgram();
  ControlClient& other = ConnectProgram();
  for (int i = 0; i < 40; ++i) flooder.Post(UROCE_LIST_DEVICES, {});
  other.Post(UROCE_LIST_DEVICES, {});
  daemon_->Turn();
  EXPECT_EQ(AnswersOf(other), 1u);
  const uint32_t answered = AnswersOf(flooder);
  EXPECT_GE(answered, 1u);
  EXPECT_LE(answered, 16u);
  uint32_t rest = 0;
  daemon_->TurnUntil([&] { return (rest += AnswersOf(flooder)) == 40 - answered; });
}

TEST_F(ControlTurnsTest, AContextOfManyObjectsIsClosedInPieces) {
  const uint32_t context = MakeQueuePairs(kQueuePairs);
  ControlClient& closing = *clients_.back();
  ControlClient& other = ConnectProgram();
  const Numbers& numbers = daemon_->nic().numbers();
  closing.Post(UROCE_CLOSE_CONTEXT, Bytes(uroce_handle{context, 0}));
  daemon_->Turn();
  EXPECT_NE(numbers.queue_pairs.held(), 0u) << "one turn ends all";
  EXPECT_TRUE(closing.Receive(MSG_DONTWAIT).hung_up) << "no answer yet";
  EXPECT_EQ(Call(other, UROCE_LIST_DEVICES, Nothing{}).error, 0);
  Answer answer;
  daemon_->TurnUntil([&] { return !(answer = closing.Receive(MSG_DONTWAIT)).hung_up; });
  EXPECT_EQ(answer.error, 0) << answer.text;
  EXPECT_EQ(numbers.queue_pairs.held(), 0u);
  EXPECT_EQ(Call(closing, UROCE_CLOSE_CONTEXT, uroce_handle{context, 0}).error, ENOENT);
}

// To populate them on another thread would take longer than a worker that makes the pages.
TEST_F(ControlTurnsTest, FewPagesAreRegisteredWithoutAnotherThread) {
  constexpr uint64_t kAddr = 0x10000, kFew = 64 << 10;
  ControlClient& client = ConnectProgram();
  const uint32_t context = Call(client, UROCE_OPEN_CONTEXT, uroce_open_context{}).handle();
  const uint32_t pd = Call(client, UROCE_ALLOC_PD, uroce_handle{context, 0}).handle();
  const uint32_t segment =
      Call(client, UROCE_CREATE_SEGMENT, uroce_create_segment{kAddr, kFew}).handle();
  const struct {
    uroce_reg_mr region;
    uroce_mr_segment segment;
  } request{{pd, 7, kAddr, kFew, kAddr, 1, UROCE_NONE},
            {kAddr, kFew, UROCE_MR_MAPPED, segment, 0, 0, 0}};
  client.Post(UROCE_REG_MR, Bytes(request));
  daemon_->Turn();
  const Answer answer = client.Receive(MSG_DONTWAIT);
  ASSERT_FALSE(answer.hung_up) << "another thread has it";
  EXPECT_EQ(answer.error, 0) << answer.text;
}

// The program decides how long that takes: the control thread may not wait for it.
TEST(RegistrationTest, ManyPagesOrAnOwnFileArePopulatedOnAnotherThread) {
  MemoryObject memory;
  const auto add_part = [&memory](uint64_t bytes, datapath::MrMode mode) {
    memory.region.segments.push_back({.length_bytes = bytes, .mode = mode});
  };
  add_part(32 << 10, datapath::MrMode::kMapped);
  add_part(1 << 30, datapath::MrMode::kCopied);
  add_part(32 << 10, datapath::MrMode::kMapped);
  EXPECT_FALSE(NeedsPopulating(memory)) << "copied parts have no pages here";
  memory.segments.push_back(std::make_shared<Segment>());
  EXPECT_FALSE(NeedsPopulating(memory));
  memory.segments.back()->is_own_file = true;
  EXPECT_TRUE(NeedsPopulating(memory));
  memory.segments.back()->is_own_file = false;
  add_part(4 << 10, datapath::MrMode::kMapped);
  EXPECT_TRUE(NeedsPopulating(memory));
}

// The last step of CLOSE_CONTEXT: the regions are hidden by then, and their parts still count.
TEST_F(ControlTurnsTest, RegionsOfAClosedContextAreReleasedInPieces) {
  constexpr uint32_t kRegions = 20'000;
  constexpr uint64_t kAddr = 0x10000;
  ControlClient& client = Connect();
  const Answer hello = Call(client, UROCE_HELLO, uroce_hello{UROCE_ABI_VERSION, 0});
  const int lend_socket = hello.fds.at(2).get();
  const Fd memory(open("/proc/self/mem", O_RDWR | O_CLOEXEC));
  SendLend(lend_socket, LendMemory(), memory.get(), sizeof(uroce_lend));
  uroce_lend_reply lent{};
  daemon_->TurnUntil([&] { return recv(lend_socket, &lent, sizeof(lent), MSG_DONTWAIT) > 0; });
  ASSERT_EQ(lent.error, 0);
  const uint32_t context = Call(client, UROCE_OPEN_CONTEXT, uroce_open_context{}).handle();
  const uint32_t pd = Call(client, UROCE_ALLOC_PD, uroce_handle{context, 0}).handle();
  const struct {
    uroce_reg_mr region;
    uroce_mr_segment segment;
  } request{{pd, 7, kAddr, 8, kAddr, 1, UROCE_NONE},
            {kAddr, 8, UROCE_MR_COPIED, UROCE_NONE, 0, UROCE_WHY_STACK, 0}};
  for (uint32_t i = 0; i < kRegions; ++i) {
    ASSERT_EQ(Call(client, UROCE_REG_MR, request).error, 0) << i;
  }
  const UserAccount& user = daemon_->nic().user(geteuid());
  ASSERT_EQ(user.of(Kind::kMrPart).used, kRegions);
  client.Post(UROCE_CLOSE_CONTEXT, Bytes(uroce_handle{context, 0}));
  daemon_->TurnUntil([&] { return user.of(Kind::kMr).used == 0; });
  EXPECT_NE(user.of(Kind::kMrPart).used, 0u) << "one turn releases all";
  clients_.clear();
  daemon_->TurnUntil([] { return daemon_->server().connection_count() == 0; });
  EXPECT_EQ(user.of(Kind::kMrPart).used, 0u);
}

TEST_F(ControlTurnsTest, AProgramThatEndsWhileItsContextIsClosedLeavesNothing) {
  const uint32_t context = MakeQueuePairs(kQueuePairs);
  clients_.back()->Post(UROCE_CLOSE_CONTEXT, Bytes(uroce_handle{context, 0}));
  daemon_->Turn();
  clients_.pop_back();
  daemon_->TurnUntil([] { return daemon_->server().connection_count() == 0; });
  EXPECT_EQ(daemon_->Held(), "");
}

/// What a socket holds. Empty: nothing now; `is_end`: and nothing ever.
std::string TakeAll(int socket, bool& is_end) {
  std::string text;
  char piece[65536];
  ssize_t got = 0;
  while ((got = read(socket, piece, sizeof(piece))) > 0) text.append(piece, got);
  is_end = got == 0;
  return text;
}

TEST_F(ControlTurnsTest, ALongDumpComesInPiecesAndOthersAreServedInBetween) {
  MakeQueuePairs(kQueuePairs);
  ControlClient& tool = Connect();
  ControlClient& other = ConnectProgram();
  const Answer answer = Call(tool, UROCE_DUMP, uroce_dump{UROCE_DUMP_QP, 0});
  ASSERT_EQ(answer.fds.size(), 1u);
  const int socket = answer.fds[0].get();
  ASSERT_EQ(fcntl(socket, F_SETFL, O_NONBLOCK), 0);
  // The program does not read: replies that do not fit the socket wait, and no other program does.
  for (int i = 0; i < 50; ++i) Call(other, UROCE_LIST_DEVICES, Nothing());
  bool is_end = false;
  std::string text = TakeAll(socket, is_end);
  EXPECT_FALSE(is_end);
  int room_bytes = 0;  // Both ends have as much.
  socklen_t length = sizeof(room_bytes);
  ASSERT_EQ(getsockopt(socket, SOL_SOCKET, SO_SNDBUF, &room_bytes, &length), 0);
  EXPECT_LE(text.size(), static_cast<size_t>(room_bytes));
  daemon_->TurnUntil([&] {
    text += TakeAll(socket, is_end);
    return is_end;
  });
  const auto dump = nlohmann::json::parse(text);
  EXPECT_EQ(dump["qps"].size(), kQueuePairs);
}

TEST_F(ControlTurnsTest, ADumpOfAClientThatHasGoneEnds) {
  MakeQueuePairs(kQueuePairs);
  ControlClient& tool = Connect();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Call(tool, UROCE_DUMP, uroce_dump{UROCE_DUMP_QP, 0}).error, 0);
  }
  const Answer last = Call(tool, UROCE_DUMP, uroce_dump{UROCE_DUMP_DEVICES, 0});
  ASSERT_EQ(last.fds.size(), 1u);
  ASSERT_EQ(fcntl(last.fds[0].get(), F_SETFL, O_NONBLOCK), 0);
  bool is_end = false;
  daemon_->TurnUntil([&] {
    TakeAll(last.fds[0].get(), is_end);
    return is_end;
  });
}

TEST_F(ControlTurnsTest, WhatAProgramHeldComesBackWhenItHasLeft) {
  MakeQueuePairs(kQueuePairs);
  EXPECT_EQ(daemon_->nic().numbers().queue_pairs.held(), kQueuePairs);
  clients_.clear();
  daemon_->TurnUntil([] { return daemon_->server().connection_count() == 0; });
  EXPECT_EQ(daemon_->nic().numbers().queue_pairs.held(), 0u);
  EXPECT_EQ(daemon_->nic().numbers().queue_pairs.count_on(0), 0u);
}

TEST_F(ControlTurnsTest, AProgramOfManyObjectsEndsInPieces) {
  constexpr uint32_t kMany = 4096;
  MakeQueuePairs(kMany);
  ControlClient& other = ConnectProgram();
  const Numbers& numbers = daemon_->nic().numbers();
  clients_.erase(clients_.begin());
  while (numbers.queue_pairs.held() == kMany) daemon_->Turn();
  EXPECT_NE(numbers.queue_pairs.held(), 0u) << "one turn ends all";
  EXPECT_EQ(Call(other, UROCE_LIST_DEVICES, Nothing{}).error, 0);
  daemon_->TurnUntil([] { return daemon_->server().connection_count() == 1; });
  EXPECT_EQ(numbers.queue_pairs.held(), 0u);
  EXPECT_EQ(numbers.queue_pairs.count_on(0), 0u);
}

TEST_F(ControlTurnsTest, QuotasOfWhatAllUsersShareHaveItsPool) {
  constexpr uid_t kUser = 61000;
  for (const uid_t uid : {kUser, uid_t{0}}) {
    UserAccount& user = daemon_->nic().user(uid);
    for (const Quota* quota : {&user.mappings, &user.memory, &user.queue_bytes, &user.of(Kind::kMr),
                               &user.of(Kind::kMw)}) {
      ASSERT_NE(quota->pool, nullptr) << quota->flag;
      EXPECT_GT(quota->pool->size, quota->pool->reserve);
      EXPECT_EQ(quota->is_privileged, uid == 0) << quota->flag;
    }
  }
}

// A region keeps the mapping of a segment that its program has given back: without its own count
// one user could take all that vm.max_map_count allows the daemon.
TEST_F(ControlTurnsTest, MappingsOfAUserAreCountedThoughTheirSegmentsAreGone) {
  constexpr uint64_t kAddr = 0x10000, kLength = 4 << 20;
  ControlClient& client = ConnectProgram();
  const uint32_t context = Call(client, UROCE_OPEN_CONTEXT, uroce_open_context{}).handle();
  const uint32_t pd = Call(client, UROCE_ALLOC_PD, uroce_handle{context, 0}).handle();
  const auto make_segment = [&] {
    return Call(client, UROCE_CREATE_SEGMENT, uroce_create_segment{kAddr, kLength});
  };
  uint32_t region = 0;
  for (uint32_t i = 0; i < kMappings; ++i) {
    const uint32_t segment = make_segment().handle();
    struct {
      uroce_reg_mr request;
      uroce_mr_segment segment;
    } message{};
    message.request = {pd, IBV_ACCESS_LOCAL_WRITE, kAddr, kLength, kAddr, 1, UROCE_NONE};
    message.segment = {kAddr, kLength, UROCE_MR_MAPPED, segment, 0, 0, 0};
    const Answer made = Call(client, UROCE_REG_MR, message);
    ASSERT_EQ(made.error, 0) << made.text;
    region = made.As<uroce_reg_mr_reply>().handle;
    ASSERT_EQ(Call(client, UROCE_DESTROY_SEGMENT, uroce_handle{segment, 0}).error, 0);
  }
  const Answer refused = make_segment();
  EXPECT_EQ(refused.error, ENOMEM);
  EXPECT_NE(refused.text.find("--max-mappings-per-user"), std::string::npos) << refused.text;
  EXPECT_EQ(daemon_->nic().numbers().keys.held(), kMappings);
  ASSERT_EQ(Call(client, UROCE_DEREG_MR, uroce_handle{region, 0}).error, 0);
  EXPECT_EQ(make_segment().error, 0);
}

/// Has the one worker stand still until the end of this object, or for a minute.
class StandStill {
 public:
  explicit StandStill(datapath::Worker& worker)
      : thread_([this, &worker] {
          worker.Run([this] {
            begun_.count_down();
            was_ended_ =
                end_.get_future().wait_for(std::chrono::minutes(1)) == std::future_status::ready;
          });
        }) {
    begun_.wait();
  }
  /// Whether it stood still until now.
  bool End() {
    end_.set_value();
    thread_.join();
    return was_ended_;
  }

 private:
  std::latch begun_{1};
  std::promise<void> end_;
  bool was_ended_ = false;
  std::thread thread_;
};

// A worker is asked what is still to leave only for the sake of something that there is.
TEST_F(ControlTurnsTest, HandlesThatThereAreNotCostWorkersNothing) {
  MakeQueuePairs(4, IBV_QPT_UD);
  ControlClient& client = *clients_.back();
  StandStill still(daemon_->nic().workers().at(0));
  for (uint32_t handle = 0; handle < 100; ++handle) {
    EXPECT_EQ(Call(client, UROCE_DESTROY_AH, uroce_handle{handle, 0}).error, ENOENT);
    EXPECT_EQ(Call(client, UROCE_DESTROY_QP, uroce_handle{handle + 100, 0}).error, ENOENT);
    EXPECT_EQ(Call(client, UROCE_RESIZE_CQ, uroce_resize_cq{handle + 100, 1}).error, ENOENT);
  }
  EXPECT_TRUE(still.End()) << "a command has waited for the worker";
}

// A program says itself how many CQEs it has not polled: a ring can be full of them at once.
TEST_F(ControlTurnsTest, AResizeMovesManyCqesSomeInATurnAndOthersAreServedInBetween) {
  constexpr uint32_t kWaiting = 1 << 19;
  ControlClient& client = Connect();
  ControlClient& other = ConnectProgram();
  const Answer hello = Call(client, UROCE_HELLO, uroce_hello{UROCE_ABI_VERSION, 0});
  const Mapping arena(mmap(nullptr, UROCE_ARENA_BYTES, PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_NORESERVE, hello.fds.at(0).get(), 0),
                      UROCE_ARENA_BYTES);
  const uint32_t context = Call(client, UROCE_OPEN_CONTEXT, uroce_open_context{}).handle();
  const uint32_t pd = Call(client, UROCE_ALLOC_PD, uroce_handle{context, 0}).handle();
  const uint32_t cq =
      Call(client, UROCE_CREATE_CQ, uroce_create_cq{context, kWaiting, 1, UROCE_NONE, 0}).handle();
  const auto made =
      Call(client, UROCE_CREATE_QP, uroce_create_qp{pd, IBV_QPT_RC, cq, cq, 1, 0, {1, 1, 1, 1, 0}})
          .As<uroce_create_qp_reply>();
  const uroce_cq_ring old = made.send_ring;
  auto* entries = reinterpret_cast<uroce_cqe*>(arena.data() + old.cqe_offset);
  for (uint32_t i = 0; i < kWaiting; ++i) entries[(i - kWaiting) & (old.depth - 1)].wr_id = i;
  reinterpret_cast<uroce_cq_ring_page*>(arena.data() + old.page_offset)->consumed.value =
      0u - kWaiting;

  client.Post(UROCE_RESIZE_CQ, Bytes(uroce_resize_cq{cq, kWaiting * 2}));
  uint32_t served = 0;
  Answer resized;
  while ((resized = client.Receive(MSG_DONTWAIT)).hung_up) {
    other.Post(UROCE_LIST_DEVICES, {});
    daemon_->Turn(10);
    served += AnswersOf(other);
  }
  EXPECT_GE(served, 3u);
  ASSERT_EQ(resized.error, 0) << resized.text;
  uroce_cq_ring fresh{};
  std::memcpy(&fresh, resized.body.data() + sizeof(uroce_resize_cq_reply), sizeof(fresh));
  EXPECT_NE(fresh.cqe_offset, old.cqe_offset);
  const auto* moved = reinterpret_cast<const uroce_cqe*>(arena.data() + fresh.cqe_offset);
  for (uint32_t i = 0; i < kWaiting; ++i) {
    ASSERT_EQ(moved[i].wr_id, i);
    ASSERT_EQ(moved[i].generation, 1u);
  }
  EXPECT_EQ(moved[kWaiting].generation, 0u);
}

}  // namespace
}  // namespace uroce::nic
