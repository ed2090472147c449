// SPDX-License-Identifier: Apache-2.0
// Connections by real frames through a worker, over a wire that loses one in ten of them.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_user_cm.h>

#include <cstring>
#include <map>
#include <vector>

#include "nic/base/reply.h"
#include "nic/base/user_limits.h"
#include "nic/devices/nic_device.h"
#include "nic/objects/nic.h"
#include "nic/objects/queue_pair_object.h"
#include "nic/objects/resources.h"
#include "nic/settings/config.h"
#include "pipeline/datapath/frames/frame_link.h"
#include "pipeline/os/fd.h"
#include "pipeline/shm/abi/uroce_cm_commands.h"
#include "tests/nic/connections/rdma_cm_bed.h"

namespace uroce::nic {
namespace {

using rdma_cm::EndpointId;
using rdma_cm::Event;
using rdma_cm::EventKind;

constexpr uint16_t kPort = 7471;

class RdmaCmHostTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { bed = new RdmaCmBed("drop=0.1,seed=5", 2); }
  static void TearDownTestSuite() {
    delete bed;
    bed = nullptr;
  }
  static uint64_t Sum(std::atomic<uint64_t> datapath::FrameLinkCounters::*counter) {
    uint64_t sum = 0;
    for (const auto& device : bed->nic().devices()) {
      sum += (device->datapath().gsi_link->counters().*counter).load();
    }
    return sum;
  }
  EndpointId Listen(RdmaCmProgram& server) {
    const EndpointId listener = server.Create();
    EXPECT_EQ(server.client->Bind(listener, WireAddress(2, kPort)), cm::Result::kOk);
    EXPECT_EQ(server.client->Listen(listener, 0), cm::Result::kOk);
    return listener;
  }

  static RdmaCmBed* bed;
};
RdmaCmBed* RdmaCmHostTest::bed = nullptr;

/// Both programs do to each event what a good one does, until all their connections have ended.
class Conversation {
 public:
  Conversation(RdmaCmProgram& client, RdmaCmProgram& server) : client_(client), server_(server) {}

  void Start() {
    const rdma_cm::SocketAddress to = WireAddress(2, kPort);
    const EndpointId id = client_.Create();
    EXPECT_EQ(client_.client->ResolveAddress(id, nullptr, to, Nanos(1'000'000'000)),
              cm::Result::kOk);
  }
  bool Step() {
    return StepOf(client_, [this](const Event& event) { OnClient(event); }) ||
           StepOf(server_, [this](const Event& event) { OnServer(event); });
  }
  int ended() const { return ended_; }
  int established() const { return established_; }

 private:
  template <typename Handler>
  static bool StepOf(RdmaCmProgram& program, Handler handler) {
    if (program.events.empty()) return false;
    const Event event = program.events.front();
    program.events.pop_front();
    handler(event);
    return true;
  }
  rdma_cm::ConnectionParameters NextQpn() {
    rdma_cm::ConnectionParameters parameters;
    parameters.qpn = Qpn(++qpn_);
    return parameters;
  }
  void OnClient(const Event& event) {
    rdma_cm::Client& its = *client_.client;
    switch (event.kind) {
      case EventKind::kAddressResolved:
        EXPECT_EQ(its.ResolveRoute(event.id), cm::Result::kOk);
        return;
      case EventKind::kRouteResolved:
        EXPECT_EQ(its.Connect(event.id, NextQpn()), cm::Result::kOk);
        return;
      case EventKind::kConnectResponse:
        EXPECT_EQ(its.Establish(event.id), cm::Result::kOk);
        EXPECT_EQ(its.Disconnect(event.id), cm::Result::kOk);
        return;
      case EventKind::kDisconnected:
        return;
      case EventKind::kTimewaitExit:
        EXPECT_EQ(its.Destroy(event.id), cm::Result::kOk);
        ++ended_;
        return;
      default:
        ADD_FAILURE() << "client: event " << static_cast<int>(event.kind) << ", status "
                      << event.status;
        ++ended_;
    }
  }
  void OnServer(const Event& event) {
    rdma_cm::Client& its = *server_.client;
    switch (event.kind) {
      case EventKind::kConnectRequest:
        EXPECT_EQ(its.TakeRequest(event.id), cm::Result::kOk);
        EXPECT_EQ(its.Accept(event.id, NextQpn()), cm::Result::kOk);
        return;
      case EventKind::kEstablished:
        ++established_;
        return;
      case EventKind::kDisconnected:
        EXPECT_EQ(its.Disconnect(event.id), cm::Result::kOk);
        return;
      case EventKind::kTimewaitExit:
        EXPECT_EQ(its.Destroy(event.id), cm::Result::kOk);
        return;
      default:
        ADD_FAILURE() << "server: event " << static_cast<int>(event.kind) << ", status "
                      << event.status;
    }
  }

  RdmaCmProgram& client_;
  RdmaCmProgram& server_;
  uint32_t qpn_ = 0x1000;
  int ended_ = 0;
  int established_ = 0;
};

TEST_F(RdmaCmHostTest, ConnectionsCompleteThoughOneMadInTenIsLost) {
  constexpr int kConnections = 200;
  RdmaCmProgram client(*bed);
  RdmaCmProgram server(*bed);
  Listen(server);
  Conversation conversation(client, server);
  for (int i = 0; i < kConnections; ++i) conversation.Start();
  EXPECT_TRUE(bed->TurnUntil([&] {
    while (conversation.Step()) {
    }
    return conversation.ended() == kConnections;
  })) << conversation.ended();
  EXPECT_GT(bed->service().counters().retransmitted, 20u);
  EXPECT_GT(conversation.established(), kConnections / 2) << "others by the DREQ alone";
  EXPECT_EQ(Sum(&datapath::FrameLinkCounters::rx_discards), 0u);
  EXPECT_GT(Sum(&datapath::FrameLinkCounters::received), 900u);
}

TEST_F(RdmaCmHostTest, ADeadProgramsPeersHearOfIt) {
  RdmaCmProgram server(*bed);
  Listen(server);
  auto client = std::make_unique<RdmaCmProgram>(*bed);
  const EndpointId id = client->Create();
  ASSERT_EQ(client->client->ResolveAddress(id, nullptr, WireAddress(2, kPort), Nanos(1'000'000)),
            cm::Result::kOk);
  ASSERT_EQ(client->Next()->kind, EventKind::kAddressResolved);
  ASSERT_EQ(client->client->ResolveRoute(id), cm::Result::kOk);
  ASSERT_EQ(client->Next()->kind, EventKind::kRouteResolved);
  ASSERT_EQ(client->client->Connect(id, {.qpn = Qpn(0x77)}), cm::Result::kOk);
  const std::optional<Event> request = server.Next();
  ASSERT_TRUE(request);
  ASSERT_EQ(server.client->Accept(request->id, {.qpn = Qpn(0x78)}), cm::Result::kOk);
  ASSERT_EQ(client->Next()->kind, EventKind::kConnectResponse);
  ASSERT_EQ(client->client->Establish(id), cm::Result::kOk);
  client.reset();
  std::optional<Event> last;
  do {
    last = server.Next();
    ASSERT_TRUE(last);
  } while (last->kind == EventKind::kEstablished);
  EXPECT_EQ(last->kind, EventKind::kDisconnected);
  EXPECT_EQ(last->id, request->id);
}

// librdmacm makes an id by this command.
std::vector<uint8_t> CreateIdCommand() {
  struct {
    rdma_ucm_cmd_hdr header;
    rdma_ucm_create_id body;
  } command{};
  command.header = {RDMA_USER_CM_CMD_CREATE_ID, sizeof(command.body),
                    sizeof(rdma_ucm_create_id_resp)};
  command.body.ps = RDMA_PS_TCP;
  command.body.qp_type = IBV_QPT_RC;
  const auto* bytes = reinterpret_cast<const uint8_t*>(&command);
  return {bytes, bytes + sizeof(command)};
}

// A program closes a file by one call, whatever it holds.
TEST_F(RdmaCmHostTest, AClosedFileOfManyIdsEndsInPieces) {
  constexpr uint32_t kIds = 16'000;
  const rdma_cm::Owner owner{.client = 7};
  const uint64_t& sockets = bed->nic().user(owner.uid).sockets.used;
  UserTurns turns;
  CmFiles files(bed->loop(), turns, bed->nic(), bed->service(), owner, [](Qpn) { return true; });
  Fd program_end;
  const uint32_t file = *files.Open(program_end);
  const std::vector<uint8_t> command = CreateIdCommand();
  for (uint32_t i = 0; i < kIds; ++i) {
    Reply reply;
    files.Write({file, file}, command, reply);
    uroce_write_cm_reply written{};
    std::memcpy(&written, reply.body().data(), sizeof(written));
    ASSERT_EQ(written.error, 0) << i;
  }
  program_end = {};
  bed->Turn();
  EXPECT_EQ(sockets, 1u) << "one turn ends all";
  EXPECT_TRUE(bed->TurnUntil([&] { return sockets == 0; }));
}

TEST_F(RdmaCmHostTest, TheOtherEndOfAWireIsReachedByTheWireAndAnOwnAddressFromItself) {
  RdmaCmProgram program(*bed);
  const EndpointId id = program.Create();
  ASSERT_EQ(program.client->ResolveAddress(id, nullptr, WireAddress(2, 1), Nanos(1'000'000)),
            cm::Result::kOk);
  ASSERT_EQ(program.Next()->kind, EventKind::kAddressResolved);
  rdma_cm::EndpointInfo info;
  ASSERT_EQ(program.client->Query(id, info), cm::Result::kOk);
  EXPECT_EQ(info.local.address, WireAddress(1).address);
  EXPECT_EQ(info.device, 0u);
  const EndpointId own = program.Create();
  const rdma_cm::SocketAddress source = WireAddress(2);
  ASSERT_EQ(program.client->ResolveAddress(own, &source, WireAddress(2, 1), Nanos(1'000'000)),
            cm::Result::kOk);
  ASSERT_EQ(program.Next()->kind, EventKind::kAddressResolved);
  ASSERT_EQ(program.client->Query(own, info), cm::Result::kOk);
  EXPECT_EQ(info.device, 1u);
}

TEST_F(RdmaCmHostTest, LoopbackIsTheAddressOfWhoListensOrOneOfTheFirstNic) {
  const Gid loopback = Ipv4Gid(0x7f000001u);
  RdmaCmProgram program(*bed);
  const auto resolved = [&] {
    const EndpointId id = program.Create();
    EXPECT_EQ(program.client->ResolveAddress(id, nullptr, {.address = loopback, .port = kPort},
                                             Nanos(1'000'000'000)),
              cm::Result::kOk);
    EXPECT_EQ(program.Next()->kind, EventKind::kAddressResolved);
    rdma_cm::EndpointInfo info;
    EXPECT_EQ(program.client->Query(id, info), cm::Result::kOk);
    return info;
  };
  rdma_cm::EndpointInfo info = resolved();
  EXPECT_EQ(info.remote.address, WireAddress(1).address);
  EXPECT_EQ(info.local.address, WireAddress(2).address) << "by the wire";
  EXPECT_EQ(info.device, 1u);
  RdmaCmProgram server(*bed);
  Listen(server);
  info = resolved();
  EXPECT_EQ(info.remote.address, WireAddress(2).address);
  EXPECT_EQ(info.device, 0u);
}

TEST_F(RdmaCmHostTest, AnAbsentNeighbourIsAnError) {
  RdmaCmProgram program(*bed);
  const EndpointId id = program.Create();
  ASSERT_EQ(program.client->ResolveAddress(id, nullptr, WireAddress(99, 1), Nanos(1'000'000)),
            cm::Result::kOk);
  const std::optional<Event> event = program.Next();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->kind, EventKind::kAddressError);
  EXPECT_EQ(event->status, -ETIMEDOUT);
}

}  // namespace
}  // namespace uroce::nic
