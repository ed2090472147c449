// SPDX-License-Identifier: Apache-2.0
// In which order the objects of a program end: with its context, and with the program.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nic/devices/nic_device.h"
#include "nic/net/address.h"
#include "nic/objects/nic.h"
#include "nic/objects/numbers.h"
#include "nic/objects/resources.h"
#include "nic/settings/config.h"
#include "pipeline/os/shared_memory.h"
#include "pipeline/shm/abi/uroce_stage.h"
#include "pipeline/shm/rings/doorbells.h"
#include "pipeline/shm/rings/shared_word.h"
#include "tests/nic/control/client.h"
#include "tests/nic/control/hand_daemon.h"
#include "tests/nic/control/memory/lending.h"

namespace uroce::nic {
namespace {

constexpr uint32_t kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
constexpr uint64_t kAddr = 0x10000000;
constexpr uint64_t kBytes = 8 << 20;

HandDaemon* daemon_under_test = nullptr;
HandDaemon& Daemon() { return *daemon_under_test; }

/// The programs of one test have gone when the next one begins.
class TeardownTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { daemon_under_test = new HandDaemon(Limits()); }
  static void TearDownTestSuite() { delete daemon_under_test; }
  void TearDown() override { AwaitPrograms(0); }

  static void AwaitPrograms(size_t count) {
    Daemon().TurnUntil([count] { return Daemon().server().connection_count() == count; });
  }
};

/// A program that has one object of each kind, and uses each by all that can use it. `depth`: of
/// its send queues.
class Owner {
 public:
  explicit Owner(uint32_t device = 0, uint32_t depth = 16)
      : client_(Daemon().socket_path()), depth_(depth) {
    hello_ = Call(UROCE_HELLO, uroce_hello{UROCE_ABI_VERSION, 0});
    context = Call(UROCE_OPEN_CONTEXT, uroce_open_context{device, 0}).handle();
    pd = Handle(UROCE_ALLOC_PD, context).handle();
    channel = Handle(UROCE_CREATE_CHANNEL, context).handle();
    cq = Call(UROCE_CREATE_CQ, uroce_create_cq{context, 4 * depth, 1, channel, 0}).handle();
  }

  template <typename T>
  Answer Call(uint32_t command, const T& body) {
    return Daemon().Call(client_, command, body);
  }
  Answer Handle(uint32_t command, uint32_t handle) {
    return Call(command, uroce_handle{handle, 0});
  }

  void MakeMemory() {
    const Answer segment = Call(UROCE_CREATE_SEGMENT, uroce_create_segment{kAddr, kBytes});
    struct {
      uroce_reg_mr request;
      uroce_mr_segment segment;
    } message{};
    message.request = {pd, kAccess | IBV_ACCESS_MW_BIND, kAddr, kBytes, kAddr, 1, UROCE_NONE};
    message.segment = {kAddr, kBytes, UROCE_MR_MAPPED, segment.handle(), 0, 0, 0};
    const auto made = Call(UROCE_REG_MR, message).As<uroce_reg_mr_reply>();
    mr = made.handle;
    key = made.lkey;
    mw = Call(UROCE_ALLOC_MW, uroce_alloc_mw{pd, IBV_MW_TYPE_2}).handle();
  }
  uroce_create_qp_reply MakeQueuePair(uint32_t type, uint32_t its_srq = UROCE_NONE) {
    const bool has_srq = its_srq != UROCE_NONE;
    return Call(UROCE_CREATE_QP, uroce_create_qp{pd,
                                                 type,
                                                 cq,
                                                 cq,
                                                 1,
                                                 0,
                                                 {depth_, 16, 1, 1, 0},
                                                 has_srq ? 1u : 0,
                                                 has_srq ? its_srq : 0})
        .As<uroce_create_qp_reply>();
  }
  int Connect(uint32_t queue_pair, const char* peer, uint32_t peer_qpn) {
    uroce_modify_qp modify{};
    modify.handle = queue_pair;
    uroce_qp_attr& attr = modify.attr;
    attr.attr_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = kAccess;
    if (const int error = Call(UROCE_MODIFY_QP, modify).error) return error;
    attr.attr_mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_4096;
    attr.dest_qp_num = peer_qpn;
    attr.ah_attr = VectorTo(peer);
    if (const int error = Call(UROCE_MODIFY_QP, modify).error) return error;
    attr.attr_mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 10;
    attr.retry_cnt = 2;
    return Call(UROCE_MODIFY_QP, modify).error;
  }
  static uroce_ah_attr VectorTo(const char* peer) {
    uroce_ah_attr vector{};
    vector.is_global = 1;
    vector.port_num = 1;
    vector.sgid_index = 1;
    const Gid gid = ParseInterfaceAddress(peer)->gid;
    std::copy(gid.bytes.begin(), gid.bytes.end(), vector.dgid);
    return vector;
  }

  void MakeAddress() {
    ah = Call(UROCE_CREATE_AH, uroce_create_ah{pd, VectorTo("10.0.0.2")}).handle();
  }
  void MakeAllKinds() {
    MakeMemory();
    MakeAddress();
    srq =
        Call(UROCE_CREATE_SRQ, uroce_create_srq{pd, 16, 1, 0, 1, IBV_SRQT_BASIC, 0, 0, 0}).handle();
    qp = MakeQueuePair(IBV_QPT_RC, srq).handle;
    ud = MakeQueuePair(IBV_QPT_UD).handle;
    uroce_mcast join{ud, 0, {}};
    const Gid group{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 2, 3}};
    std::copy(group.bytes.begin(), group.bytes.end(), join.gid);
    EXPECT_EQ(Call(UROCE_ATTACH_MCAST, join).error, 0);
    xrcd = Call(UROCE_OPEN_XRCD, uroce_open_xrcd{context, UROCE_NONE, 0, 0}).handle();
    xrc_srq = Call(UROCE_CREATE_SRQ, uroce_create_srq{pd, 16, 1, 0, 1, IBV_SRQT_XRC, xrcd, cq, 0})
                  .handle();
    target =
        Call(UROCE_CREATE_TARGET, uroce_create_target{xrcd, 0, 1}).As<uroce_target_reply>().handle;
  }

  const Fd& arena() const { return hello_.fds[0]; }
  const Fd& wake_fd() const { return hello_.fds[1]; }
  const Fd& lend_socket() const { return hello_.fds[2]; }
  ControlClient& client() { return client_; }
  uint32_t context = 0, pd = 0, channel = 0, cq = 0, mr = 0, key = 0, mw = 0, ah = 0, srq = 0;
  uint32_t qp = 0, ud = 0, xrcd = 0, xrc_srq = 0, target = 0;

 private:
  ControlClient client_;
  uint32_t depth_;
  Answer hello_;
};

// What a program keeps when its contexts are closed: its session, a segment, and the table of its
// address handles.
std::string HeldByAProgramWithoutContexts() {
  Owner owner;
  owner.MakeMemory();
  owner.MakeAddress();
  EXPECT_EQ(owner.Handle(UROCE_CLOSE_CONTEXT, owner.context).error, 0);
  return Daemon().Held();
}

// Each kind needs others, which refuse to go before it: an object that is left would have its
// context's objects refused one by one.
TEST_F(TeardownTest, AContextTakesObjectsOfAllKindsWithIt) {
  auto owner = std::make_unique<Owner>();
  owner->MakeAllKinds();
  const std::vector<std::pair<uint32_t, uint32_t>> ends = {
      {UROCE_DESTROY_QP, owner->qp},        {UROCE_DESTROY_QP, owner->ud},
      {UROCE_DESTROY_QP, owner->target},    {UROCE_DESTROY_AH, owner->ah},
      {UROCE_DESTROY_SRQ, owner->srq},      {UROCE_DESTROY_SRQ, owner->xrc_srq},
      {UROCE_DEALLOC_MW, owner->mw},        {UROCE_DEREG_MR, owner->mr},
      {UROCE_DEALLOC_PD, owner->pd},        {UROCE_DESTROY_CQ, owner->cq},
      {UROCE_CLOSE_XRCD, owner->xrcd},      {UROCE_DESTROY_CHANNEL, owner->channel},
      {UROCE_CLOSE_CONTEXT, owner->context}};
  for (const auto& [command, handle] : {std::pair<uint32_t, uint32_t>{UROCE_DESTROY_QP, owner->ud},
                                        {UROCE_DESTROY_SRQ, owner->srq},
                                        {UROCE_DEALLOC_PD, owner->pd},
                                        {UROCE_DESTROY_CQ, owner->cq},
                                        {UROCE_CLOSE_XRCD, owner->xrcd},
                                        {UROCE_DESTROY_CHANNEL, owner->channel}}) {
    EXPECT_EQ(owner->Handle(command, handle).error, EBUSY) << "command " << command;
  }
  EXPECT_EQ(owner->Handle(UROCE_CLOSE_CONTEXT, owner->context).error, 0);
  for (const auto& [command, handle] : ends) {
    EXPECT_EQ(owner->Handle(command, handle).error, ENOENT) << "command " << command;
  }
  const std::string held = Daemon().Held();
  EXPECT_TRUE(held.starts_with("segment 1\nown bytes ")) << held;
  owner.reset();
  AwaitPrograms(0);
  EXPECT_EQ(held, HeldByAProgramWithoutContexts());
}

TEST_F(TeardownTest, AProgramThatEndsLeavesNothingOfAnyKind) {
  auto owner = std::make_unique<Owner>();
  owner->MakeAllKinds();
  EXPECT_EQ(Daemon().nic().numbers().queue_pairs.held(), 3u);
  EXPECT_EQ(Daemon().nic().numbers().keys.held(), 2u);
  owner.reset();
  AwaitPrograms(0);
  EXPECT_EQ(Daemon().Held(), "");
}

/// Writes all of its region into the peer's, again and again: 16 GiB. The first completion is that
/// of the first request, the second one that of the last or of an error.
class Writer : public Owner {
 public:
  static constexpr uint32_t kWrites = 2048;

  Writer() : Owner(0, kWrites) {
    MakeMemory();
    queue_ = MakeQueuePair(IBV_QPT_RC);
  }
  uint32_t handle() const { return queue_.handle; }
  uint32_t qpn() const { return queue_.qp_num; }

  void Start(uint32_t rkey) {
    for (uint32_t i = 0; i < kWrites; ++i) {
      struct {
        uroce_send_wqe wqe;
        uroce_sge sge;
      } slot{};
      slot.wqe.wr_id = i;
      slot.wqe.opcode = IBV_WR_RDMA_WRITE;
      if (i == 0 || i + 1 == kWrites) slot.wqe.flags = UROCE_SEND_SIGNALED;
      slot.wqe.num_sge = 1;
      slot.wqe.remote_addr = kAddr;
      slot.wqe.rkey = rkey;
      slot.sge = {kAddr, static_cast<uint32_t>(kBytes), key};
      std::memcpy(At<uint8_t>(queue_.sq_offset + uint64_t{i} * queue_.sq_slot_bytes), &slot,
                  sizeof(slot));
    }
    rings::StoreRelease(At<uroce_qp_page>(queue_.page_offset)->sq_produced.value, kWrites);
    static_cast<void>(
        rings::Ring(*At<uroce_doorbells>(UROCE_DOORBELLS_OFFSET), queue_.doorbell_slot));
    const uint64_t one = 1;
    EXPECT_EQ(write(wake_fd().get(), &one, sizeof(one)), 8);
  }
  /// The status of the n-th completion, once it is there.
  uint32_t AwaitStatus(uint32_t index) {
    const uroce_cqe& cqe = At<uroce_cqe>(queue_.send_ring.cqe_offset)[index];
    Daemon().TurnUntil([&] { return rings::LoadAcquire(cqe.generation) != 0; });
    return cqe.status;
  }

 private:
  template <typename T>
  T* At(uint64_t offset) const {
    return reinterpret_cast<T*>(mapping_.data() + offset);
  }

  uroce_create_qp_reply queue_{};
  const Mapping mapping_{mmap(nullptr, UROCE_ARENA_BYTES, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_NORESERVE, arena().get(), 0),
                         UROCE_ARENA_BYTES};
};

// The queue pairs of a program go before its keys: to its peers it is silent, as a machine that is
// switched off. Otherwise what they write meanwhile would be refused.
TEST_F(TeardownTest, PeersOfAProgramThatEndsHearNothing) {
  for (int round = 0; round < 10; ++round) {
    Writer writer;
    auto target = std::make_unique<Owner>(1);
    target->MakeMemory();
    const uroce_create_qp_reply to = target->MakeQueuePair(IBV_QPT_RC);
    ASSERT_EQ(target->Connect(to.handle, "10.0.0.1", writer.qpn()), 0);
    ASSERT_EQ(writer.Connect(writer.handle(), "10.0.0.2", to.qp_num), 0);
    writer.Start(target->key);
    EXPECT_EQ(writer.AwaitStatus(0), IBV_WC_SUCCESS);
    target.reset();  // While the others are on their way.
    EXPECT_EQ(writer.AwaitStatus(1), IBV_WC_RETRY_EXC_ERR) << "round " << round;
  }
}

/// A program with memory of a device, which answers for a copy when it is told to, and a queue pair
/// that a peer writes to there.
class SlowTarget : public Owner {
 public:
  explicit SlowTarget(Writer& writer) : Owner(1) {
    MakeStagedMemory();
    const uroce_create_qp_reply made = MakeQueuePair(IBV_QPT_RC);
    queue_pair = made.handle;
    EXPECT_EQ(Connect(queue_pair, "10.0.0.1", writer.qpn()), 0);
    EXPECT_EQ(writer.Connect(writer.handle(), "10.0.0.2", made.qp_num), 0);
    writer.Start(key);
    while (rings::LoadAcquire(stage().requested) == 0) std::this_thread::yield();
  }
  template <typename T>
  void Post(uint32_t command, const T& body) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(&body);
    client().Post(command, {bytes, bytes + sizeof(body)});
  }
  void AnswerForTheCopy() {
    rings::StoreRelease(stage().served, rings::LoadAcquire(stage().requested));
    syscall(SYS_futex, &stage().served, FUTEX_WAKE, 1, nullptr, nullptr, 0);
  }
  Answer AwaitAnswer() {
    Answer answer;
    Daemon().TurnUntil([&] { return !(answer = client().Receive(MSG_DONTWAIT)).hung_up; });
    return answer;
  }
  bool HasAnswer() { return !client().Receive(MSG_DONTWAIT | MSG_PEEK).hung_up; }

  uint32_t queue_pair = 0;

 private:
  uroce_stage& stage() const { return *reinterpret_cast<uroce_stage*>(stage_.data()); }
  void MakeStagedMemory() {
    const Fd memory(open("/proc/self/mem", O_RDWR | O_CLOEXEC));
    SendLend(lend_socket().get(), LendMemory(), memory.get(), sizeof(uroce_lend));
    uroce_lend_reply lent{};
    Daemon().TurnUntil(
        [&] { return recv(lend_socket().get(), &lent, sizeof(lent), MSG_DONTWAIT) > 0; });
    EXPECT_EQ(lent.error, 0);
    client().Post(UROCE_CREATE_STAGE, {});
    const Answer made = AwaitAnswer();
    stage_ = *MapShared(made.fds.at(0).get(), sizeof(uroce_stage));
    struct {
      uroce_reg_mr request;
      uroce_mr_segment segment;
    } message{};
    message.request = {pd, kAccess, kAddr, kBytes, kAddr, 1, UROCE_NONE};
    message.segment = {kAddr, kBytes, UROCE_MR_STAGED, UROCE_NONE, 0, UROCE_WHY_DEVICE, 0};
    key = Call(UROCE_REG_MR, message).As<uroce_reg_mr_reply>().lkey;
  }

  Mapping stage_;
};

// What is under way for a queue pair must not come over what the program does with its memory
// afterwards.
TEST_F(TeardownTest, AQueuePairIsResetOrEndsWhenNoCopyWritesForIt) {
  uroce_modify_qp reset{};
  reset.attr.attr_mask = IBV_QP_STATE;
  reset.attr.qp_state = IBV_QPS_RESET;
  for (const bool ends : {false, true}) {
    Writer writer;
    SlowTarget target(writer);
    reset.handle = target.queue_pair;
    ends ? target.Post(UROCE_DESTROY_QP, uroce_handle{target.queue_pair, 0})
         : target.Post(UROCE_MODIFY_QP, reset);
    const Owner other;  // The daemon executes the commands of others.
    EXPECT_NE(other.cq, UROCE_NONE);
    EXPECT_FALSE(target.HasAnswer()) << ends;
    target.AnswerForTheCopy();
    EXPECT_EQ(target.AwaitAnswer().error, 0) << ends;
  }
}

TEST_F(TeardownTest, AProgramEndsWhileItsQueuePairWaitsForACopy) {
  Writer writer;
  auto target = std::make_unique<SlowTarget>(writer);
  target->Post(UROCE_DESTROY_QP, uroce_handle{target->queue_pair, 0});
  const Owner other;
  EXPECT_FALSE(target->HasAnswer());
  target.reset();
  AwaitPrograms(2);
}

}  // namespace
}  // namespace uroce::nic
