// SPDX-License-Identifier: Apache-2.0
// Files of the connection manager, as librdmacm uses them, over a daemon that says what it is told.
#include <fcntl.h>
#include <poll.h>
#include <rdma/rdma_user_cm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "pipeline/shm/abi/uroce_cm_commands.h"
#include "tests/verbs-shim/shim_fixture.h"

namespace uroce::shim_test {
namespace {

/// A command as it is written.
template <typename Body>
struct Written {
  rdma_ucm_cmd_hdr header;
  Body body;
};

class CmTest : public ShimTest {
 protected:
  void SetUp() override {
    ShimTest::SetUp();
    fd_ = Open();
    ASSERT_GE(fd_, 0);
  }
  void TearDown() override {
    close(fd_);
    ShimTest::TearDown();
  }

  static int Open(int flags = O_RDWR | O_CLOEXEC) { return open("/dev/infiniband/rdma_cm", flags); }

  template <typename Body>
  static ssize_t Write(int fd, uint32_t number, const Body& body, uint16_t out = 0) {
    const Written<Body> command{{number, sizeof(body), out}, body};
    return write(fd, &command, sizeof(command));
  }
  static ssize_t CreateId(int fd, rdma_ucm_create_id_resp& response) {
    rdma_ucm_create_id body{};
    body.uid = 0x1234;
    body.response = reinterpret_cast<uintptr_t>(&response);
    body.ps = RDMA_PS_TCP;
    return Write(fd, RDMA_USER_CM_CMD_CREATE_ID, body, sizeof(response));
  }
  static ssize_t GetEvent(int fd, rdma_ucm_event_resp& response) {
    rdma_ucm_get_event body{};
    body.response = reinterpret_cast<uintptr_t>(&response);
    return Write(fd, RDMA_USER_CM_CMD_GET_EVENT, body, sizeof(response));
  }
  static ssize_t DestroyId(int fd, rdma_ucm_destroy_id_resp& response) {
    rdma_ucm_destroy_id body{};
    body.response = reinterpret_cast<uintptr_t>(&response);
    return Write(fd, RDMA_USER_CM_CMD_DESTROY_ID, body, sizeof(response));
  }

  template <typename Response>
  static std::vector<uint8_t> BytesOf(const Response& response) {
    const auto* first = reinterpret_cast<const uint8_t*>(&response);
    return {first, first + sizeof(response)};
  }
  void AnswerEvent(uint32_t kind, uint32_t signals) {
    rdma_ucm_event_resp event{};
    event.event = kind;
    daemon_->AnswerCm({.signals = signals, .response = BytesOf(event)});
  }
  void Signal() { ASSERT_EQ(send(daemon_->cm_fd(), "x", 1, 0), 1); }
  /// A number that no file has. Connections to the daemons of earlier tests keep theirs.
  static int FreeNumber() {
    const int number = dup(STDERR_FILENO);
    close(number);
    return number;
  }
  static bool IsReadable(int fd) {
    pollfd one{fd, POLLIN, 0};
    return poll(&one, 1, 0) == 1 && (one.revents & POLLIN) != 0;
  }
  /// What the daemon got after the head of WRITE_CM.
  std::vector<uint8_t> LastCommand() {
    const std::vector<uint8_t> body = daemon_->Last(UROCE_WRITE_CM).body;
    return {body.begin() + sizeof(uroce_write_cm), body.end()};
  }

  int fd_ = -1;
};

TEST_F(CmTest, AFileLooksLikeACharacterDevice) {
  struct stat status = {};
  ASSERT_EQ(fstat(fd_, &status), 0);
  EXPECT_TRUE(S_ISCHR(status.st_mode));
  EXPECT_NE(fcntl(fd_, F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_EQ(fcntl(fd_, F_GETFL) & O_NONBLOCK, 0);
}

TEST_F(CmTest, FlagsOfOpenCount) {
  const int fd = Open(O_RDWR | O_NONBLOCK);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_NE(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
  close(fd);
}

TEST_F(CmTest, WithoutADaemonOrWhenOffTheNodeIsTheKernels) {
  setenv("UROCE_CM", "off", 1);
  EXPECT_EQ(Open(), -1);
  EXPECT_EQ(errno, ENOENT);
  unsetenv("UROCE_CM");
}

TEST_F(CmTest, TheAnswerGoesWhereTheCommandPointsTo) {
  daemon_->AnswerCm({.response = BytesOf(rdma_ucm_create_id_resp{77})});
  rdma_ucm_create_id_resp response{};
  EXPECT_EQ(CreateId(fd_, response), static_cast<ssize_t>(sizeof(Written<rdma_ucm_create_id>)));
  EXPECT_EQ(response.id, 77u);
  Written<rdma_ucm_create_id> sent;
  ASSERT_EQ(LastCommand().size(), sizeof(sent));
  memcpy(&sent, LastCommand().data(), sizeof(sent));
  EXPECT_EQ(sent.header.cmd, RDMA_USER_CM_CMD_CREATE_ID);
  EXPECT_EQ(sent.body.uid, 0x1234u);
}

TEST_F(CmTest, ErrorsAreThoseOfTheDaemonAndNothingIsWritten) {
  daemon_->AnswerCm({.error = EADDRINUSE, .response = BytesOf(rdma_ucm_create_id_resp{77})});
  rdma_ucm_create_id_resp response{5};
  EXPECT_EQ(CreateId(fd_, response), -1);
  EXPECT_EQ(errno, EADDRINUSE);
  EXPECT_EQ(response.id, 5u);
}

TEST_F(CmTest, WhatIsCutShortIsRefusedHere) {
  const rdma_ucm_cmd_hdr header{RDMA_USER_CM_CMD_LISTEN, 8, 0};
  EXPECT_EQ(write(fd_, &header, 4), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(write(fd_, &header, sizeof(header)), -1);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(CmTest, TheValueOfAnOptionGoesAlong) {
  daemon_->AnswerCm({});
  int on = 0x01020304;
  rdma_ucm_set_option body{};
  body.optval = reinterpret_cast<uintptr_t>(&on);
  body.optlen = sizeof(on);
  EXPECT_GT(Write(fd_, RDMA_USER_CM_CMD_SET_OPTION, body), 0);
  const std::vector<uint8_t> command = LastCommand();
  ASSERT_EQ(command.size(), sizeof(Written<rdma_ucm_set_option>) + sizeof(on));
  EXPECT_EQ(memcmp(&command[command.size() - sizeof(on)], &on, sizeof(on)), 0);
  body.optlen = UROCE_MAX_CM_OPTION + 1;
  EXPECT_EQ(Write(fd_, RDMA_USER_CM_CMD_SET_OPTION, body), -1);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(CmTest, WithoutEventsAFileThatDoesNotWaitSaysSo) {
  ASSERT_EQ(fcntl(fd_, F_SETFL, O_NONBLOCK), 0);
  rdma_ucm_event_resp event{};
  EXPECT_EQ(GetEvent(fd_, event), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_FALSE(IsReadable(fd_));
}

TEST_F(CmTest, AFileIsReadableWhileEventsWait) {
  Signal();
  ASSERT_TRUE(IsReadable(fd_));
  AnswerEvent(4, 0);
  AnswerEvent(9, 1);
  rdma_ucm_event_resp event{};
  ASSERT_GT(GetEvent(fd_, event), 0);
  EXPECT_EQ(event.event, 4u);
  EXPECT_TRUE(IsReadable(fd_));
  ASSERT_GT(GetEvent(fd_, event), 0);
  EXPECT_EQ(event.event, 9u);
  EXPECT_FALSE(IsReadable(fd_));
}

TEST_F(CmTest, OtherCommandsTakeSignalsToo) {
  Signal();
  daemon_->AnswerCm({.signals = 1, .response = BytesOf(rdma_ucm_destroy_id_resp{3})});
  rdma_ucm_destroy_id_resp response{};
  ASSERT_GT(DestroyId(fd_, response), 0);
  EXPECT_EQ(response.events_reported, 3u);
  EXPECT_FALSE(IsReadable(fd_));
}

TEST_F(CmTest, AThreadThatWaitsGetsTheEvent) {
  AnswerEvent(9, 1);
  rdma_ucm_event_resp event{};
  ssize_t written = 0;
  std::thread waiter([&] { written = GetEvent(fd_, event); });
  Signal();
  waiter.join();
  EXPECT_GT(written, 0);
  EXPECT_EQ(event.event, 9u);
}

// Another thread was faster, and has yet to take the signal: this thread continues to wait.
TEST_F(CmTest, AnEventThatAnotherThreadTookIsWaitedFor) {
  Signal();
  daemon_->AnswerCm({.error = EAGAIN});
  daemon_->AnswerCm({.error = EAGAIN});
  AnswerEvent(9, 1);
  rdma_ucm_event_resp event{};
  EXPECT_GT(GetEvent(fd_, event), 0);
  EXPECT_EQ(event.event, 9u);
}

TEST_F(CmTest, CopiesOfTheFdAreTheSameFile) {
  const int copies[] = {dup(fd_), dup2(fd_, FreeNumber()), dup3(fd_, FreeNumber(), O_CLOEXEC),
                        fcntl(fd_, F_DUPFD, 400), fcntl(fd_, F_DUPFD_CLOEXEC, 500)};
  for (const int copy : copies) {
    ASSERT_GE(copy, 0);
    daemon_->AnswerCm({.response = BytesOf(rdma_ucm_create_id_resp{1})});
    rdma_ucm_create_id_resp response{};
    EXPECT_GT(CreateId(copy, response), 0);
    struct stat status = {};
    ASSERT_EQ(fstat(copy, &status), 0);
    EXPECT_TRUE(S_ISCHR(status.st_mode));
    close(copy);
  }
}

// Numbers that were closed are other files': closed by a system call, no hook has seen it.
TEST_F(CmTest, ANumberThatIsAnotherFilesNowIsWrittenTo) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const int number = Open();
  ASSERT_EQ(syscall(SYS_dup3, ends[1], number, 0), number);
  EXPECT_EQ(write(number, "hello", 5), 5);
  char text[8] = {};
  EXPECT_EQ(read(ends[0], text, sizeof(text)), 5);
  EXPECT_STREQ(text, "hello");
  struct stat status = {};
  ASSERT_EQ(fstat(number, &status), 0);
  EXPECT_TRUE(S_ISFIFO(status.st_mode));
  for (const int fd : {ends[0], ends[1], number}) close(fd);
}

TEST_F(CmTest, AnIdMovesFromTheFileThatTheCommandNames) {
  const int other = Open();
  const uint32_t handle = [this, other] {
    daemon_->AnswerCm({});
    EXPECT_GT(Write(other, RDMA_USER_CM_CMD_LISTEN, rdma_ucm_listen{}), 0);
    return daemon_->Last(UROCE_WRITE_CM).As<uroce_write_cm>().file;
  }();
  rdma_ucm_migrate_resp response{};
  rdma_ucm_migrate_id body{};
  body.response = reinterpret_cast<uintptr_t>(&response);
  body.fd = static_cast<uint32_t>(other);
  daemon_->AnswerCm({.response = BytesOf(rdma_ucm_migrate_resp{2})});
  EXPECT_GT(Write(fd_, RDMA_USER_CM_CMD_MIGRATE_ID, body, sizeof(response)), 0);
  EXPECT_EQ(response.events_reported, 2u);
  const auto sent = daemon_->Last(UROCE_WRITE_CM).As<uroce_write_cm>();
  EXPECT_EQ(sent.old_file, handle);
  EXPECT_NE(sent.file, handle);
  close(other);
  EXPECT_EQ(Write(fd_, RDMA_USER_CM_CMD_MIGRATE_ID, body, sizeof(response)), -1);
  EXPECT_EQ(errno, ENOENT);
}

TEST_F(CmTest, WithoutTheDaemonIdsEndAndNothingWaits) {
  daemon_->Stop();
  EXPECT_TRUE(IsReadable(fd_));
  rdma_ucm_event_resp event{};
  EXPECT_EQ(GetEvent(fd_, event), -1);
  EXPECT_EQ(errno, EIO);
  rdma_ucm_create_id_resp created{};
  EXPECT_EQ(CreateId(fd_, created), -1);
  EXPECT_EQ(errno, EIO);
  rdma_ucm_destroy_id_resp destroyed{9};
  EXPECT_GT(DestroyId(fd_, destroyed), 0);
  EXPECT_EQ(destroyed.events_reported, 0u);
}

// Ids that were accepted or created, not those that are gone or another file's.
TEST_F(CmTest, EachIdHearsOnceThatItsDeviceHasGoneWithTheDaemon) {
  constexpr uint32_t kDeviceRemoval = 11;
  rdma_ucm_create_id_resp created{};
  for (const uint32_t id : {3u, 70000u, 5u}) {
    daemon_->AnswerCm({.response = BytesOf(rdma_ucm_create_id_resp{id})});
    ASSERT_GT(CreateId(fd_, created), 0);
  }
  daemon_->AnswerCm({.response = BytesOf(rdma_ucm_destroy_id_resp{0})});
  rdma_ucm_destroy_id destroy{};
  rdma_ucm_destroy_id_resp destroyed{};
  destroy.response = reinterpret_cast<uintptr_t>(&destroyed);
  destroy.id = 5;
  ASSERT_GT(Write(fd_, RDMA_USER_CM_CMD_DESTROY_ID, destroy, sizeof(destroyed)), 0);
  const int other = Open();
  daemon_->AnswerCm({});
  rdma_ucm_accept accept{};
  accept.uid = 0x99;
  accept.id = 300;
  accept.conn_param.valid = 1;
  ASSERT_GT(Write(other, RDMA_USER_CM_CMD_ACCEPT, accept), 0);
  daemon_->Stop();
  rdma_ucm_event_resp event{};
  ASSERT_GT(GetEvent(fd_, event), 0);
  EXPECT_EQ(event.event, kDeviceRemoval);
  EXPECT_EQ(event.uid, 0x1234u);
  EXPECT_EQ(event.id, 3u);
  EXPECT_EQ(GetEvent(fd_, event), -1);
  EXPECT_EQ(errno, EIO);
  ASSERT_GT(GetEvent(other, event), 0);
  EXPECT_EQ(event.uid, 0x99u);
  close(other);
}

TEST_F(CmTest, AThreadThatWaitsLearnsOfTheDaemonsEnd) {
  rdma_ucm_event_resp event{};
  ssize_t written = 0;
  int error = 0;
  std::thread waiter([&] {
    written = GetEvent(fd_, event);
    error = errno;
  });
  daemon_->Stop();
  waiter.join();
  EXPECT_EQ(written, -1);
  EXPECT_EQ(error, EIO);
}

TEST_F(CmTest, AChildHasNoPartInIt) {
  const pid_t child = fork();
  if (child == 0) {
    rdma_ucm_event_resp event{};
    rdma_ucm_destroy_id_resp response{9};
    const bool waits_not = GetEvent(fd_, event) == -1 && errno == EIO;
    _exit(waits_not && DestroyId(fd_, response) > 0 && response.events_reported == 0 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  daemon_->AnswerCm({.response = BytesOf(rdma_ucm_create_id_resp{4})});
  rdma_ucm_create_id_resp response{};
  EXPECT_GT(CreateId(fd_, response), 0);
}

}  // namespace
}  // namespace uroce::shim_test
