// SPDX-License-Identifier: Apache-2.0
// Where files end that a program lends or fills: never on the control thread, which here is the
// test, but on the session's thread for files. Their last close frees all that is in them.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <latch>
#include <memory>
#include <string>
#include <thread>

#include "nic/control/memory_socket.h"
#include "nic/settings/config.h"
#include "tests/nic/control/hand_daemon.h"
#include "tests/nic/control/memory/lending.h"

namespace uroce::nic {
namespace {

constexpr uint64_t kPage = 4096;

/// Keeps a thread busy until its end.
class Busy {
 public:
  explicit Busy(SideThread& thread) {
    auto begun = std::make_shared<std::latch>(1);
    thread.Do([begun, end = end_] {
      begun->count_down();
      end->wait();
    });
    begun->wait();
  }
  ~Busy() { end_->count_down(); }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

 private:
  std::shared_ptr<std::latch> end_ = std::make_shared<std::latch>(1);
};

/// Whether this process, and so the daemon in it, has a mapping of the file of that name.
bool IsMapped(const std::string& name) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find(name) != std::string::npos) return true;
  }
  return false;
}

bool IsOpen(const std::string& name) {
  for (const auto& fd : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (read_symlink(fd, gone).string().find(name) != std::string::npos) return true;
  }
  return false;
}

template <typename Condition>
void Await(Condition&& condition) {
  while (!condition()) std::this_thread::yield();
}

Limits SmallLimits() {
  Limits limits;
  limits.kinds.of(Kind::kSegment).of_program = 1;
  return limits;
}

class LentEndsTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { daemon_ = new HandDaemon(SmallLimits()); }
  static void TearDownTestSuite() { delete daemon_; }

  LentEndsTest()
      : program_(*Program::Make(daemon_->nic(), 1, getuid(), thread_)),
        socket_(*MemorySocket::Make(loop_, tasks_, *program_, {getpid(), Credentials::Own()},
                                    nullptr, thread_, program_end_)) {}

  static Fd MakeFile(const char* name) {
    Fd file(memfd_create(name, MFD_CLOEXEC));
    EXPECT_EQ(ftruncate(file.get(), 4 * kPage), 0);
    return file;
  }
  uroce_lend_reply AwaitReply() {
    uroce_lend_reply reply{};
    while (recv(program_end_.get(), &reply, sizeof(reply), MSG_DONTWAIT) < 0) loop_.RunOnce(10);
    return reply;
  }
  /// Lends the file, which the program has closed when the answer comes.
  uroce_lend_reply Lend(Fd file, const uroce_lend& request) {
    SendLend(program_end_.get(), request, file.get(), sizeof(request));
    file.Reset();
    return AwaitReply();
  }

  static inline HandDaemon* daemon_;
  EventLoop loop_;
  BackgroundTasks tasks_{loop_};
  std::shared_ptr<SideThread> thread_ = std::make_shared<SideThread>();
  std::unique_ptr<Program> program_;
  Fd program_end_;
  std::unique_ptr<MemorySocket> socket_;
};

TEST_F(LentEndsTest, OfADestroyedSegment) {
  const uroce_lend_reply lent = Lend(MakeFile("lent-segment"), LendFile(0, kPage));
  ASSERT_EQ(lent.error, 0);
  EXPECT_FALSE(IsOpen("lent-segment"));
  {
    const Busy busy(*thread_);
    EXPECT_TRUE(program_->segments().DestroySome(lent.segment, [] { return false; }).ok());
    EXPECT_TRUE(IsMapped("lent-segment"));
  }
  Await([] { return !IsMapped("lent-segment"); });
}

// The program has its file, and may fill far more of it than what is mapped.
TEST_F(LentEndsTest, OfADestroyedSegmentThatTheDaemonMade) {
  Fd file;
  const absl::StatusOr<uint32_t> segment =
      program_->segments().Create(uroce_create_segment{0x10000, kPage}, file);
  ASSERT_TRUE(segment.ok()) << segment.status();
  const std::string bytes(16 * kPage, 'b');
  ASSERT_EQ(pwrite(file.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  file.Reset();
  {
    const Busy busy(*thread_);
    EXPECT_TRUE(program_->segments().DestroySome(*segment, [] { return false; }).ok());
    EXPECT_TRUE(IsMapped(UROCE_SEGMENT_NAME));
  }
  Await([] { return !IsMapped(UROCE_SEGMENT_NAME); });
}

TEST_F(LentEndsTest, OfASegmentThatIsRefused) {
  ASSERT_EQ(Lend(MakeFile("first-segment"), LendFile(0, kPage)).error, 0);
  Fd file = MakeFile("refused-segment");
  SendLend(program_end_.get(), LendFile(0, kPage), file.get(), sizeof(uroce_lend));
  file.Reset();
  loop_.RunOnce(-1);  // It is given to the thread.
  Await([] { return IsMapped("refused-segment") && !IsOpen("refused-segment"); });
  {
    const Busy busy(*thread_);
    EXPECT_EQ(AwaitReply().error, ENOMEM);
    EXPECT_TRUE(IsMapped("refused-segment"));
  }
  Await([] { return !IsMapped("refused-segment"); });
}

TEST_F(LentEndsTest, OfAnExtendedConnectionDomain) {
  uroce_lend request = LendFile(0, 0);
  request.what = UROCE_LEND_XRC_FILE;
  const uroce_lend_reply lent = Lend(MakeFile("lent-domain"), request);
  ASSERT_EQ(lent.error, 0);
  Fd events, name;
  const uint32_t context = *program_->contexts().Open({0, 0}, events, name);
  const absl::StatusOr<uint32_t> domain =
      program_->xrc().OpenDomain(uroce_open_xrcd{context, lent.segment, O_CREAT, 0});
  ASSERT_TRUE(domain.ok()) << domain.status();
  {
    const Busy busy(*thread_);
    EXPECT_TRUE(program_->xrc().CloseDomain(*domain).ok());
    EXPECT_TRUE(IsOpen("lent-domain"));
  }
  Await([] { return !IsOpen("lent-domain"); });
}

}  // namespace
}  // namespace uroce::nic
