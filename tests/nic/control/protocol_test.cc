// SPDX-License-Identifier: Apache-2.0
// Datagrams on the control socket: who may speak, and what is refused whatever it asks for.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "nic/control/control_socket.h"
#include "tests/nic/control/test_program.h"

namespace uroce::nic {
namespace {

TEST(ControlTest, HelloHandsOverArenaWakeFdAndMemorySocket) {
  TestProgram program;
  ASSERT_EQ(program.hello.error, 0) << program.hello.text;
  const auto reply = program.hello.As<uroce_hello_reply>();
  EXPECT_EQ(reply.abi_version, UROCE_ABI_VERSION);
  EXPECT_EQ(reply.worker_count, 1u);
  EXPECT_EQ(reply.device_count, 2u);
  ASSERT_EQ(program.hello.fds.size(), 3u + reply.has_userfaultfd);
  struct stat arena {};
  fstat(program.hello.fds[0].get(), &arena);
  EXPECT_EQ(static_cast<uint64_t>(arena.st_size), UROCE_ARENA_BYTES);
  EXPECT_NE(ftruncate(program.hello.fds[0].get(), 0), 0) << "the arena is sealed";
}

TEST(ControlTest, AnotherAbiVersionIsToldSo) {
  ControlClient client(SocketPath());
  const Answer answer = client.Call(UROCE_HELLO, uroce_hello{UROCE_ABI_VERSION + 1, 0});
  EXPECT_EQ(answer.error, EINVAL);
  EXPECT_NE(answer.text.find("release"), std::string::npos) << answer.text;
}

TEST(ControlTest, NothingWorksBeforeHelloAndHelloWorksOnce) {
  ControlClient client(SocketPath());
  EXPECT_EQ(client.Call(UROCE_LIST_DEVICES).error, EINVAL);
  EXPECT_EQ(client.Handle(UROCE_ALLOC_PD, 0).error, EINVAL);
  EXPECT_EQ(client.Hello().error, 0);
  EXPECT_EQ(client.Hello().error, EINVAL);
}

constexpr uint32_t kHandleCommands[] = {
    UROCE_CLOSE_CONTEXT, UROCE_QUERY_PORT, UROCE_QUERY_GIDS,      UROCE_ALLOC_PD,
    UROCE_DEALLOC_PD,    UROCE_DEREG_MR,   UROCE_DESTROY_SEGMENT, UROCE_CREATE_CHANNEL,
    UROCE_DESTROY_CQ,    UROCE_QUERY_QP,   UROCE_DESTROY_CHANNEL, UROCE_DESTROY_QP,
    UROCE_DESTROY_AH};

// Linux refuses with ENOENT, too, and the suite rdma-unit-test asks for it.
TEST(ControlTest, UnknownHandlesAreRefusedByEveryCommand) {
  TestProgram program;
  for (const uint32_t command : kHandleCommands) {
    for (const uint32_t handle : {57u, 1u << 20, 0x7fffffffu, UROCE_NONE}) {
      EXPECT_EQ(program.client.Handle(command, handle).error, ENOENT) << command << " " << handle;
    }
  }
  EXPECT_EQ(program.client.Call(UROCE_OPEN_CONTEXT, uroce_open_context{2, 0}).error, ENODEV);
  EXPECT_EQ(program.MakeQp().error, 0) << "the program's own things still work";
}

TEST(ControlTest, EveryCommandRefusesEveryOtherSize) {
  TestProgram program;
  for (const uint32_t command :
       {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 100, 101}) {
    int accepted = 0;
    for (size_t bytes = 0; bytes < 300; ++bytes) {
      accepted += program.client.CallBytes(command, std::vector<uint8_t>(bytes, 0xff)).error == 0;
    }
    EXPECT_LE(accepted, command == UROCE_LIST_DEVICES ? 1 : 0) << command;
  }
}

TEST(ControlTest, HeadersThatLieAreRefused) {
  TestProgram program;
  EXPECT_EQ(program.client.Raw("abc", 3).error, EINVAL);
  for (const uint32_t size : {0u, 7u, 9u, 16u, 0xffffffffu}) {
    const uroce_request request{UROCE_LIST_DEVICES, size};
    EXPECT_EQ(program.client.Raw(&request, sizeof(request)).error, EINVAL) << size;
  }
  const std::vector<uint8_t> huge(100'000, 1);
  EXPECT_EQ(program.client.Raw(huge.data(), huge.size()).error, EINVAL);
  for (const uint32_t command : {0u, 60u, 99u, 104u, 0xffffffffu}) {
    EXPECT_EQ(program.client.Call(command).error, EOPNOTSUPP) << command;
  }
  EXPECT_EQ(program.client.Call(UROCE_LIST_DEVICES).error, 0);
}

// Random words in well-formed datagrams, from two programs, while a third goes about its business.
TEST(ControlTest, GarbageHarmsNoOtherProgram) {
  TestProgram bystander;
  std::mt19937 engine(11);
  const auto random = [&engine] { return static_cast<uint32_t>(engine()); };
  for (int round = 0; round < 20; ++round) {
    TestProgram program(round % 2);
    program.MakeQp();
    for (int i = 0; i < 300; ++i) {
      const uint32_t command = random() % 24;
      std::vector<uint8_t> body;
      for (uint32_t words = random() % 40; words != 0; --words) {
        const uint32_t word = random() % 3 == 0 ? random() : random() % 4;
        body.insert(body.end(), reinterpret_cast<const uint8_t*>(&word),
                    reinterpret_cast<const uint8_t*>(&word) + 4);
      }
      ASSERT_FALSE(program.client.CallBytes(command, body).hung_up);
    }
  }
  const Answer made = bystander.MakeQp();
  EXPECT_EQ(made.error, 0) << made.text;
  EXPECT_EQ(bystander.Modify(made.As<uroce_create_qp_reply>().handle, ToInit()).error, 0);
}

TEST(ControlSocketTest, ASecondDaemonIsTurnedAwayAndAStaleSocketReplaced) {
  EXPECT_TRUE(absl::IsAlreadyExists(ControlSocket::Listen(SocketPath()).status()));
  EXPECT_TRUE(ControlClient(SocketPath()).connected()) << "the first one goes on";
  const std::string stale = SocketPath() + ".stale";
  {
    const Fd dead(socket(AF_UNIX, SOCK_SEQPACKET, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, stale.c_str(), stale.size() + 1);
    ASSERT_EQ(bind(dead.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  EXPECT_FALSE(ControlClient(stale).connected());
  {
    const absl::StatusOr<ControlSocket> second = ControlSocket::Listen(stale);
    EXPECT_TRUE(second.ok());
    EXPECT_TRUE(ControlClient(stale).connected());
  }
  EXPECT_NE(access(stale.c_str(), F_OK), 0) << "its end removes it";
}

}  // namespace
}  // namespace uroce::nic
