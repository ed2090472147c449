// SPDX-License-Identifier: Apache-2.0
// Extended connection (XRC) domains between programs: who may join, what is shared, and what is
// left when one of them goes.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>

#include <cerrno>
#include <memory>

#include "nic/objects/nic.h"
#include "nic/objects/numbers.h"
#include "nic/settings/config.h"
#include "tests/nic/control/client.h"
#include "tests/nic/control/hand_daemon.h"
#include "tests/nic/control/memory/lending.h"

namespace uroce::nic {
namespace {

Limits SmallLimits() {
  Limits limits;
  limits.kinds.of(Kind::kXrcd).of_program = 3;
  return limits;
}

HandDaemon* daemon_under_test = nullptr;
HandDaemon& Daemon() { return *daemon_under_test; }

/// The programs of one test have gone when the next one begins.
class XrcTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { daemon_under_test = new HandDaemon(SmallLimits()); }
  static void TearDownTestSuite() { delete daemon_under_test; }
  void TearDown() override { AwaitNoProgram(); }

  static void AwaitNoProgram() {
    Daemon().TurnUntil([] { return Daemon().server().connection_count() == 0; });
  }
};

/// A program with a context, a PD and a CQ.
class Member {
 public:
  explicit Member(uint32_t device = 0) : client_(Daemon().socket_path()) {
    hello_ = Call(UROCE_HELLO, uroce_hello{UROCE_ABI_VERSION, 0});
    const auto worker_count = hello_.As<uroce_hello_reply>().worker_count;
    lending_ = std::move(hello_.fds.at(1 + worker_count));
    context = Call(UROCE_OPEN_CONTEXT, uroce_open_context{device, 0}).handle();
    pd = Handle(UROCE_ALLOC_PD, context).handle();
    cq = Call(UROCE_CREATE_CQ, uroce_create_cq{context, 16, 1, UROCE_NONE, 0}).handle();
  }

  template <typename T>
  Answer Call(uint32_t command, const T& body) {
    return Daemon().Call(client_, command, body);
  }
  Answer Handle(uint32_t command, uint32_t handle) {
    return Call(command, uroce_handle{handle, 0});
  }
  /// What the daemon says of a file.
  uroce_lend_reply Lend(int fd) {
    const uroce_lend request{.what = UROCE_LEND_XRC_FILE};
    SendLend(lending_.get(), request, fd, sizeof(request));
    uroce_lend_reply reply{};
    Daemon().TurnUntil(
        [&] { return recv(lending_.get(), &reply, sizeof(reply), MSG_DONTWAIT) > 0; });
    return reply;
  }
  Answer OpenDomain(int fd, uint32_t oflags) {
    const uint32_t file = fd < 0 ? UROCE_NONE : Lend(fd).segment;
    return Call(UROCE_OPEN_XRCD, uroce_open_xrcd{context, file, oflags, 0});
  }
  Answer MakeQueue(uint32_t xrcd, uint32_t type = IBV_SRQT_XRC) {
    return Call(UROCE_CREATE_SRQ, uroce_create_srq{pd, 16, 1, 0, 0x99, type, xrcd, cq, 0});
  }
  Answer MakeTarget(uint32_t xrcd) {
    return Call(UROCE_CREATE_TARGET, uroce_create_target{xrcd, 0, 0x55});
  }
  Answer OpenTarget(uint32_t xrcd, uint32_t qpn) {
    return Call(UROCE_OPEN_TARGET, uroce_open_target{xrcd, qpn, 0x66});
  }

  uint32_t context = 0, pd = 0, cq = 0;

 private:
  ControlClient client_;
  Answer hello_;
  Fd lending_;
};

Fd SomeFile() { return Fd(memfd_create("domain", MFD_CLOEXEC)); }

TEST_F(XrcTest, AFileNamesTheDomain) {
  Member first, second;
  const Fd file = SomeFile(), other = SomeFile();
  EXPECT_EQ(first.OpenDomain(file.get(), 0).error, EAGAIN) << "there is none";
  EXPECT_EQ(first.OpenDomain(file.get(), O_CREAT | O_EXCL).error, 0);
  EXPECT_EQ(second.OpenDomain(file.get(), 0).error, 0);
  EXPECT_EQ(second.OpenDomain(file.get(), O_CREAT | O_EXCL).error, EINVAL) << "there is one";
  EXPECT_EQ(second.OpenDomain(other.get(), 0).error, EAGAIN) << "another file's";
  Member elsewhere(1);
  EXPECT_EQ(elsewhere.OpenDomain(file.get(), 0).error, EAGAIN) << "another device's";
}

TEST_F(XrcTest, TheDomainOfAFileGoesWithTheLastWhoHoldsIt) {
  auto first = std::make_unique<Member>();
  Member second;
  const Fd file = SomeFile();
  EXPECT_EQ(first->OpenDomain(file.get(), O_CREAT).error, 0);
  const uint32_t xrcd = second.OpenDomain(file.get(), 0).handle();
  first.reset();
  Daemon().TurnUntil([] { return Daemon().server().connection_count() == 1; });
  EXPECT_EQ(second.OpenDomain(file.get(), O_EXCL).error, EINVAL);
  EXPECT_EQ(second.Handle(UROCE_CLOSE_XRCD, xrcd).error, 0);
  EXPECT_EQ(second.OpenDomain(file.get(), 0).error, EAGAIN);
}

TEST_F(XrcTest, WhoMayNotReadAFileHasNotItsDomain) {
  Member member;
  const Fd file = SomeFile();
  const Fd path(open(("/proc/self/fd/" + std::to_string(file.get())).c_str(), O_PATH | O_CLOEXEC));
  EXPECT_EQ(member.Lend(path.get()).error, EBADF);
  EXPECT_EQ(member.Lend(-1).error, EBADF);
}

TEST_F(XrcTest, ALentFileIsForOneDomain) {
  Member member;
  const Fd file = SomeFile();
  const uint32_t lent = member.Lend(file.get()).segment;
  const uroce_open_xrcd request{member.context, lent, O_CREAT, 0};
  EXPECT_EQ(member.Call(UROCE_OPEN_XRCD, request).error, 0);
  EXPECT_EQ(member.Call(UROCE_OPEN_XRCD, request).error, ENOENT);
}

TEST_F(XrcTest, AProgramHasSoManyDomainsAndNoMore) {
  Member member;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(member.OpenDomain(-1, 0).error, 0);
  EXPECT_EQ(member.OpenDomain(-1, 0).error, ENOMEM);
}

TEST_F(XrcTest, AQueueKeepsWhatItBelongsTo) {
  Member member;
  const uint32_t xrcd = member.OpenDomain(-1, 0).handle();
  EXPECT_EQ(member.MakeQueue(xrcd, IBV_SRQT_TM).error, EOPNOTSUPP);
  EXPECT_EQ(member.MakeQueue(xrcd + 1).error, ENOENT);
  const auto queue = member.MakeQueue(xrcd).As<uroce_create_srq_reply>();
  EXPECT_GT(queue.srqn, 1u);
  EXPECT_EQ(queue.ring.depth, 32u);
  EXPECT_EQ(member.Handle(UROCE_CLOSE_XRCD, xrcd).error, EBUSY);
  EXPECT_EQ(member.Handle(UROCE_DESTROY_CQ, member.cq).error, EBUSY);
  EXPECT_EQ(member.Handle(UROCE_DEALLOC_PD, member.pd).error, EBUSY);
  EXPECT_EQ(member.Handle(UROCE_DESTROY_SRQ, queue.handle).error, 0);
  EXPECT_NE(member.MakeQueue(xrcd).As<uroce_create_srq_reply>().srqn, queue.srqn);
  EXPECT_EQ(member.Handle(UROCE_CLOSE_CONTEXT, member.context).error, 0) << "with all in it";
  EXPECT_EQ(Daemon().nic().numbers().srqs.held(), 0u);
}

TEST_F(XrcTest, AQueuePairOfAnotherServiceTakesNothingFromADomain) {
  Member member;
  const uint32_t xrcd = member.OpenDomain(-1, 0).handle();
  const uint32_t srq = member.MakeQueue(xrcd).As<uroce_create_srq_reply>().handle;
  const uroce_create_qp request{member.pd, IBV_QPT_RC,      member.cq, member.cq, 0,
                                0,         {1, 1, 1, 1, 0}, 1,         srq};
  EXPECT_EQ(member.Call(UROCE_CREATE_QP, request).error, EINVAL);
}

TEST_F(XrcTest, AnInitiatorHasNoReceiveSide) {
  Member member;
  const uroce_create_qp request{member.pd, IBV_QPT_XRC_SEND, member.cq, UROCE_NONE, 0,
                                0,         {4, 4, 1, 1, 0},  1,         1234};
  const Answer made = member.Call(UROCE_CREATE_QP, request);
  ASSERT_EQ(made.error, 0) << made.text;
  EXPECT_EQ(made.As<uroce_create_qp_reply>().cap.max_send_wr, 8u);
  EXPECT_EQ(made.As<uroce_create_qp_reply>().cap.max_recv_wr, 0u);
}

TEST_F(XrcTest, ATargetIsThereForAsLongAsAProgramHasItOpen) {
  auto maker = std::make_unique<Member>();
  Member opener, other;
  const Fd file = SomeFile();
  const size_t before = Daemon().nic().numbers().queue_pairs.held();
  const uint32_t made = maker->OpenDomain(file.get(), O_CREAT).handle();
  const uint32_t opened = opener.OpenDomain(file.get(), 0).handle();
  const uint32_t own = other.OpenDomain(-1, 0).handle();
  const auto target = maker->MakeTarget(made).As<uroce_target_reply>();
  EXPECT_EQ(other.OpenTarget(own, target.qp_num).error, EINVAL) << "of another domain";
  EXPECT_EQ(opener.OpenTarget(opened, target.qp_num + 1).error, EINVAL);
  const auto second = opener.OpenTarget(opened, target.qp_num).As<uroce_target_reply>();
  EXPECT_EQ(second.qp_num, target.qp_num);
  EXPECT_EQ(opener.Handle(UROCE_CLOSE_XRCD, opened).error, EBUSY);

  uroce_modify_qp to_init{second.handle, {}};
  to_init.attr.attr_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  to_init.attr.qp_state = IBV_QPS_INIT;
  to_init.attr.port_num = 1;
  EXPECT_EQ(opener.Call(UROCE_MODIFY_QP, to_init).error, 0);
  EXPECT_EQ(maker->Handle(UROCE_QUERY_QP, target.handle).As<uroce_qp_attr>().qp_state,
            uint32_t{IBV_QPS_INIT});
  EXPECT_EQ(maker->OpenTarget(made, target.qp_num).As<uroce_target_reply>().qp_state,
            uint32_t{IBV_QPS_INIT});

  maker.reset();
  Daemon().TurnUntil([] { return Daemon().server().connection_count() == 2; });
  EXPECT_EQ(opener.Handle(UROCE_QUERY_QP, second.handle).error, 0);
  EXPECT_EQ(Daemon().nic().numbers().queue_pairs.held(), before + 1);
  EXPECT_EQ(opener.Handle(UROCE_DESTROY_QP, second.handle).error, 0);
  EXPECT_EQ(opener.Handle(UROCE_DESTROY_QP, second.handle).error, ENOENT) << "twice";
  EXPECT_EQ(opener.OpenTarget(opened, target.qp_num).error, EINVAL) << "it is gone";
  EXPECT_EQ(Daemon().nic().numbers().queue_pairs.held(), before);
}

TEST_F(XrcTest, ProgramsThatDieLeaveNothing) {
  {
    Member first, second;
    const Fd file = SomeFile();
    const uint32_t made = first.OpenDomain(file.get(), O_CREAT).handle();
    const uint32_t opened = second.OpenDomain(file.get(), 0).handle();
    const auto target = first.MakeTarget(made).As<uroce_target_reply>();
    EXPECT_EQ(second.OpenTarget(opened, target.qp_num).error, 0);
    EXPECT_EQ(first.MakeQueue(made).error, 0);
    EXPECT_EQ(second.MakeQueue(opened).error, 0);
    EXPECT_EQ(Daemon().nic().numbers().srqs.held(), 2u);
    EXPECT_EQ(Daemon().nic().numbers().queue_pairs.count_on(0), 1u);
  }
  AwaitNoProgram();
  EXPECT_EQ(Daemon().nic().numbers().srqs.held(), 0u);
  EXPECT_EQ(Daemon().nic().numbers().queue_pairs.held(), 0u);
  EXPECT_EQ(Daemon().nic().numbers().queue_pairs.count_on(0), 0u);
}

}  // namespace
}  // namespace uroce::nic
