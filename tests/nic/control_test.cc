// SPDX-License-Identifier: Apache-2.0
// Commands against a running server with two NICs on an in-process wire: what programs may do, what
// they may not, and that nobody else notices.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <set>
#include <sstream>
#include <thread>

#include "nic/control/server.h"
#include "nic/daemon.h"
#include "pipeline/rings/shared_word.h"
#include "tests/nic/control_client.h"

namespace uroce::nic {
namespace {

using Json = nlohmann::json;

/// DPDK starts once per process, and so does the daemon under test.
class DaemonUnderTest : public testing::Environment {
 public:
  static DaemonUnderTest& Get() {
    static auto* const daemon =
        static_cast<DaemonUnderTest*>(testing::AddGlobalTestEnvironment(new DaemonUnderTest));
    return *daemon;
  }

  void SetUp() override {
    spdlog::set_level(spdlog::level::err);
    char directory[] = "/tmp/uroce-nic-test-XXXXXX";
    path_ = std::string(mkdtemp(directory)) + "/u.sock";
    Config config = MakeConfig({}, path_).value();
    config.no_huge = true;
    config.limits.pds = 40;
    auto ports = OpenPorts(config);
    ASSERT_TRUE(ports.ok()) << ports.status();
    auto socket = ControlSocket::Listen(path_);
    ASSERT_TRUE(socket.ok()) << socket.status();
    nic_ = std::make_unique<Nic>(config, std::move(ports->devices), ports->seats);
    server_ = std::make_unique<Server>(loop_, *nic_, *std::move(socket));
    loop_.Watch(stop_.get(), EPOLLIN, [this] { loop_.Stop(); });
    thread_ = std::thread([this] { loop_.Run(); });
  }
  void TearDown() override {
    const uint64_t one = 1;
    ASSERT_EQ(write(stop_.get(), &one, sizeof(one)), 8);
    thread_.join();
    server_.reset();
    nic_.reset();
    rmdir(path_.substr(0, path_.rfind('/')).c_str());
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  EventLoop loop_;
  Fd stop_{eventfd(0, EFD_CLOEXEC)};
  std::unique_ptr<Nic> nic_;
  std::unique_ptr<Server> server_;
  std::thread thread_;
};

const auto& environment = DaemonUnderTest::Get();  // Made before any test runs.

const std::string& SocketPath() { return environment.path(); }

/// A program with a context of one device, a PD and a CQ.
struct Program1 {
  explicit Program1(uint32_t device = 0) : client(SocketPath()) {
    hello = client.Hello();
    context = client.Call(UROCE_OPEN_CONTEXT, uroce_open_context{device, 0}).handle();
    pd = client.Handle(UROCE_ALLOC_PD, context).handle();
    cq = MakeCq().handle();
  }
  Answer MakeCq(uint32_t cqe = 16, uint32_t channel = UROCE_NONE) {
    return client.Call(UROCE_CREATE_CQ, uroce_create_cq{context, cqe, 0x1234, channel, 0});
  }
  Answer MakeQp(uroce_qp_cap cap = {16, 16, 1, 1, 0}, uint32_t type = IBV_QPT_RC,
                std::optional<uint32_t> srq = std::nullopt) {
    return client.Call(UROCE_CREATE_QP, uroce_create_qp{pd, type, cq, cq, 0x77, 0, cap,
                                                        srq ? 1u : 0, srq.value_or(0)});
  }
  Answer MakeSrq(uint32_t max_wr, uint32_t max_sge = 1, uint32_t limit = 0) {
    return client.Call(UROCE_CREATE_SRQ,
                       uroce_create_srq{pd, max_wr, max_sge, limit, 0x99, 0, 0, 0, 0});
  }
  Answer Register(const uroce_reg_mr& request, const std::vector<uroce_mr_segment>& segments) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(segments.data());
    return client.Call(UROCE_REG_MR, request,
                       {bytes, bytes + segments.size() * sizeof(uroce_mr_segment)});
  }
  Answer RegisterMapped(uint64_t addr, uint64_t length, uint32_t segment, uint32_t access = 7) {
    return Register({pd, access, addr, length, addr, 1, UROCE_NONE},
                    {{addr, length, UROCE_MR_MAPPED, segment, 0, 0, 0}});
  }
  Answer Modify(uint32_t qp, uroce_qp_attr attr) {
    return client.Call(UROCE_MODIFY_QP, uroce_modify_qp{qp, attr});
  }

  ControlClient client;
  Answer hello;
  uint32_t context = 0, pd = 0, cq = 0;
};

Json Dump(uint32_t what) {
  ControlClient tool(SocketPath());
  const Answer answer = tool.Call(UROCE_DUMP, uroce_dump{what, 0});
  EXPECT_EQ(answer.error, 0) << answer.text;
  std::string text(answer.As<uroce_dump_reply>().length, '\0');
  EXPECT_EQ(pread(answer.fds.at(0).get(), text.data(), text.size(), 0),
            static_cast<ssize_t>(text.size()));
  return Json::parse(text);
}

uroce_qp_attr ToInit() {
  uroce_qp_attr attr{};
  attr.attr_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  return attr;
}

uroce_qp_attr ToRtr(const Gid& dgid, uint8_t sgid_index) {
  uroce_qp_attr attr{};
  attr.attr_mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = 77;
  attr.rq_psn = 0xabcdef;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.sgid_index = sgid_index;
  std::copy(dgid.bytes.begin(), dgid.bytes.end(), attr.ah_attr.dgid);
  return attr;
}

uroce_qp_attr ToRts() {
  uroce_qp_attr attr{};
  attr.attr_mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                   IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = 14;
  attr.sq_psn = 0x123;
  return attr;
}

Gid GidOf(const char* text) { return ParseInterfaceAddress(text)->gid; }

TEST(ControlTest, HelloHandsOverArenaWakeFdAndMemorySocket) {
  Program1 program;
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

TEST(ControlTest, DevicesPortsAndGidsAreListed) {
  Program1 program(1);
  const Answer devices = program.client.Call(UROCE_LIST_DEVICES);
  ASSERT_EQ(devices.body.size(), 2 * sizeof(uroce_device_info));
  EXPECT_STREQ(devices.As<uroce_device_info>(1).name, "uroce1");
  EXPECT_GE(devices.As<uroce_device_info>(1).max_cqe, 200'000u);
  const auto port = program.client.Handle(UROCE_QUERY_PORT, program.context).As<uroce_port_info>();
  EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
  EXPECT_EQ(port.active_mtu, IBV_MTU_4096);
  const Answer gids = program.client.Handle(UROCE_QUERY_GIDS, program.context);
  ASSERT_EQ(gids.body.size(), UROCE_MAX_GIDS * sizeof(uroce_gid_entry));
  const auto entry = gids.As<uroce_gid_entry>(1);
  EXPECT_EQ(std::memcmp(entry.gid, GidOf("10.0.0.2").bytes.data(), 16), 0);
  EXPECT_EQ(entry.type, 2u);
  EXPECT_EQ(gids.As<uroce_gid_entry>(3).valid, 0u);
}

constexpr uint32_t kHandleCommands[] = {
    UROCE_CLOSE_CONTEXT, UROCE_QUERY_PORT, UROCE_QUERY_GIDS,      UROCE_ALLOC_PD,
    UROCE_DEALLOC_PD,    UROCE_DEREG_MR,   UROCE_DESTROY_SEGMENT, UROCE_CREATE_CHANNEL,
    UROCE_DESTROY_CQ,    UROCE_QUERY_QP,   UROCE_DESTROY_CHANNEL, UROCE_DESTROY_QP,
    UROCE_DESTROY_AH};

TEST(ControlTest, UnknownHandlesAreRefusedByEveryCommand) {
  Program1 program;
  for (const uint32_t command : kHandleCommands) {
    for (const uint32_t handle : {57u, 1u << 20, 0x7fffffffu, UROCE_NONE}) {
      EXPECT_EQ(program.client.Handle(command, handle).error, EINVAL) << command << " " << handle;
    }
  }
  EXPECT_EQ(program.client.Call(UROCE_OPEN_CONTEXT, uroce_open_context{2, 0}).error, ENOENT);
  EXPECT_EQ(program.MakeQp().error, 0) << "the program's own things still work";
}

TEST(ControlTest, EveryCommandRefusesEveryOtherSize) {
  Program1 program;
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
  Program1 program;
  EXPECT_EQ(program.client.Raw("abc", 3).error, EINVAL);
  for (const uint32_t size : {0u, 7u, 9u, 16u, 0xffffffffu}) {
    const uroce_request request{UROCE_LIST_DEVICES, size};
    EXPECT_EQ(program.client.Raw(&request, sizeof(request)).error, EINVAL) << size;
  }
  const std::vector<uint8_t> huge(100'000, 1);
  EXPECT_EQ(program.client.Raw(huge.data(), huge.size()).error, EINVAL);
  for (const uint32_t command : {0u, 60u, 99u, 103u, 0xffffffffu}) {
    EXPECT_EQ(program.client.Call(command).error, EOPNOTSUPP) << command;
  }
  EXPECT_EQ(program.client.Call(UROCE_LIST_DEVICES).error, 0);
}

// protocol/verbs-semantics.md, section 6: destroy order.
TEST(ControlTest, WhatIsInUseIsBusy) {
  Program1 program;
  ControlClient& client = program.client;
  const uint32_t channel = client.Handle(UROCE_CREATE_CHANNEL, program.context).handle();
  const uint32_t cq = program.MakeCq(16, channel).handle();
  EXPECT_EQ(client.Handle(UROCE_DESTROY_CHANNEL, channel).error, EBUSY);
  const uint32_t qp =
      client
          .Call(UROCE_CREATE_QP,
                uroce_create_qp{program.pd, IBV_QPT_RC, cq, program.cq, 1, 0, {1, 1, 1, 1, 0}})
          .As<uroce_create_qp_reply>()
          .handle;
  EXPECT_EQ(client.Handle(UROCE_DESTROY_CQ, cq).error, EBUSY);
  EXPECT_EQ(client.Handle(UROCE_DESTROY_CQ, program.cq).error, EBUSY);
  EXPECT_EQ(client.Handle(UROCE_DEALLOC_PD, program.pd).error, EBUSY);
  EXPECT_EQ(client.Handle(UROCE_DESTROY_QP, qp).error, 0);
  EXPECT_EQ(client.Handle(UROCE_DESTROY_CQ, cq).error, 0);
  EXPECT_EQ(client.Handle(UROCE_DESTROY_CHANNEL, channel).error, 0);
  EXPECT_EQ(client.Handle(UROCE_DEALLOC_PD, program.pd).error, 0);
  EXPECT_EQ(client.Handle(UROCE_DEALLOC_PD, program.pd).error, EINVAL) << "twice";
}

TEST(ControlTest, ClosingAContextTakesAllThatIsInIt) {
  Program1 program;
  const uint32_t qp = program.MakeQp().As<uroce_create_qp_reply>().handle;
  EXPECT_EQ(program.client.Handle(UROCE_CLOSE_CONTEXT, program.context).error, 0);
  EXPECT_EQ(program.client.Handle(UROCE_QUERY_QP, qp).error, EINVAL);
  EXPECT_EQ(program.client.Handle(UROCE_DESTROY_CQ, program.cq).error, EINVAL);
  EXPECT_EQ(program.client.Handle(UROCE_DEALLOC_PD, program.pd).error, EINVAL);
}

TEST(ControlTest, LimitsHold) {
  Program1 program;
  int made = 1;
  while (program.client.Handle(UROCE_ALLOC_PD, program.context).error == 0) ++made;
  EXPECT_EQ(made, 40);
  EXPECT_EQ(program.client.Handle(UROCE_ALLOC_PD, program.context).error, ENOMEM);
}

TEST(ControlTest, QueuePairsAreGrantedAtLeastWhatWasAsked) {
  Program1 program;
  const auto qp = program.MakeQp({100, 50, 3, 2, 60}).As<uroce_create_qp_reply>();
  EXPECT_EQ(qp.sq_depth, 128u);
  EXPECT_EQ(qp.rq_depth, 64u);
  EXPECT_EQ(qp.cap.max_send_wr, 128u);
  EXPECT_GE(qp.cap.max_inline_data, 60u);
  EXPECT_GT(qp.qp_num, 1u);
  EXPECT_LT(qp.qp_num, 0xffffffu);
  EXPECT_EQ(program.MakeQp({1, 1, UROCE_MAX_SGE + 1, 1, 0}).error, EINVAL);
  EXPECT_EQ(program.MakeQp({1, 1, 1, 1, 0}, IBV_QPT_RAW_PACKET).error, EOPNOTSUPP);
}

/// The arena as a program sees it.
class MappedArena {
 public:
  explicit MappedArena(const Fd& fd)
      : mapping_(mmap(nullptr, UROCE_ARENA_BYTES, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_NORESERVE, fd.get(), 0),
                 UROCE_ARENA_BYTES) {}
  template <typename T>
  T* At(uint64_t offset) const {
    return reinterpret_cast<T*>(mapping_.data() + offset);
  }

 private:
  Mapping mapping_;
};

/// Makes `count` completions: receives that are flushed.
void Flush(Program1& program, const MappedArena& arena, uint32_t count) {
  const auto qp = program.MakeQp({1, 16, 1, 1, 0}).As<uroce_create_qp_reply>();
  ASSERT_EQ(program.Modify(qp.handle, ToInit()).error, 0);
  for (uint32_t i = 0; i < count; ++i) {
    *arena.At<uroce_recv_wqe>(qp.rq_offset + uint64_t{i} * qp.rq_slot_bytes) = {.wr_id = i};
  }
  rings::StoreRelease(arena.At<uroce_qp_page>(qp.page_offset)->rq_produced.value, count);
  uroce_qp_attr error{};
  error.attr_mask = IBV_QP_STATE;
  error.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(program.Modify(qp.handle, error).error, 0);
  const uroce_cqe& last = arena.At<uroce_cqe>(qp.receive_ring.cqe_offset)[count - 1];
  while (rings::LoadAcquire(last.generation) == 0) std::this_thread::yield();
}

// ibv_resize_cq(3); protocol/verbs-semantics.md, section 6.
TEST(ControlTest, AResizedQueueKeepsWhatWaits) {
  Program1 program;
  const MappedArena arena(program.hello.fds[0]);
  Flush(program, arena, 5);
  const auto resize = [&](uint32_t cqe) {
    return program.client.Call(UROCE_RESIZE_CQ, uroce_resize_cq{program.cq, cqe});
  };
  EXPECT_EQ(resize(4).error, EINVAL) << "five wait";
  EXPECT_EQ(resize(0).error, EINVAL);
  EXPECT_EQ(resize(UINT32_MAX).error, EINVAL);
  const Answer resized = resize(33);
  const auto reply = resized.As<uroce_resize_cq_reply>();
  EXPECT_EQ(reply.cqe, 64u);
  ASSERT_EQ(reply.ring_count, 1u);
  uroce_cq_ring ring;
  std::memcpy(&ring, resized.body.data() + sizeof(reply), sizeof(ring));
  EXPECT_EQ(ring.depth, 64u);
  for (uint32_t i = 0; i < 5; ++i) {
    EXPECT_EQ(arena.At<uroce_cqe>(ring.cqe_offset)[i].wr_id, i);
    EXPECT_EQ(arena.At<uroce_cqe>(ring.cqe_offset)[i].generation, 1u);
  }
  EXPECT_EQ(arena.At<uroce_cqe>(ring.cqe_offset)[5].generation, 0u);
  arena.At<uroce_cq_ring_page>(ring.page_offset)->consumed.value = 6;
  EXPECT_EQ(resize(64).error, EINVAL) << "more polled than there were";
  arena.At<uroce_cq_ring_page>(ring.page_offset)->consumed.value = 5;
  EXPECT_EQ(resize(1).error, 0);
}

// protocol/verbs-semantics.md, section 5.
TEST(ControlTest, RegionsAreCheckedBeforeTheyAreMade) {
  Program1 program;
  constexpr uint64_t kAddr = 0x10000;
  const Answer made =
      program.client.Call(UROCE_CREATE_SEGMENT, uroce_create_segment{kAddr, 0x4000});
  ASSERT_EQ(made.error, 0) << made.text;
  const uint32_t segment = made.handle();
  EXPECT_EQ(program.RegisterMapped(kAddr, 0x4000, segment, IBV_ACCESS_REMOTE_WRITE).error, EINVAL);
  EXPECT_EQ(program.RegisterMapped(kAddr, 0x4000, segment, IBV_ACCESS_REMOTE_ATOMIC).error, EINVAL);
  EXPECT_EQ(program.RegisterMapped(kAddr, 0x4000, segment, 1u << 15).error, EINVAL);
  EXPECT_EQ(program.RegisterMapped(kAddr, 0x4001, segment).error, EINVAL) << "beyond the segment";
  EXPECT_EQ(program.RegisterMapped(~0ull - 10, 100, segment).error, EINVAL) << "wraps";
  EXPECT_EQ(program.RegisterMapped(kAddr, 0x1000, segment + 1).error, EINVAL) << "no such segment";
  const uroce_reg_mr request{program.pd, 7, kAddr, 0x3000, kAddr, 2, UROCE_NONE};
  const auto piece = [&](uint64_t addr, uint64_t length, uint64_t offset) {
    return uroce_mr_segment{addr, length, UROCE_MR_MAPPED, segment, offset, 0, 0};
  };
  EXPECT_EQ(
      program.Register(request, {piece(kAddr, 0x1000, 0), piece(kAddr + 0x2000, 0x1000, 0)}).error,
      EINVAL)
      << "a gap";
  EXPECT_EQ(
      program.Register(request, {piece(kAddr, 0x1000, 0), piece(kAddr + 0x1000, 0x1000, 0)}).error,
      EINVAL)
      << "too short";
  EXPECT_EQ(
      program.Register(request, {piece(kAddr, 0x1000, 0), piece(kAddr + 0x1000, ~0ull, 0)}).error,
      EINVAL)
      << "too long";
  EXPECT_EQ(
      program.Register(request, {piece(kAddr, 0x1000, 1), piece(kAddr + 0x1000, 0x2000, 0)}).error,
      EINVAL)
      << "bytes of a page in another place of it";
  const Answer good =
      program.Register(request, {piece(kAddr, 0x1000, 0x3000), piece(kAddr + 0x1000, 0x2000, 0)});
  EXPECT_EQ(good.error, 0) << good.text;
  EXPECT_EQ(program.client.Handle(UROCE_DESTROY_SEGMENT, segment).error, 0);
  EXPECT_EQ(program.client.Handle(UROCE_DEREG_MR, good.As<uroce_reg_mr_reply>().handle).error, 0);
}

TEST(ControlTest, ARegionThatIsReplacedKeepsItsHandleAndKey) {
  Program1 program;
  const uint32_t segment =
      program.client.Call(UROCE_CREATE_SEGMENT, uroce_create_segment{0x10000, 0x2000}).handle();
  const auto first = program.RegisterMapped(0x10000, 0x1000, segment).As<uroce_reg_mr_reply>();
  const uint32_t other_pd = program.client.Handle(UROCE_ALLOC_PD, program.context).handle();
  const uroce_reg_mr change{other_pd, 4, 0x11000, 0x1000, 0x11000, 1, first.handle};
  const std::vector<uroce_mr_segment> part = {
      {0x11000, 0x1000, UROCE_MR_MAPPED, segment, 0x1000, 0, 0}};
  const Answer changed = program.Register(change, part);
  ASSERT_EQ(changed.error, 0) << changed.text;
  EXPECT_EQ(changed.As<uroce_reg_mr_reply>().handle, first.handle);
  EXPECT_EQ(changed.As<uroce_reg_mr_reply>().rkey, first.rkey);
  EXPECT_EQ(program.client.Handle(UROCE_DEALLOC_PD, program.pd).error, 0) << "it has left this one";
  EXPECT_EQ(program.client.Handle(UROCE_DEALLOC_PD, other_pd).error, EBUSY);
  uroce_reg_mr wrong = change;
  wrong.access = IBV_ACCESS_REMOTE_WRITE;
  EXPECT_EQ(program.Register(wrong, part).error, EINVAL);
  EXPECT_EQ(program.client.Handle(UROCE_DEREG_MR, first.handle).error, 0) << "still there";
  EXPECT_EQ(program.Register(change, part).error, EINVAL) << "nothing to replace";
  EXPECT_EQ(program.client.Handle(UROCE_DEALLOC_PD, other_pd).error, 0);
}

/// The secret of a context, from the file that came with it.
uroce_context_name NameOf(const Answer& opened) {
  uroce_context_name name{};
  EXPECT_EQ(opened.fds.size(), 2u);
  EXPECT_EQ(pread(opened.fds.at(1).get(), &name, sizeof(name), 0),
            static_cast<ssize_t>(sizeof(name)));
  return name;
}

TEST(ControlTest, WhoHasAContextsNameSharesItsDomainsAndRegions) {
  Program1 maker;
  const Answer opened = maker.client.Call(UROCE_OPEN_CONTEXT, uroce_open_context{0, 0});
  const uint32_t pd = maker.client.Handle(UROCE_ALLOC_PD, opened.handle()).handle();
  const uint32_t segment =
      maker.client.Call(UROCE_CREATE_SEGMENT, uroce_create_segment{0x10000, 0x1000}).handle();
  const auto mr = maker
                      .Register({pd, 7, 0x10000, 0x1000, 0x10000, 1, UROCE_NONE},
                                {{0x10000, 0x1000, UROCE_MR_MAPPED, segment, 0, 0, 0}})
                      .As<uroce_reg_mr_reply>();

  Program1 other;
  uroce_context_name name = NameOf(opened);
  const Answer context = other.client.Call(UROCE_IMPORT_CONTEXT, name);
  ASSERT_EQ(context.error, 0) << context.text;
  EXPECT_EQ(context.fds.size(), 1u) << "its own events";
  const Answer shared = other.client.Call(UROCE_IMPORT_PD, uroce_import{context.handle(), pd});
  ASSERT_EQ(shared.error, 0) << shared.text;
  const Answer region =
      other.client.Call(UROCE_IMPORT_MR, uroce_import{shared.handle(), mr.handle});
  ASSERT_EQ(region.error, 0) << region.text;
  EXPECT_EQ(region.As<uroce_import_mr_reply>().lkey, mr.lkey);
  EXPECT_EQ(region.As<uroce_import_mr_reply>().length, 0x1000u);

  EXPECT_EQ(other.client.Call(UROCE_IMPORT_PD, uroce_import{context.handle(), maker.pd}).error,
            EINVAL)
      << "of another context";
  EXPECT_EQ(other.client.Call(UROCE_IMPORT_PD, uroce_import{other.context, pd}).error, EINVAL)
      << "of no imported context";
  EXPECT_EQ(other.client.Call(UROCE_IMPORT_MR, uroce_import{other.pd, mr.handle}).error, EINVAL);
  name.secret[1] ^= 1;
  EXPECT_EQ(other.client.Call(UROCE_IMPORT_CONTEXT, name).error, EINVAL);
  EXPECT_EQ(other.client.Handle(UROCE_DEALLOC_PD, shared.handle()).error, 0);
  EXPECT_EQ(other.client.Handle(UROCE_CLOSE_CONTEXT, context.handle()).error, 0);
}

TEST(ControlTest, KeysAreRandomAndAllDifferent) {
  Program1 program;
  const uint32_t segment =
      program.client.Call(UROCE_CREATE_SEGMENT, uroce_create_segment{0x10000, 0x1000}).handle();
  std::set<uint32_t> keys;
  for (int i = 0; i < 200; ++i) {
    const auto mr = program.RegisterMapped(0x10000, 0x1000, segment).As<uroce_reg_mr_reply>();
    EXPECT_NE(mr.lkey, 0u);
    EXPECT_EQ(mr.lkey, mr.rkey);
    EXPECT_TRUE(keys.insert(mr.lkey >> 8).second);
    if (i % 2 == 0) program.client.Handle(UROCE_DEREG_MR, mr.handle);
  }
}

TEST(ControlTest, SegmentsAreSealedAndOfWholePages) {
  Program1 program;
  const Answer made =
      program.client.Call(UROCE_CREATE_SEGMENT, uroce_create_segment{0x10000, 0x1000});
  ASSERT_EQ(made.fds.size(), 1u);
  EXPECT_NE(ftruncate(made.fds[0].get(), 0x1000), 0);
  for (const auto& [addr, length] : std::vector<std::pair<uint64_t, uint64_t>>{
           {0x10001, 0x1000}, {0x10000, 0xfff}, {0x10000, 0}, {0, ~0ull & ~0xfffull}}) {
    EXPECT_NE(program.client.Call(UROCE_CREATE_SEGMENT, uroce_create_segment{addr, length}).error,
              0);
  }
}

/// Says something on a program's second socket, with an fd or without one (-1).
void SendLend(int socket, const uroce_lend& request, int fd, size_t bytes) {
  iovec part{const_cast<uroce_lend*>(&request), bytes};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    *rights = {
        .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    std::memcpy(CMSG_DATA(rights), &fd, sizeof(fd));
  }
  sendmsg(socket, &message, 0);
}

/// The same, and hears the answer.
uroce_lend_reply Lend(int socket, const uroce_lend& request, int fd,
                      size_t bytes = sizeof(uroce_lend)) {
  SendLend(socket, request, fd, bytes);
  uroce_lend_reply reply{.error = -1, .segment = 0, .offset = 0, .length = 0};
  recv(socket, &reply, sizeof(reply), 0);
  return reply;
}

uroce_lend LendMemory() {
  return {.what = UROCE_LEND_MEMORY,
          .writable = 0,
          .vma_start = 0,
          .vma_end = 0,
          .offset = 0,
          .length = 0};
}

uroce_lend LendFile(uint64_t offset, uint64_t length, bool writable = true) {
  return {.what = UROCE_LEND_FILE,
          .writable = writable,
          .vma_start = 0,
          .vma_end = 0,
          .offset = offset,
          .length = length};
}

TEST(ControlTest, OnlyTheMemoryOfAProcessIsTakenAsSuch) {
  Program1 program;
  const int socket = program.hello.fds[2].get();
  const uroce_reg_mr request{program.pd, 7, 0x5000, 64, 0x5000, 1, UROCE_NONE};
  const std::vector<uroce_mr_segment> copied = {
      {0x5000, 64, UROCE_MR_COPIED, UROCE_NONE, 0, UROCE_WHY_STACK, 0}};
  EXPECT_EQ(program.Register(request, copied).error, EINVAL) << "no memory was passed yet";
  const Fd null(open("/dev/null", O_RDWR)), file(memfd_create("mem", 0));
  const Fd maps(open("/proc/self/maps", O_RDONLY)), readable(open("/proc/self/mem", O_RDONLY));
  const Fd path(open("/proc/self/mem", O_PATH));
  for (const Fd* wrong : {&null, &file, &maps, &readable, &path}) {
    EXPECT_EQ(Lend(socket, LendMemory(), wrong->get()).error, EINVAL);
  }
  EXPECT_EQ(Lend(socket, LendMemory(), -1).error, EINVAL);
  const Fd memory(open("/proc/self/mem", O_RDWR));
  uroce_lend unknown = LendMemory();
  unknown.what = 7;
  EXPECT_EQ(Lend(socket, unknown, memory.get()).error, EINVAL);
  EXPECT_EQ(Lend(socket, LendMemory(), memory.get(), sizeof(uroce_lend) - 1).error, EINVAL);
  EXPECT_EQ(Lend(socket, LendMemory(), memory.get()).error, 0);
  const Answer made = program.Register(request, copied);
  EXPECT_EQ(made.error, 0) << made.text;
  EXPECT_EQ(program.client.Handle(UROCE_DEREG_MR, made.As<uroce_reg_mr_reply>().handle).error, 0);
}

TEST(ControlTest, AnFdThatComesWithNothingElseIsClosed) {
  Program1 program;
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const Fd reader(ends[0]);
  Fd writer(ends[1]);
  SendLend(program.hello.fds[2].get(), LendMemory(), writer.get(), 0);
  writer.Reset();
  pollfd hung_up{.fd = reader.get(), .events = 0, .revents = 0};
  EXPECT_EQ(poll(&hung_up, 1, 10'000), 1);
}

/// A memfd of four pages.
struct OwnFile {
  OwnFile() : fd(memfd_create("own", MFD_ALLOW_SEALING)) { ftruncate(fd.get(), kBytes); }
  static constexpr uint64_t kBytes = 0x4000;
  Fd fd;
};

TEST(ControlTest, AFileInMemoryIsMappedAsFarAsItReaches) {
  Program1 program;
  const int socket = program.hello.fds[2].get();
  const OwnFile own;
  const uroce_lend_reply lent = Lend(socket, LendFile(0x1004, 0x1000), own.fd.get());
  ASSERT_EQ(lent.error, 0);
  EXPECT_EQ(lent.offset, 0x1000u);
  EXPECT_EQ(lent.length, 0x2000u);
  const uroce_reg_mr request{program.pd, 7, 0x5004, 0x1000, 0x5004, 1, UROCE_NONE};
  const Answer made =
      program.Register(request, {{0x5004, 0x1000, UROCE_MR_SHARED, lent.segment, 4, 0, 0}});
  EXPECT_EQ(made.error, 0) << made.text;
  EXPECT_EQ(Lend(socket, LendFile(0x3000, 0x1001), own.fd.get()).error, EINVAL) << "past its end";
  EXPECT_EQ(Lend(socket, LendFile(0, 0), own.fd.get()).error, EINVAL);
  EXPECT_EQ(Lend(socket, LendFile(0, ~0ull), own.fd.get()).error, EINVAL);
  EXPECT_EQ(Lend(socket, LendFile(~0ull - 10, 100), own.fd.get()).error, EINVAL);
  EXPECT_EQ(program.client.Handle(UROCE_DESTROY_SEGMENT, lent.segment).error, 0);
}

TEST(ControlTest, OnlyFilesInMemoryAreMapped) {
  Program1 program;
  const int socket = program.hello.fds[2].get();
  const OwnFile own;
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const Fd reader(ends[0]), writer(ends[1]), device(open("/dev/zero", O_RDWR));
  const Fd event(eventfd(0, 0)), proc(open("/proc/self/maps", O_RDONLY));
  const Fd directory(open("/dev/shm", O_RDONLY)), other(open("/proc/self/exe", O_RDONLY));
  const std::string link = "/proc/self/fd/" + std::to_string(own.fd.get());
  const Fd path(open(link.c_str(), O_PATH));
  for (const Fd* wrong : {&reader, &device, &event, &proc, &directory, &other, &path}) {
    EXPECT_EQ(Lend(socket, LendFile(0, 0x1000, false), wrong->get()).error, EINVAL);
  }
  EXPECT_EQ(program.MakeQp().error, 0) << "the program goes on";
}

TEST(ControlTest, AFileForReadingIsNotWrittenTo) {
  Program1 program;
  const int socket = program.hello.fds[2].get();
  const OwnFile own;
  const Fd readable(open(("/proc/self/fd/" + std::to_string(own.fd.get())).c_str(), O_RDONLY));
  EXPECT_EQ(Lend(socket, LendFile(0, 0x1000), readable.get()).error, EINVAL);
  const uroce_lend_reply lent = Lend(socket, LendFile(0, 0x1000, false), readable.get());
  ASSERT_EQ(lent.error, 0);
  const std::vector<uroce_mr_segment> shared = {
      {0x5000, 0x1000, UROCE_MR_SHARED, lent.segment, 0, 0, 0}};
  uroce_reg_mr request{program.pd, IBV_ACCESS_LOCAL_WRITE, 0x5000, 0x1000, 0x5000, 1, UROCE_NONE};
  EXPECT_EQ(program.Register(request, shared).error, EINVAL);
  request.access = IBV_ACCESS_REMOTE_READ;
  EXPECT_EQ(program.Register(request, shared).error, 0);
}

TEST(ControlTest, PagesThatTheFileHasNoMoreAreRefused) {
  Program1 program;
  const int socket = program.hello.fds[2].get();
  const OwnFile own;
  const uroce_lend_reply lent = Lend(socket, LendFile(0, OwnFile::kBytes), own.fd.get());
  ASSERT_EQ(lent.error, 0);
  ASSERT_EQ(ftruncate(own.fd.get(), 0x1000), 0);
  const uroce_reg_mr request{program.pd, 7, 0x5000, 0x4000, 0x5000, 1, UROCE_NONE};
  EXPECT_EQ(
      program.Register(request, {{0x5000, 0x4000, UROCE_MR_SHARED, lent.segment, 0, 0, 0}}).error,
      EFAULT);
}

/// Whether this process, and so the daemon in it, may look behind mappings.
bool MayLookBehind(const uroce_lend& mapping) {
  std::ostringstream link;
  link << "/proc/self/map_files/" << std::hex << mapping.vma_start << '-' << mapping.vma_end;
  return Fd(open(link.str().c_str(), O_RDONLY | O_CLOEXEC)).get() >= 0;
}

// The daemon runs as the same user here: what it lends is its privilege, if it has any.
TEST(ControlTest, TheDaemonLooksBehindSharedMappingsOnly) {
  Program1 program;
  const int socket = program.hello.fds[2].get();
  const OwnFile own;
  const auto map = [&own](int protection, int flags) {
    void* at = mmap(nullptr, OwnFile::kBytes, protection, flags, own.fd.get(), 0);
    uroce_lend request = LendFile(0, OwnFile::kBytes);
    request.vma_start = reinterpret_cast<uint64_t>(at);
    request.vma_end = request.vma_start + OwnFile::kBytes;
    return request;
  };
  const uroce_lend shared = map(PROT_READ | PROT_WRITE, MAP_SHARED);
  const bool may_look = MayLookBehind(shared);
  EXPECT_EQ(Lend(socket, shared, -1).error == 0, may_look);
  uroce_lend readable = map(PROT_READ, MAP_SHARED);
  EXPECT_NE(Lend(socket, readable, -1).error, 0) << "the mapping is for reading";
  readable.writable = 0;
  EXPECT_EQ(Lend(socket, readable, -1).error == 0, may_look);
  EXPECT_NE(Lend(socket, map(PROT_READ | PROT_WRITE, MAP_PRIVATE), -1).error, 0);
  EXPECT_NE(Lend(socket, LendFile(0, 0x1000), -1).error, 0) << "no such mapping";
  uroce_lend part = shared;
  part.vma_start += 0x1000;
  EXPECT_NE(Lend(socket, part, -1).error, 0) << "no mapping starts there";
  for (const uroce_lend& each : {shared, readable}) {
    munmap(reinterpret_cast<void*>(each.vma_start), OwnFile::kBytes);
  }
}

/// The mode of a region, and how many parts it has.
std::pair<std::string, size_t> ModeOf(uint32_t lkey) {
  const Json regions = Dump(UROCE_DUMP_MR)["mrs"];
  for (const Json& region : regions) {
    if (std::stoul(region["key"].get<std::string>(), nullptr, 16) != lkey) continue;
    return {region["mode"], region["segments"].size()};
  }
  return {"none", 0};
}

// Atomics through both must exclude each other.
TEST(ControlTest, WhatALaterRegionMapsAnOlderOneCopiesNoMore) {
  Program1 program;
  const int socket = program.hello.fds[2].get();
  const Fd memory(open("/proc/self/mem", O_RDWR));
  ASSERT_EQ(Lend(socket, LendMemory(), memory.get()).error, 0);
  const uroce_reg_mr request{program.pd, 7, 0x5f00, 0x1200, 0x5f00, 1, UROCE_NONE};
  const auto older =
      program
          .Register(request,
                    {{0x5f00, 0x1200, UROCE_MR_COPIED, UROCE_NONE, 0, UROCE_WHY_HEAP_PAGE, 0}})
          .As<uroce_reg_mr_reply>();
  using Mode = std::pair<std::string, size_t>;
  EXPECT_EQ(ModeOf(older.lkey), Mode("copied", 1));
  for (int round = 0; round < 3; ++round) {
    const uint32_t segment =
        program.client.Call(UROCE_CREATE_SEGMENT, uroce_create_segment{0x6000, 0x1000}).handle();
    const Answer newer = program.RegisterMapped(0x6000, 0x1000, segment, round == 0 ? 0 : 7);
    ASSERT_EQ(newer.error, 0) << newer.text;
    EXPECT_EQ(ModeOf(older.lkey), Mode("mixed", 3));
    EXPECT_EQ(program.client.Handle(UROCE_DEREG_MR, newer.As<uroce_reg_mr_reply>().handle).error,
              0);
    EXPECT_EQ(program.client.Handle(UROCE_DESTROY_SEGMENT, segment).error, 0);
  }
  EXPECT_EQ(ModeOf(older.lkey), Mode("mixed", 3));
  EXPECT_EQ(program.client.Handle(UROCE_DEREG_MR, older.handle).error, 0);
}

TEST(ControlTest, AQueuePairIsConnectedAndAskedForItsState) {
  Program1 program;
  const uint32_t qp = program.MakeQp().As<uroce_create_qp_reply>().handle;
  const auto modify = [&](const uroce_qp_attr& attr) { return program.Modify(qp, attr).error; };
  EXPECT_EQ(modify(ToRts()), EINVAL) << "not from RESET";
  EXPECT_EQ(modify(ToInit()), 0);
  EXPECT_EQ(modify(ToRtr(GidOf("10.0.0.2"), 9)), EINVAL) << "an empty slot of the GID table";
  EXPECT_EQ(modify(ToRtr(GidOf("10.0.0.2"), 2)), EINVAL) << "an IPv6 source to an IPv4 destination";
  EXPECT_EQ(modify(ToRtr(GidOf("10.0.0.77"), 1)), ETIMEDOUT) << "nobody there";
  auto query = program.client.Handle(UROCE_QUERY_QP, qp).As<uroce_qp_attr>();
  EXPECT_EQ(query.qp_state, IBV_QPS_INIT) << "what failed has changed nothing";
  EXPECT_EQ(modify(ToRtr(GidOf("10.0.0.2"), 1)), 0);
  EXPECT_EQ(modify(ToRts()), 0);
  query = program.client.Handle(UROCE_QUERY_QP, qp).As<uroce_qp_attr>();
  EXPECT_EQ(query.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(query.cur_qp_state, IBV_QPS_RTS);
  EXPECT_EQ(query.dest_qp_num, 77u);
  EXPECT_EQ(query.rq_psn, 0xabcdefu);
  EXPECT_EQ(query.sq_psn, 0x123u);
  EXPECT_EQ(query.timeout, 14);
  EXPECT_EQ(query.cap.max_send_wr, 16u);
  uroce_qp_attr reset{};
  reset.attr_mask = IBV_QP_STATE;
  EXPECT_EQ(modify(reset), 0);
  query = program.client.Handle(UROCE_QUERY_QP, qp).As<uroce_qp_attr>();
  EXPECT_EQ(query.qp_state, IBV_QPS_RESET);
  EXPECT_EQ(query.dest_qp_num, 0u);
  EXPECT_EQ(query.cap.max_send_wr, 16u);
}

uroce_ah_attr AddressVectorTo(const Gid& dgid, uint8_t sgid_index) {
  return ToRtr(dgid, sgid_index).ah_attr;
}

TEST(ControlTest, AnAddressHandleNeedsAWayThere) {
  Program1 program;
  const auto create = [&](const uroce_ah_attr& attr) {
    return program.client.Call(UROCE_CREATE_AH, uroce_create_ah{program.pd, attr});
  };
  EXPECT_EQ(create(AddressVectorTo(GidOf("10.0.0.2"), 9)).error, EINVAL) << "an empty slot";
  EXPECT_EQ(create(AddressVectorTo(GidOf("10.0.0.2"), 2)).error, EINVAL) << "two families";
  EXPECT_EQ(create(AddressVectorTo(Gid{}, 2)).error, EINVAL) << "no address";
  EXPECT_EQ(create(AddressVectorTo(GidOf("10.0.0.77"), 1)).error, ETIMEDOUT) << "nobody there";
  uroce_ah_attr local = AddressVectorTo(GidOf("10.0.0.2"), 1);
  local.is_global = 0;
  EXPECT_EQ(create(local).error, EINVAL);
  const Answer made = create(AddressVectorTo(GidOf("10.0.0.2"), 1));
  EXPECT_EQ(made.error, 0) << made.text;
  EXPECT_EQ(program.client.Handle(UROCE_DEALLOC_PD, program.pd).error, EBUSY);
  EXPECT_EQ(program.client.Handle(UROCE_DESTROY_AH, made.handle()).error, 0);
  EXPECT_EQ(program.client.Handle(UROCE_DESTROY_AH, made.handle()).error, EINVAL) << "twice";
}

TEST(ControlTest, QueuePairsOfEachService) {
  Program1 program;
  const uint32_t ud =
      program.MakeQp({16, 16, 1, 1, 0}, IBV_QPT_UD).As<uroce_create_qp_reply>().handle;
  uroce_qp_attr attr{};
  attr.attr_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qkey = 0x11111111;
  EXPECT_EQ(program.Modify(ud, attr).error, 0);
  EXPECT_EQ(program.client.Handle(UROCE_QUERY_QP, ud).As<uroce_qp_attr>().qkey, 0x11111111u);
  EXPECT_EQ(program.MakeQp({16, 16, 1, 1, 0}, IBV_QPT_UC).error, 0);
  std::set<std::string> types;
  const Json dump = Dump(UROCE_DUMP_QP);
  for (const Json& qp : dump["qps"]) types.insert(qp["type"]);
  EXPECT_EQ(types, (std::set<std::string>{"UC", "UD"}));
}

TEST(ControlTest, ASharedReceiveQueueIsBusyWhileQueuePairsTakeFromIt) {
  Program1 program;
  EXPECT_EQ(program.MakeSrq(0).error, EINVAL);
  EXPECT_EQ(program.MakeSrq(1u << 30).error, EINVAL);
  EXPECT_EQ(program.MakeSrq(8, UROCE_MAX_SGE + 1).error, EINVAL);
  const auto srq = program.MakeSrq(100, 3).As<uroce_create_srq_reply>();
  EXPECT_EQ(srq.layout.depth, 128u);
  EXPECT_EQ(srq.layout.max_sge, 3u);
  EXPECT_EQ(program.MakeQp({4, 4, 1, 1, 0}, IBV_QPT_RC, srq.handle + 1).error, EINVAL);
  const auto qp = program.MakeQp({4, 4, 1, 1, 0}, IBV_QPT_RC, srq.handle);
  ASSERT_EQ(qp.error, 0) << qp.text;
  EXPECT_EQ(qp.As<uroce_create_qp_reply>().cap.max_recv_wr, 0u);
  EXPECT_EQ(program.client.Handle(UROCE_DESTROY_SRQ, srq.handle).error, EBUSY);
  EXPECT_EQ(program.client.Handle(UROCE_DEALLOC_PD, program.pd).error, EBUSY);
  const uint32_t handle = qp.As<uroce_create_qp_reply>().handle;
  EXPECT_EQ(program.client.Handle(UROCE_DESTROY_QP, handle).error, 0);
  EXPECT_EQ(program.client.Handle(UROCE_DESTROY_SRQ, srq.handle).error, 0);
  EXPECT_EQ(program.client.Handle(UROCE_DESTROY_SRQ, srq.handle).error, EINVAL) << "twice";
}

TEST(ControlTest, ASharedReceiveQueueIsModified) {
  Program1 program;
  const uint32_t srq = program.MakeSrq(8).As<uroce_create_srq_reply>().handle;
  const auto modify = [&](uint32_t mask, uint32_t max_wr, uint32_t limit) {
    return program.client.Call(UROCE_MODIFY_SRQ, uroce_modify_srq{srq, mask, max_wr, limit});
  };
  EXPECT_EQ(modify(IBV_SRQ_LIMIT, 0, 9).error, EINVAL) << "more than it holds";
  EXPECT_EQ(modify(4, 0, 0).error, EINVAL) << "no such attribute";
  const auto layout = modify(IBV_SRQ_MAX_WR, 300, 0).As<uroce_srq_layout>();
  EXPECT_EQ(layout.depth, 512u);
  const auto query = program.client.Handle(UROCE_QUERY_SRQ, srq).As<uroce_query_srq_reply>();
  EXPECT_EQ(query.max_wr, 512u);
  EXPECT_EQ(query.srq_limit, 0u);
}

TEST(ControlTest, ADumpSaysHowFullSharedReceiveQueuesAre) {
  Program1 program;
  const auto srq = program.MakeSrq(8).As<uroce_create_srq_reply>();
  void* arena = mmap(nullptr, UROCE_ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                     program.hello.fds.at(0).get(), 0);
  ASSERT_NE(arena, MAP_FAILED);
  auto* page =
      reinterpret_cast<uroce_srq_page*>(static_cast<uint8_t*>(arena) + srq.layout.page_offset);
  rings::StoreRelease(page->produced.value, 5u);
  Json shown = Dump(UROCE_DUMP_SRQ)["srqs"].at(0);
  EXPECT_EQ(shown["type"], "BASIC");
  EXPECT_EQ(shown["waiting"], 5);
  EXPECT_EQ(shown["max_wr"], 8);
  EXPECT_EQ(shown["uid"], getuid());
  rings::StoreRelease(page->produced.value, 9u);
  EXPECT_EQ(Dump(UROCE_DUMP_SRQ)["srqs"].at(0)["waiting"], 0) << "more than fits is nobody's word";
  munmap(arena, UROCE_ARENA_BYTES);
}

TEST(ControlTest, DumpsAreJsonThatNamesWhatThereIs) {
  Program1 program;
  const auto qp = program.MakeQp().As<uroce_create_qp_reply>();
  const uint32_t segment =
      program.client.Call(UROCE_CREATE_SEGMENT, uroce_create_segment{0x10000, 0x1000}).handle();
  const auto mr = program.RegisterMapped(0x10000, 0x1000, segment).As<uroce_reg_mr_reply>();
  const Json devices = Dump(UROCE_DUMP_DEVICES)["devices"];
  EXPECT_EQ(devices.at(1)["name"], "uroce1");
  EXPECT_EQ(devices.at(1)["gids"].at(1)["address"], "10.0.0.2");
  EXPECT_TRUE(Dump(UROCE_DUMP_STAT)["devices"].at(0)["counters"].contains("port_rcv_packets"));
  bool found = false;
  const Json qps = Dump(UROCE_DUMP_QP)["qps"];
  for (const Json& entry : qps) {
    if (entry["qpn"] != qp.qp_num) continue;
    found = true;
    EXPECT_EQ(entry["state"], "RESET");
    EXPECT_EQ(entry["pid"], getpid());
  }
  EXPECT_TRUE(found);
  found = false;
  const Json mrs = Dump(UROCE_DUMP_MR)["mrs"];
  for (const Json& entry : mrs) {
    if (std::stoul(entry["key"].get<std::string>(), nullptr, 16) != mr.lkey) continue;
    found = true;
    EXPECT_EQ(entry["mode"], "mapped");
    EXPECT_EQ(entry["length"], 0x1000);
  }
  EXPECT_TRUE(found);
  ControlClient tool(SocketPath());
  EXPECT_EQ(tool.Call(UROCE_DUMP, uroce_dump{99, 0}).error, EINVAL);
}

TEST(ControlTest, ACaptureGetsARingAndTheInterfaces) {
  ControlClient tool(SocketPath());
  uroce_capture request{};
  request.ring_bytes = 1 << 20;
  const Answer answer = tool.Call(UROCE_CAPTURE, request);
  ASSERT_EQ(answer.error, 0) << answer.text;
  const auto reply = answer.As<uroce_capture_reply>();
  EXPECT_EQ(reply.ring_bytes, 1u << 20);
  EXPECT_EQ(reply.interface_count, 2u);
  EXPECT_EQ(answer.body.size(), sizeof(reply) + 2 * sizeof(uroce_capture_interface));
  struct stat file {};
  fstat(answer.fds.at(0).get(), &file);
  EXPECT_EQ(static_cast<uint64_t>(file.st_size), reply.map_bytes);
  EXPECT_EQ(tool.Call(UROCE_CAPTURE, request).error, EINVAL) << "one at a time";
  ControlClient other(SocketPath());
  std::snprintf(request.device, sizeof(request.device), "nobody");
  EXPECT_EQ(other.Call(UROCE_CAPTURE, request).error, ENOENT);
}

size_t QueuePairCount() { return Dump(UROCE_DUMP_QP)["qps"].size(); }

TEST(ControlTest, WhatAProgramLeavesBehindGoesWithIt) {
  const size_t before = QueuePairCount();
  {
    Program1 program;
    for (int i = 0; i < 5; ++i) program.MakeQp();
    EXPECT_EQ(QueuePairCount(), before + 5);
  }
  while (QueuePairCount() != before) sched_yield();  // Its socket's end is an event like others.
}

// A forked child holds the socket open: the parent's death is known by its pidfd.
TEST(ControlTest, AProgramIsOverWhenItsProcessIsThoughItsSocketLives) {
  const size_t before = QueuePairCount();
  const Fd stay(eventfd(0, 0));
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    Program1 program;
    program.MakeQp();
    if (fork() == 0) {
      uint64_t count;
      [[maybe_unused]] const ssize_t got = read(stay.get(), &count, sizeof(count));
      _exit(0);
    }
    [[maybe_unused]] const ssize_t told = write(ready[1], "x", 1);
    pause();
  }
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_EQ(QueuePairCount(), before + 1);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  while (QueuePairCount() != before) sched_yield();
  const uint64_t one = 1;
  EXPECT_EQ(write(stay.get(), &one, sizeof(one)), 8);
  close(ready[0]);
  close(ready[1]);
}

// Random words in well-formed datagrams, from two programs, while a third goes about its business.
TEST(ControlTest, GarbageHarmsNobody) {
  Program1 bystander;
  std::mt19937 engine(11);
  const auto random = [&engine] { return static_cast<uint32_t>(engine()); };
  for (int round = 0; round < 20; ++round) {
    Program1 program(round % 2);
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

TEST(ControlTest, ALargeRegionIsBroughtInWithoutHoldingOthersUp) {
  Program1 program;
  constexpr uint64_t kLength = 64 << 20;
  const uint32_t segment =
      program.client.Call(UROCE_CREATE_SEGMENT, uroce_create_segment{0x10000, kLength}).handle();
  const auto mr = program.RegisterMapped(0x10000, kLength, segment).As<uroce_reg_mr_reply>();
  EXPECT_NE(mr.lkey, 0u);
  EXPECT_EQ(program.client.Handle(UROCE_DEREG_MR, mr.handle).error, 0);
}

TEST(ControlTest, CopiedMemoryIsNotSharedBetweenPrograms) {
  Program1 maker;
  const Fd memory(open("/proc/self/mem", O_RDWR | O_CLOEXEC));
  ASSERT_EQ(Lend(maker.hello.fds[2].get(), LendMemory(), memory.get()).error, 0);
  const Answer opened = maker.client.Call(UROCE_OPEN_CONTEXT, uroce_open_context{0, 0});
  const uint32_t pd = maker.client.Handle(UROCE_ALLOC_PD, opened.handle()).handle();
  const uroce_reg_mr request{pd, 7, 0x5000, 64, 0x5000, 1, UROCE_NONE};
  const std::vector<uroce_mr_segment> copied = {
      {0x5000, 64, UROCE_MR_COPIED, UROCE_NONE, 0, UROCE_WHY_STACK, 0}};
  const uint32_t mr = maker.Register(request, copied).handle();

  Program1 other;
  const uint32_t context = other.client.Call(UROCE_IMPORT_CONTEXT, NameOf(opened)).handle();
  EXPECT_EQ(other.client.Call(UROCE_IMPORT_PD, uroce_import{context, pd}).error, EOPNOTSUPP);
  ASSERT_EQ(maker.client.Handle(UROCE_DEREG_MR, mr).error, 0);
  ASSERT_EQ(other.client.Call(UROCE_IMPORT_PD, uroce_import{context, pd}).error, 0);
  EXPECT_EQ(maker.Register(request, copied).error, EOPNOTSUPP);
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
