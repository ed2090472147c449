// SPDX-License-Identifier: Apache-2.0
// Ids, events and files: what librdmacm counts on beyond single commands.
#include "tests/nic/ucma/ucma_bed.h"

namespace uroce::nic::ucma {
namespace {

constexpr FileId kFile = UcmaProgram::kFile;
constexpr FileId kOtherFile{2};

TEST_F(UcmaTest, WithoutEventsThereIsNothingToGet) {
  EXPECT_EQ(
      client.Write(RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_get_event{}, sizeof(rdma_ucm_event_resp))
          .error,
      EAGAIN);
}

// ucma_event_handler wakes the waiters for each event.
TEST_F(UcmaTest, EachEventIsSignalledAndASignalStaysUntilTheLastIsTaken) {
  for (uint64_t uid = 1; uid <= 3; ++uid) {
    EXPECT_EQ(client.Resolve(client.CreateId(uid), Address(2, kPort)), 0);
  }
  EXPECT_EQ(client.signals(), 0);
  Run();
  EXPECT_EQ(client.signals(), 3);
  for (uint64_t uid = 1; uid <= 3; ++uid) {
    EXPECT_EQ(client.Take(Kind::kAddressResolved).uid, uid);
    EXPECT_EQ(client.signals(), uid < 3 ? 1 : 0);
  }
}

TEST_F(UcmaTest, AnEventBehindAnUnreadOneIsSignalledToo) {
  const uint32_t first = client.CreateId(1);
  const uint32_t second = client.CreateId(2);
  EXPECT_EQ(client.Resolve(first, Address(2, kPort)), 0);
  Run();
  EXPECT_EQ(client.signals(), 1);
  EXPECT_EQ(client.Resolve(second, Address(2, kPort)), 0);
  EXPECT_EQ(client.signals(), 1);
  Run();
  EXPECT_EQ(client.signals(), 2);
}

TEST_F(UcmaTest, AnIdEndsWithTheNumberOfEventsThatWereReportedOfIt) {
  const Pair pair = Connected();
  EXPECT_EQ(client.DestroyId(pair.active), 3u);    // Address, route, response.
  EXPECT_EQ(server.DestroyId(pair.passive), 1u);   // Established.
  EXPECT_EQ(server.DestroyId(pair.listener), 1u);  // The request is its.
}

TEST_F(UcmaTest, AFileIsClosedInPiecesAndTakesNoCommandsMeanwhile) {
  std::vector<uint32_t> ids;
  for (uint64_t uid = 1; uid <= 20; ++uid) {
    ids.push_back(client.CreateId(uid));
    EXPECT_EQ(client.Resolve(ids.back(), Address(2, kPort)), 0);
  }
  Run();
  EXPECT_FALSE(client.files().CloseSome(kFile, 1)) << "events go first";
  EXPECT_EQ(client.files().id_count(), 20u);
  EXPECT_EQ(client.files().event_count(kFile), 4u);
  EXPECT_EQ(client.Resolve(ids[0], Address(200, kPort)), EBADF);
  client.files().Open(kOtherFile);
  EXPECT_EQ(client.Migrate(ids[0], kOtherFile).error, EINVAL);
  EXPECT_FALSE(client.files().CloseSome(kFile, 8));
  EXPECT_EQ(client.files().id_count(), 12u);
  EXPECT_FALSE(client.files().CloseSome(kFile, 8));
  EXPECT_TRUE(client.files().CloseSome(kFile, 8));
  EXPECT_EQ(client.files().id_count(), 0u);
  EXPECT_TRUE(client.files().CloseSome(kFile, 8)) << "it is closed";
}

// A destination on another host's interface is an event at once: again and again.
TEST_F(UcmaTest, AProgramThatReadsNoEventsIsToldSoManyAndNoMore) {
  const uint32_t id = client.CreateId(1);
  int error = 0;
  for (int told = 0; error == 0 && told < 1000; ++told) {
    error = client.Resolve(id, Address(200, kPort));
  }
  EXPECT_EQ(error, ENOMEM);
  EXPECT_LT(client.files().event_count(kFile), 100u);
  client.Take(Kind::kAddressError);
  EXPECT_EQ(client.Resolve(id, Address(2, kPort)), 0);
}

TEST_F(UcmaTest, EventsThatWaitGoWithTheirId) {
  const uint32_t id = client.CreateId(1);
  EXPECT_EQ(client.Resolve(id, Address(2, kPort)), 0);
  Run();
  EXPECT_TRUE(client.HasEvent());
  EXPECT_EQ(client.DestroyId(id), 0u);
  EXPECT_EQ(client.signals(), 0);
}

TEST_F(UcmaTest, RequestsThatWaitGoWithTheirListenerAndArePeersRefusals) {
  const uint32_t listener = Listen(3);
  EXPECT_EQ(client.Connect(Resolved(1)), 0);
  Run();
  EXPECT_TRUE(server.HasEvent());
  EXPECT_EQ(server.DestroyId(listener), 0u);
  EXPECT_EQ(server.signals(), 0);
  Run();
  EXPECT_EQ(client.Take(Kind::kRejected).uid, 1u);
}

TEST_F(UcmaTest, TheEndOfAFileIsThatOfItsIds) {
  const Pair pair = Connected();
  static_cast<void>(pair);
  client.files().Close(kFile);
  EXPECT_EQ(client.files().id_count(), 0u);
  Run();
  server.Take(Kind::kDisconnected);
}

TEST_F(UcmaTest, AnIdTakesItsEventsToAnotherFile) {
  client.files().Open(kOtherFile);
  const uint32_t id = client.CreateId(1);
  const uint32_t other = client.CreateId(2);
  EXPECT_EQ(client.Resolve(id, Address(2, kPort)), 0);
  EXPECT_EQ(client.Resolve(other, Address(2, kPort)), 0);
  Run();
  EXPECT_EQ(client.Migrate(id, kOtherFile).error, 0);
  EXPECT_EQ(client.signals(kOtherFile), 1);
  EXPECT_EQ(client.Take(Kind::kAddressResolved, kOtherFile).uid, 1u);
  EXPECT_EQ(client.Take(Kind::kAddressResolved, kFile).uid, 2u);
  EXPECT_EQ(client.signals(kFile) + client.signals(kOtherFile), 0);
  // The old file does not know it any more.
  rdma_ucm_resolve_route route{id, 1000};
  EXPECT_EQ(client.Write(RDMA_USER_CM_CMD_RESOLVE_ROUTE, route, 0, kFile).error, EINVAL);
  EXPECT_EQ(client.Write(RDMA_USER_CM_CMD_RESOLVE_ROUTE, route, 0, kOtherFile).error, 0);
  EXPECT_EQ(client.DestroyId(id, kOtherFile), 1u);
}

TEST_F(UcmaTest, TheLastEventOfAFileTakesItsSignalAlong) {
  client.files().Open(kOtherFile);
  const uint32_t id = client.CreateId(1);
  EXPECT_EQ(client.Resolve(id, Address(2, kPort)), 0);
  Run();
  EXPECT_EQ(client.Migrate(id, kOtherFile).old_signals, 1u);
  EXPECT_EQ(client.signals(kFile), 0);
  EXPECT_EQ(client.signals(kOtherFile), 1);
}

TEST_F(UcmaTest, FreedNumbersRest) {
  const uint32_t first = client.CreateId(1);
  client.DestroyId(first);
  EXPECT_NE(client.CreateId(2), first);
}

TEST_F(UcmaTest, TenThousandConnectionsLeaveNothing) {
  const uint32_t listener = Listen(3);
  for (int i = 0; i < 10'000; ++i) {
    const uint32_t active = Resolved(1);
    ASSERT_EQ(client.Connect(active), 0);
    Run();
    const uint32_t passive = server.Take(Kind::kConnectRequest).id;
    ASSERT_EQ(server.Accept(passive, 2), 0);
    Run();
    client.Take(Kind::kConnectResponse);
    ASSERT_EQ(client.Establish(active), 0);
    client.DestroyId(active);
    Run();
    server.DestroyId(passive);
    network.sent.clear();
  }
  EXPECT_EQ(server.DestroyId(listener), 10'000u);
  EXPECT_EQ(client.files().id_count() + server.files().id_count(), 0u);
}

}  // namespace
}  // namespace uroce::nic::ucma
