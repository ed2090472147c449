// SPDX-License-Identifier: Apache-2.0
// Queue pairs, completion queues, shared receive queues and address handles, by commands.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>

#include <cstring>
#include <set>
#include <string>
#include <thread>

#include "pipeline/shm/rings/shared_word.h"
#include "tests/nic/control/test_program.h"

namespace uroce::nic {
namespace {

TEST(ControlTest, QueuePairsAreGrantedAtLeastWhatWasAsked) {
  TestProgram program;
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
void Flush(TestProgram& program, const MappedArena& arena, uint32_t count) {
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

// ibv_resize_cq(3); docs/protocol/verbs-semantics.md, section 6.
TEST(ControlTest, AResizedQueueKeepsWhatWaits) {
  TestProgram program;
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

TEST(ControlTest, ModerationIsOfAQueueThatIsThere) {
  TestProgram program;
  const auto modify = [&](uint32_t cq) {
    return program.client.Call(UROCE_MODIFY_CQ, uroce_modify_cq{cq, 16, 100}).error;
  };
  EXPECT_EQ(modify(program.cq), 0);
  EXPECT_EQ(modify(program.cq + 77), ENOENT);
}

TEST(ControlTest, AQueuePairIsConnectedAndAskedForItsState) {
  TestProgram program;
  const uint32_t qp = program.MakeQp().As<uroce_create_qp_reply>().handle;
  const auto modify = [&](const uroce_qp_attr& attr) { return program.Modify(qp, attr).error; };
  EXPECT_EQ(modify(ToRts()), EINVAL) << "not from RESET";
  EXPECT_EQ(modify(ToInit()), 0);
  EXPECT_EQ(modify(ToRtr(GidOf("10.0.0.2"), 9)), EINVAL) << "an empty slot of the GID table";
  EXPECT_EQ(modify(ToRtr(GidOf("10.0.0.2"), 2)), EINVAL) << "an IPv6 source to an IPv4 destination";
  EXPECT_EQ(modify(ToRtr(GidOf("10.0.0.77"), 1)), ETIMEDOUT) << "no host there";
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
  EXPECT_EQ(query.cap.max_send_wr, 32u);
  uroce_qp_attr reset{};
  reset.attr_mask = IBV_QP_STATE;
  EXPECT_EQ(modify(reset), 0);
  query = program.client.Handle(UROCE_QUERY_QP, qp).As<uroce_qp_attr>();
  EXPECT_EQ(query.qp_state, IBV_QPS_RESET);
  EXPECT_EQ(query.dest_qp_num, 0u);
  EXPECT_EQ(query.cap.max_send_wr, 32u);
}

uroce_ah_attr AddressVectorTo(const Gid& dgid, uint8_t sgid_index) {
  return ToRtr(dgid, sgid_index).ah_attr;
}

TEST(ControlTest, AnAddressHandleNeedsAWayThere) {
  TestProgram program;
  const auto create = [&](const uroce_ah_attr& attr) {
    return program.client.Call(UROCE_CREATE_AH, uroce_create_ah{program.pd, attr});
  };
  EXPECT_EQ(create(AddressVectorTo(GidOf("10.0.0.2"), 9)).error, EINVAL) << "an empty slot";
  EXPECT_EQ(create(AddressVectorTo(GidOf("10.0.0.2"), 2)).error, EINVAL) << "two families";
  EXPECT_EQ(create(AddressVectorTo(Gid{}, 2)).error, EINVAL) << "no address";
  EXPECT_EQ(create(AddressVectorTo(GidOf("10.0.0.77"), 1)).error, ETIMEDOUT) << "no host there";
  uroce_ah_attr local = AddressVectorTo(GidOf("10.0.0.2"), 1);
  local.is_global = 0;
  EXPECT_EQ(create(local).error, EINVAL);
  const Answer made = create(AddressVectorTo(GidOf("10.0.0.2"), 1));
  EXPECT_EQ(made.error, 0) << made.text;
  EXPECT_EQ(program.client.Handle(UROCE_DEALLOC_PD, program.pd).error, EBUSY);
  EXPECT_EQ(program.client.Handle(UROCE_DESTROY_AH, made.handle()).error, 0);
  EXPECT_EQ(program.client.Handle(UROCE_DESTROY_AH, made.handle()).error, ENOENT) << "twice";
}

TEST(ControlTest, QueuePairsOfEachService) {
  TestProgram program;
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
  TestProgram program;
  EXPECT_EQ(program.MakeSrq(0).error, EINVAL);
  EXPECT_EQ(program.MakeSrq(1u << 30).error, EINVAL);
  EXPECT_EQ(program.MakeSrq(8, UROCE_MAX_SGE + 1).error, EINVAL);
  const auto srq = program.MakeSrq(100, 3).As<uroce_create_srq_reply>();
  EXPECT_EQ(srq.layout.depth, 128u);
  EXPECT_EQ(srq.layout.max_sge, 3u);
  EXPECT_EQ(program.MakeQp({4, 4, 1, 1, 0}, IBV_QPT_RC, srq.handle + 1).error, ENOENT);
  const auto qp = program.MakeQp({4, 4, 1, 1, 0}, IBV_QPT_RC, srq.handle);
  ASSERT_EQ(qp.error, 0) << qp.text;
  EXPECT_EQ(qp.As<uroce_create_qp_reply>().cap.max_recv_wr, 0u);
  EXPECT_EQ(program.client.Handle(UROCE_DESTROY_SRQ, srq.handle).error, EBUSY);
  EXPECT_EQ(program.client.Handle(UROCE_DEALLOC_PD, program.pd).error, EBUSY);
  const uint32_t handle = qp.As<uroce_create_qp_reply>().handle;
  EXPECT_EQ(program.client.Handle(UROCE_DESTROY_QP, handle).error, 0);
  EXPECT_EQ(program.client.Handle(UROCE_DESTROY_SRQ, srq.handle).error, 0);
  EXPECT_EQ(program.client.Handle(UROCE_DESTROY_SRQ, srq.handle).error, ENOENT) << "twice";
}

TEST(ControlTest, ASharedReceiveQueueIsModified) {
  TestProgram program;
  const uint32_t srq = program.MakeSrq(8).As<uroce_create_srq_reply>().handle;
  const auto modify = [&](uint32_t mask, uint32_t max_wr, uint32_t limit) {
    return program.client.Call(UROCE_MODIFY_SRQ, uroce_modify_srq{srq, mask, max_wr, limit});
  };
  EXPECT_EQ(modify(IBV_SRQ_LIMIT, 0, 17).error, EINVAL) << "more than it holds";
  EXPECT_EQ(modify(4, 0, 0).error, EINVAL) << "no such attribute";
  const auto layout = modify(IBV_SRQ_MAX_WR, 300, 0).As<uroce_srq_layout>();
  EXPECT_EQ(layout.depth, 512u);
  const auto query = program.client.Handle(UROCE_QUERY_SRQ, srq).As<uroce_query_srq_reply>();
  EXPECT_EQ(query.max_wr, 512u);
  EXPECT_EQ(query.srq_limit, 0u);
}

}  // namespace
}  // namespace uroce::nic
