// SPDX-License-Identifier: Apache-2.0
// Which worker has a queue pair before and after it is connected, in a daemon with two, and which
// connection moves when one of them has too much to do.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "nic/net/address.h"
#include "nic/objects/balancer.h"
#include "nic/objects/nic.h"
#include "nic/objects/numbers.h"
#include "nic/objects/program.h"
#include "pipeline/datapath/worker/worker.h"
#include "tests/nic/control/client.h"
#include "tests/nic/control/hand_daemon.h"
#include "tests/nic/paths/paths_bed.h"

namespace uroce::nic {
namespace {

HandDaemon& Daemon() {
  static auto* const daemon = new HandDaemon({}, 2);
  return *daemon;
}

/// A program with a context of one device of the wire.
class Program {
 public:
  explicit Program(uint32_t device) : client_(Daemon().socket_path()) {
    Call(UROCE_HELLO, uroce_hello{UROCE_ABI_VERSION, 0});
    context_ = Call(UROCE_OPEN_CONTEXT, uroce_open_context{device, 0}).handle();
    pd_ = Call(UROCE_ALLOC_PD, uroce_handle{context_, 0}).handle();
    cq_ = Call(UROCE_CREATE_CQ, uroce_create_cq{context_, 16, 1, UROCE_NONE, 0}).handle();
  }

  template <typename T>
  Answer Call(uint32_t command, const T& body) {
    return Daemon().Call(client_, command, body);
  }
  uroce_create_qp_reply Make(uint32_t type = IBV_QPT_RC, bool with_srq = false) {
    uint32_t srq = 0;
    if (with_srq) {
      srq = Call(UROCE_CREATE_SRQ, uroce_create_srq{pd_, 16, 1, 0, 1, 0, 0, 0, 0})
                .As<uroce_create_srq_reply>()
                .handle;
    }
    return Call(UROCE_CREATE_QP,
                uroce_create_qp{
                    pd_, type, cq_, cq_, 1, 0, {16, 16, 1, 1, 0}, with_srq ? 1u : 0, srq})
        .As<uroce_create_qp_reply>();
  }
  int Modify(const uroce_create_qp_reply& made, const uroce_qp_attr& attr) {
    return Call(UROCE_MODIFY_QP, uroce_modify_qp{made.handle, attr}).error;
  }
  Answer Place(const uroce_create_qp_reply& made, const uroce_qp_attr& attr) {
    return Call(UROCE_PLACE_QP, uroce_modify_qp{made.handle, attr});
  }

 private:
  ControlClient client_;
  uint32_t context_ = 0;
  uint32_t pd_ = 0;
  uint32_t cq_ = 0;
};

uroce_qp_attr Init() {
  uroce_qp_attr attr{};
  attr.attr_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  return attr;
}

uroce_qp_attr ReadyToReceive(const char* peer, const uroce_create_qp_reply& remote) {
  uroce_qp_attr attr{};
  attr.attr_mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_4096;
  attr.dest_qp_num = remote.qp_num;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.sgid_index = 1;
  const Gid gid = ParseInterfaceAddress(peer)->gid;
  std::copy(gid.bytes.begin(), gid.bytes.end(), attr.ah_attr.dgid);
  return attr;
}

/// One program on each end of the wire. The first queue pairs of each end are on worker 0.
class PlacementTest : public testing::Test {
 protected:
  /// Programs of the test before have ended.
  void SetUp() override {
    Daemon().TurnUntil([] { return CountOn(0) + CountOn(1) == 0; });
  }
  /// Brings a queue pair to INIT and places it for a connection to `remote`.
  uroce_place_qp_reply Place(Program& program, const uroce_create_qp_reply& made, const char* peer,
                             const uroce_create_qp_reply& remote) {
    EXPECT_EQ(program.Modify(made, Init()), 0);
    const Answer placed = program.Place(made, ReadyToReceive(peer, remote));
    EXPECT_EQ(placed.error, 0);
    return placed.As<uroce_place_qp_reply>();
  }
  static uint32_t OwnerOf(const uroce_create_qp_reply& made) {
    return Daemon().nic().workers().OwnerOf(Qpn(made.qp_num)).index();
  }
  static uint32_t CountOn(uint32_t worker) {
    return Daemon().nic().numbers().queue_pairs.count_on(worker);
  }

  Program a_{0};
  Program b_{1};
};

TEST_F(PlacementTest, CrossedConnectionsUncross) {
  const auto a0 = a_.Make();
  const auto a1 = a_.Make();
  const auto b0 = b_.Make();
  const auto b1 = b_.Make();
  ASSERT_EQ(a0.worker, b0.worker);
  ASSERT_NE(a0.worker, b1.worker);
  EXPECT_EQ(Place(a_, a0, "10.0.0.2", b1).worker, a0.worker) << "its peer will follow";
  const auto placed = Place(b_, b1, "10.0.0.1", a0);
  EXPECT_EQ(placed.worker, a0.worker);
  EXPECT_EQ(Place(a_, a1, "10.0.0.2", b0).worker, a1.worker);
  EXPECT_EQ(Place(b_, b0, "10.0.0.1", a1).worker, a1.worker);
  EXPECT_EQ(OwnerOf(b1), a0.worker);
  EXPECT_EQ(OwnerOf(b0), a1.worker);
  EXPECT_EQ(CountOn(0), 2u);
  EXPECT_EQ(CountOn(1), 2u);
  EXPECT_EQ(b_.Modify(b1, ReadyToReceive("10.0.0.1", a0)), 0) << "its worker is asked";
}

TEST_F(PlacementTest, AQueuePairMovesOnce) {
  const auto a0 = a_.Make();
  b_.Make();
  const auto b1 = b_.Make();
  Place(a_, a0, "10.0.0.2", b1);
  ASSERT_EQ(Place(b_, b1, "10.0.0.1", a0).worker, a0.worker);
  const auto a1 = a_.Make();
  ASSERT_NE(a1.worker, a0.worker);
  Place(a_, a1, "10.0.0.2", b1);
  const Answer again = b_.Place(b1, ReadyToReceive("10.0.0.1", a1));
  EXPECT_EQ(again.error, 0);
  EXPECT_EQ(again.As<uroce_place_qp_reply>().worker, a0.worker);
}

TEST_F(PlacementTest, AQueuePairMovesInInitAlone) {
  const auto a0 = a_.Make();
  b_.Make();
  const auto b1 = b_.Make();
  Place(a_, a0, "10.0.0.2", b1);
  const Answer in_reset = b_.Place(b1, ReadyToReceive("10.0.0.1", a0));
  EXPECT_EQ(in_reset.As<uroce_place_qp_reply>().worker, b1.worker);
  EXPECT_EQ(OwnerOf(b1), b1.worker);
}

TEST_F(PlacementTest, AQueuePairOfASharedReceiveQueueStaysAndItsPeerFollows) {
  a_.Make();
  const auto a1 = a_.Make();
  const auto shared = b_.Make(IBV_QPT_RC, /*with_srq=*/true);
  const auto other = a1.worker == shared.worker ? a_.Make() : a1;
  ASSERT_NE(other.worker, shared.worker);
  EXPECT_EQ(Place(a_, other, "10.0.0.2", shared).worker, shared.worker);
  EXPECT_EQ(Place(b_, shared, "10.0.0.1", other).worker, shared.worker);
}

TEST_F(PlacementTest, AQueuePairWhosePeerIsElsewhereStays) {
  const auto a0 = a_.Make();
  const auto a1 = a_.Make();
  const auto b0 = b_.Make();
  ASSERT_NE(a1.worker, b0.worker);
  ASSERT_EQ(Place(b_, b0, "10.0.0.1", a0).worker, b0.worker) << "it stays from now on";
  EXPECT_EQ(Place(a_, a1, "10.0.0.77", b0).worker, a1.worker)
      << "a host elsewhere has a queue pair with the same number";
}

TEST_F(PlacementTest, DatagramsAndUnknownQueuePairs) {
  const auto datagrams = a_.Make(IBV_QPT_UD);
  const auto b0 = b_.Make();
  const Answer placed = a_.Place(datagrams, ReadyToReceive("10.0.0.2", b0));
  EXPECT_EQ(placed.As<uroce_place_qp_reply>().worker, datagrams.worker);
  uroce_create_qp_reply unknown{};
  unknown.handle = 12345;
  EXPECT_NE(a_.Place(unknown, ReadyToReceive("10.0.0.2", b0)).error, 0);
}

TEST_F(PlacementTest, AMovedQueuePairLeavesNothing) {
  {
    Program c(0);
    Program d(1);
    const auto c0 = c.Make();
    d.Make();
    const auto d1 = d.Make();
    Place(c, c0, "10.0.0.2", d1);
    ASSERT_EQ(Place(d, d1, "10.0.0.1", c0).worker, c0.worker);
    uroce_create_qp_reply moved = d1;
    EXPECT_EQ(d.Call(UROCE_DESTROY_QP, uroce_handle{moved.handle, 0}).error, 0);
    EXPECT_EQ(OwnerOf(moved), moved.worker) << "the number says its worker again";
  }
  // Those that were not destroyed end with their programs.
  Daemon().TurnUntil([] { return CountOn(0) + CountOn(1) == 0; });
  EXPECT_EQ(Daemon().nic().numbers().connections.connected_on(0), 0u);
  EXPECT_EQ(Daemon().nic().numbers().connections.connected_on(1), 0u);
}

/// Three connections, of which the first and the third are on worker 0.
class BalancerTest : public PlacementTest {
 protected:
  struct Connection {
    uroce_create_qp_reply a{};
    uroce_create_qp_reply b{};
  };

  void SetUp() override {
    PlacementTest::SetUp();
    for (Connection& connection : connections_) {
      connection = {.a = a_.Make(), .b = b_.Make()};
      Place(a_, connection.a, "10.0.0.2", connection.b);
      Place(b_, connection.b, "10.0.0.1", connection.a);
      ASSERT_EQ(a_.Modify(connection.a, ReadyToReceive("10.0.0.2", connection.b)), 0);
      ASSERT_EQ(b_.Modify(connection.b, ReadyToReceive("10.0.0.1", connection.a)), 0);
    }
    ASSERT_EQ(Workers(), (std::vector<uint32_t>{0, 1, 0}));
  }
  /// As if the first end had sent as many packets more.
  static void Send(const Connection& connection, uint64_t packets) {
    At(connection, [&](datapath::QueuePair& qp) { qp.traffic().sent_packets += packets; });
  }
  void Send(const std::vector<uint64_t>& packets) {
    for (size_t i = 0; i < packets.size(); ++i) Send(connections_[i], packets[i]);
  }
  void Look(double busy0, double busy1) { balancer_.Look(std::array{busy0, busy1}); }
  /// The worker of each connection.
  std::vector<uint32_t> Workers() const {
    std::vector<uint32_t> workers;
    for (const Connection& connection : connections_) {
      EXPECT_EQ(OwnerOf(connection.a), OwnerOf(connection.b));
      workers.push_back(OwnerOf(connection.a));
    }
    return workers;
  }

  std::array<Connection, 3> connections_;
  /// Calls `look` for the first end of a connection, on its worker.
  template <typename Look>
  static void At(const Connection& connection, Look&& look) {
    for (const auto& [id, program] : Daemon().nic().programs()) {
      QueuePairObject* const object = program->queue_pairs().FindOwn(Qpn(connection.a.qp_num));
      if (object == nullptr) continue;
      datapath::QueuePair& qp = object->queue_pair;
      Daemon().nic().OwnerOf(qp).Run([&] { look(qp); });
    }
  }
  /// A completion that the program does not poll.
  static void Complete(const Connection& connection) {
    At(connection, [&](datapath::QueuePair& qp) {
      datapath::CompletionRing& ring = *qp.config().send_ring;
      ASSERT_EQ(ring.Publish({}, qp.config().handle, qp.qpn()), datapath::PublishResult::kOk);
      ring.FinishBurst();
    });
  }
  /// As if the program had polled it.
  static void Poll(const Connection& connection) {
    At(connection, [](datapath::QueuePair& qp) {
      rings::StoreRelease(qp.config().send_ring->layout().page->consumed.value, 1u);
    });
  }
  static bool IsPaused(const Connection& connection) {
    bool is_paused = false;
    At(connection, [&](datapath::QueuePair& qp) { is_paused = qp.is_paused(); });
    return is_paused;
  }

  /// The first connection is to move, but its program has a completion to poll.
  void BeginToMoveTheFirst() {
    Look(1.0, 0.0);
    Send({1000, 0, 900});
    Complete(connections_[0]);
    Look(1.0, 0.0);
  }

  TestTimers timers_;
  Balancer balancer_{Daemon().nic(), timers_, 4};
};

TEST_F(BalancerTest, OneOfTwoBusyConnectionsMoves) {
  Look(1.0, 0.0);
  EXPECT_EQ(balancer_.moved(), 0u) << "it does not show yet which of them are busy";
  Send({1000, 0, 900});
  Look(1.0, 0.0);
  EXPECT_EQ(balancer_.moved(), 1u);
  EXPECT_EQ(Workers(), (std::vector<uint32_t>{1, 1, 0})) << "it leaves the smaller rest";
  EXPECT_EQ(CountOn(0), 2u);
  EXPECT_EQ(CountOn(1), 4u);
  EXPECT_EQ(Daemon().nic().numbers().connections.connected_on(0), 2u);
  EXPECT_EQ(Daemon().nic().numbers().connections.connected_on(1), 4u);
  Send({1000, 0, 900});
  Look(1.0, 1.0);
  Send({1000, 0, 900});
  Look(1.0, 1.0);
  EXPECT_EQ(balancer_.moved(), 1u);
}

TEST_F(BalancerTest, OnlyWhatWasSentOfLateCounts) {
  Send({1'000'000, 0, 0});
  Look(1.0, 0.0);
  Send({500, 0, 1000});
  Look(1.0, 0.0);
  EXPECT_EQ(Workers(), (std::vector<uint32_t>{0, 1, 1}));
}

TEST_F(BalancerTest, ABusyConnectionAloneStays) {
  for (int i = 0; i < 10; ++i) {
    Send({1000, 0, 1});
    Look(1.0, 0.0);
  }
  EXPECT_EQ(balancer_.moved(), 0u);
}

TEST_F(BalancerTest, LooksInVainComeLessOften) {
  int moved_after = 0;
  for (int i = 0; i < 8; ++i) Look(1.0, 0.0);  // Nothing was sent: there is nothing to move.
  for (; balancer_.moved() == 0 && moved_after < 100; ++moved_after) {
    Send({1000, 0, 1000});
    Look(1.0, 0.0);
  }
  EXPECT_GT(moved_after, 1);
  EXPECT_LT(moved_after, 33);
}

TEST_F(BalancerTest, AWorkerThatIsBusyBrieflyIsNotHelped) {
  for (int i = 0; i < 10; ++i) {
    Send({1000, 0, 1000});
    Look(1.0, 0.0);
    Send({1000, 0, 1000});
    Look(0.3, 0.0);
  }
  EXPECT_EQ(balancer_.moved(), 0u);
}

TEST_F(BalancerTest, AConnectionPausesUntilItsProgramPolls) {
  BeginToMoveTheFirst();
  timers_.Run(Balancer::kTryAgain * 3);
  EXPECT_TRUE(IsPaused(connections_[0]));
  EXPECT_EQ(balancer_.moved(), 0u);
  Poll(connections_[0]);
  timers_.Run(Balancer::kTryAgain);
  EXPECT_EQ(balancer_.moved(), 1u);
  EXPECT_FALSE(IsPaused(connections_[0]));
  EXPECT_EQ(Workers(), (std::vector<uint32_t>{1, 1, 0}));
  EXPECT_EQ(timers_.pending(), 0u);
}

TEST_F(BalancerTest, AConnectionWhoseProgramDoesNotPollGoesOnWhereItIs) {
  BeginToMoveTheFirst();
  EXPECT_TRUE(IsPaused(connections_[0]));
  timers_.Run(Balancer::kTryAgain * Balancer::kTries);
  EXPECT_FALSE(IsPaused(connections_[0]));
  EXPECT_EQ(Workers(), (std::vector<uint32_t>{0, 1, 0}));
  EXPECT_EQ(timers_.pending(), 0u);
  // It does not keep another one from moving.
  Poll(connections_[0]);
  Look(1.0, 0.0);
  Send({1000, 0, 900});
  Look(1.0, 0.0);
  EXPECT_EQ(Workers(), (std::vector<uint32_t>{0, 1, 1}));
}

TEST_F(BalancerTest, AnEndWhosePeerGoesMeanwhileGoesOn) {
  BeginToMoveTheFirst();
  ASSERT_TRUE(IsPaused(connections_[0]));
  EXPECT_EQ(b_.Call(UROCE_DESTROY_QP, uroce_handle{connections_[0].b.handle, 0}).error, 0);
  timers_.Run(Balancer::kTryAgain);
  EXPECT_FALSE(IsPaused(connections_[0]));
  EXPECT_EQ(balancer_.moved(), 0u);
}

TEST_F(BalancerTest, AMovedConnectionLeavesNothing) {
  Look(1.0, 0.0);
  Send({1000, 0, 1000});
  Look(1.0, 0.0);
  ASSERT_EQ(balancer_.moved(), 1u);
  for (const Connection& connection : connections_) {
    EXPECT_EQ(a_.Call(UROCE_DESTROY_QP, uroce_handle{connection.a.handle, 0}).error, 0);
    EXPECT_EQ(b_.Call(UROCE_DESTROY_QP, uroce_handle{connection.b.handle, 0}).error, 0);
  }
  for (const uint32_t worker : {0u, 1u}) {
    EXPECT_EQ(CountOn(worker), 0u);
    EXPECT_EQ(Daemon().nic().numbers().connections.connected_on(worker), 0u);
  }
  EXPECT_EQ(OwnerOf(connections_[0].a), connections_[0].a.worker) << "as the number says";
}

}  // namespace
}  // namespace uroce::nic
