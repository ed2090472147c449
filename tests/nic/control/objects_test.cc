// SPDX-License-Identifier: Apache-2.0
// Objects of a program: what it is granted, in which order they go, and what is left of it.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "tests/nic/control/test_program.h"

namespace uroce::nic {
namespace {

TEST(ControlTest, DevicesPortsAndGidsAreListed) {
  TestProgram program(1);
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

// docs/protocol/verbs-semantics.md, section 6: destroy order.
TEST(ControlTest, WhatIsInUseIsBusy) {
  TestProgram program;
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
  EXPECT_EQ(client.Handle(UROCE_DEALLOC_PD, program.pd).error, ENOENT) << "twice";
}

TEST(ControlTest, ClosingAContextTakesAllThatIsInIt) {
  TestProgram program;
  const uint32_t qp = program.MakeQp().As<uroce_create_qp_reply>().handle;
  EXPECT_EQ(program.client.Handle(UROCE_CLOSE_CONTEXT, program.context).error, 0);
  EXPECT_EQ(program.client.Handle(UROCE_QUERY_QP, qp).error, ENOENT);
  EXPECT_EQ(program.client.Handle(UROCE_DESTROY_CQ, program.cq).error, ENOENT);
  EXPECT_EQ(program.client.Handle(UROCE_DEALLOC_PD, program.pd).error, ENOENT);
}

TEST(ControlTest, LimitsHold) {
  TestProgram program;
  int made = 1;
  while (program.client.Handle(UROCE_ALLOC_PD, program.context).error == 0) ++made;
  EXPECT_EQ(made, 40);
  EXPECT_EQ(program.client.Handle(UROCE_ALLOC_PD, program.context).error, ENOMEM);
}

size_t QueuePairCount() { return Dump(UROCE_DUMP_QP)["qps"].size(); }

TEST(ControlTest, WhatAProgramLeavesBehindGoesWithIt) {
  const size_t before = QueuePairCount();
  {
    TestProgram program;
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
    TestProgram program;
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

}  // namespace
}  // namespace uroce::nic
