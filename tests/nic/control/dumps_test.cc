// SPDX-License-Identifier: Apache-2.0
// What tools ask for: dumps and captures.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "pipeline/shm/abi/uroce_capture.h"
#include "pipeline/shm/rings/shared_word.h"
#include "tests/nic/control/test_program.h"

namespace uroce::nic {
namespace {

TEST(ControlTest, ADumpSaysHowFullSharedReceiveQueuesAre) {
  TestProgram program;
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
  EXPECT_EQ(shown["max_wr"], 16);
  EXPECT_EQ(shown["uid"], getuid());
  rings::StoreRelease(page->produced.value, 17u);
  EXPECT_EQ(Dump(UROCE_DUMP_SRQ)["srqs"].at(0)["waiting"], 0) << "more than fits";
  munmap(arena, UROCE_ARENA_BYTES);
}

/// The object of the newest program with this handle; null: none is shown.
Json NewestShown(uint32_t what, const char* list, uint32_t handle) {
  const Json shown = Dump(what)[list];
  Json newest;
  for (const Json& entry : shown) {
    if (entry["handle"] != handle) continue;
    if (newest.is_null() || entry["session"] > newest["session"]) newest = entry;
  }
  return newest;
}

TEST(ControlTest, ADumpSaysHowFullCompletionQueuesAre) {
  TestProgram program;
  Json shown = NewestShown(UROCE_DUMP_CQ, "cqs", program.cq);
  EXPECT_EQ(shown["device"], "uroce0");
  EXPECT_EQ(shown["pid"], getpid());
  EXPECT_GE(shown["cqe"], 16);
  EXPECT_EQ(shown["waiting"], 0);
  EXPECT_EQ(shown["users"], 0);
  EXPECT_EQ(shown["channel"], false);
  EXPECT_TRUE(shown["rings"].empty());
  const auto qp = program.MakeQp().As<uroce_create_qp_reply>();
  shown = NewestShown(UROCE_DUMP_CQ, "cqs", program.cq);
  EXPECT_EQ(shown["users"], 2) << "one queue pair for sends and receives";
  ASSERT_EQ(shown["rings"].size(), 1u);
  // A program's word for what it has polled, which is impossible.
  void* arena = mmap(nullptr, UROCE_ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                     program.hello.fds.at(0).get(), 0);
  ASSERT_NE(arena, MAP_FAILED);
  auto* page = reinterpret_cast<uroce_cq_ring_page*>(static_cast<uint8_t*>(arena) +
                                                     qp.send_ring.page_offset);
  rings::StoreRelease(page->consumed.value, 5u);
  EXPECT_EQ(NewestShown(UROCE_DUMP_CQ, "cqs", program.cq)["waiting"], shown["cqe"]);
  munmap(arena, UROCE_ARENA_BYTES);
}

TEST(ControlTest, ADumpOfCompletionQueuesComesInPieces) {
  TestProgram program;
  constexpr uint32_t kQueues = 200;  // Several looks at workers.
  uint32_t last = 0;
  for (uint32_t i = 0; i < kQueues; ++i) last = program.MakeCq().handle();
  const Json shown = Dump(UROCE_DUMP_CQ)["cqs"];
  EXPECT_GE(shown.size(), kQueues + 1);
  EXPECT_EQ(NewestShown(UROCE_DUMP_CQ, "cqs", last)["handle"], last);
}

TEST(ControlTest, DumpsSayWhichContextsAndDomainsThereAre) {
  TestProgram program(1);
  const uint32_t second = program.client.Handle(UROCE_ALLOC_PD, program.context).handle();
  const Json context = NewestShown(UROCE_DUMP_CTX, "ctxs", program.context);
  EXPECT_EQ(context["device"], "uroce1");
  EXPECT_EQ(context["users"], 3) << "two domains and a completion queue";
  EXPECT_EQ(context["imported"], false);
  const auto qp = program.MakeQp().As<uroce_create_qp_reply>();
  const Json used = NewestShown(UROCE_DUMP_PD, "pds", program.pd);
  const Json unused = NewestShown(UROCE_DUMP_PD, "pds", second);
  EXPECT_EQ(used["ctx"], program.context);
  EXPECT_EQ(used["users"], 1);
  EXPECT_EQ(unused["users"], 0);
  EXPECT_NE(used["pd"], unused["pd"]);
  const Json qps = Dump(UROCE_DUMP_QP)["qps"];
  for (const Json& entry : qps) {
    if (entry["qpn"] != qp.qp_num) continue;
    EXPECT_EQ(entry["pd"], used["pd"]);
    EXPECT_EQ(entry["ctx"], program.context);
    EXPECT_EQ(entry["send_cq"], program.cq);
    EXPECT_EQ(entry["receive_cq"], program.cq);
  }
}

TEST(ControlTest, DumpsAreJsonThatNamesWhatThereIs) {
  TestProgram program;
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

/// Of the queue pair with this number; null: it is not shown.
Json QueuePairShown(uint32_t qpn) {
  const Json qps = Dump(UROCE_DUMP_QP)["qps"];
  for (const Json& entry : qps) {
    if (entry["qpn"] == qpn) return entry;
  }
  return {};
}

TEST(ControlTest, ADumpSaysWhatIsAgreedWithAPeer) {
  TestProgram program;
  const auto qp = program.MakeQp().As<uroce_create_qp_reply>();
  const auto unreliable = program.MakeQp({16, 16, 1, 1, 0}, IBV_QPT_UC).As<uroce_create_qp_reply>();
  EXPECT_EQ(Dump(UROCE_DUMP_PEERS)["peers"].size(), 0u);
  for (const uint32_t handle : {qp.handle, unreliable.handle}) {
    ASSERT_EQ(program.Modify(handle, ToInit()).error, 0);
  }
  ASSERT_EQ(program.Modify(qp.handle, ToRtr(GidOf("10.0.0.2/24"), 1)).error, 0);
  Json peers;
  for (int i = 0; i < 100'000; ++i) {
    peers = Dump(UROCE_DUMP_PEERS)["peers"];
    ASSERT_EQ(peers.size(), 1u);
    if (peers.at(0)["state"] != "unknown") break;
  }
  EXPECT_EQ(peers.at(0)["device"], "uroce0");
  EXPECT_EQ(peers.at(0)["local"], "10.0.0.1");
  EXPECT_EQ(peers.at(0)["remote"], "10.0.0.2");
  EXPECT_EQ(peers.at(0)["state"], "answers");
  EXPECT_EQ(peers.at(0)["agreed"], "selective-repeat");
  EXPECT_EQ(peers.at(0)["queue_pairs"], 1);
  const Json counters = Dump(UROCE_DUMP_STAT)["peers"];
  EXPECT_GE(counters["answers_received"], 1);
  EXPECT_GE(counters["questions_sent"], counters["answers_received"]);
  EXPECT_TRUE(QueuePairShown(qp.qp_num)["recovery"] == "selective" ||
              QueuePairShown(qp.qp_num)["recovery"] == "go-back-n");
  EXPECT_EQ(QueuePairShown(unreliable.qp_num)["recovery"], "");
  uroce_qp_attr reset{};
  reset.attr_mask = IBV_QP_STATE;
  ASSERT_EQ(program.Modify(qp.handle, reset).error, 0);
  EXPECT_EQ(Dump(UROCE_DUMP_PEERS)["peers"].size(), 0u);
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
  std::snprintf(request.device, sizeof(request.device), "absent");
  EXPECT_EQ(other.Call(UROCE_CAPTURE, request).error, ENOENT);
}

}  // namespace
}  // namespace uroce::nic
