// SPDX-License-Identifier: Apache-2.0
// Files and log lines for queue pairs that fail: a user whose queue pairs fail in a loop takes
// those of no other user.
#include "nic/capture/packet_histories.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "nic/base/event_loop.h"
#include "nic/base/log.h"
#include "nic/base/user_limits.h"
#include "nic/devices/nic_device.h"
#include "nic/objects/nic.h"
#include "nic/objects/program.h"
#include "nic/objects/worker_inboxes.h"
#include "nic/ports.h"
#include "nic/settings/config.h"
#include "pipeline/os/fd.h"
#include "pipeline/os/side_thread.h"

namespace {

std::atomic<pid_t> remover;  // The thread that removed a file last.

}  // namespace

/// In place of libc's.
extern "C" int unlink(const char* path) noexcept {
  remover = gettid();
  return unlinkat(AT_FDCWD, path, 0);
}

namespace uroce::nic {
namespace {

constexpr uid_t kUser = 61000, kOther = 61001;
constexpr uint32_t kFiles = 4;
constexpr uint32_t kPackets = 4096;

/// The NICs and the log of this process: DPDK starts once.
class HistoryRecorderTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    StartLog(/*is_json=*/false, "error");
    char directory[] = "/tmp/uroce-history-test-XXXXXX";
    directory_ = mkdtemp(directory);
    Config config = MakeConfig({}, "/nonexistent").value();
    config.no_huge = true;
    config.history_dir = directory_;
    config.history_files = kFiles;
    config.history_packets = kPackets;
    Ports ports = OpenPorts(config).value();
    nic_ = new Nic(config, std::move(ports.devices), ports.seats);
  }
  static void TearDownTestSuite() {
    delete nic_;
    std::filesystem::remove_all(directory_);
  }
  ~HistoryRecorderTest() override {
    for (const auto& file : std::filesystem::directory_iterator(directory_)) {
      std::filesystem::remove(file);
    }
  }

  /// A program of `uid` that has one queue pair, whose number is `qpn`.
  static std::unique_ptr<Program> MakeProgram(uint32_t id, uid_t uid, Qpn& qpn) {
    std::unique_ptr<Program> program =
        *Program::Make(*nic_, id, uid, std::make_shared<SideThread>());
    Fd events, name;
    const uint32_t context = *program->contexts().Open(uroce_open_context{}, events, name);
    const uint32_t pd = *program->contexts().AllocPd(context);
    const uint32_t cq =
        program->completion_queues().Create({context, 16, 1, UROCE_NONE, 0})->handle;
    const uroce_create_qp request{pd, IBV_QPT_RC, cq, cq, 1, 0, {1, 1, 1, 1, 0}};
    qpn = Qpn(program->queue_pairs().Create(request)->qp_num);
    return program;
  }
  /// What a worker says of a queue pair that fails.
  void Fail(Qpn qpn) {
    ++failures_;
    nic_->failures().Take({.qpn = qpn,
                           .time = Nanos(failures_),
                           .cause = datapath::FailureCause::kSendQueue,
                           .history = std::make_unique<datapath::PacketHistory>(1)});
  }
  /// Until each failure has its file or is missed.
  void AwaitFiles() {
    const HistoryRecorder::Counts& counts = recorder_.counts();
    while (counts.written + counts.missed < failures_) loop_.RunOnce(10);
  }
  static size_t FilesThere() {
    const std::filesystem::directory_iterator files(directory_);
    return static_cast<size_t>(std::distance(begin(files), end(files)));
  }

  static inline std::string directory_;
  static inline Nic* nic_;
  EventLoop loop_;
  BackgroundTasks tasks_{loop_};
  LogBudget log_budget_;
  HistoryRecorder recorder_{loop_, tasks_, *nic_, log_budget_};
  uint64_t failures_ = 0;
  Qpn of_user_, of_other_;
  const std::unique_ptr<Program> user_ = MakeProgram(1, kUser, of_user_);
  const std::unique_ptr<Program> other_ = MakeProgram(2, kOther, of_other_);
};

TEST_F(HistoryRecorderTest, FilesOfAFloodReplaceThoseOfItsUserAlone) {
  Fail(of_other_);
  AwaitFiles();
  const std::string file = recorder_.FileOf(of_other_);
  for (uint32_t i = 0; i < 3 * kFiles; ++i) {
    Fail(of_user_);
    AwaitFiles();
  }
  EXPECT_EQ(recorder_.counts().missed, 0u);
  EXPECT_EQ(FilesThere(), kFiles);
  EXPECT_NE(file, "");
  EXPECT_EQ(recorder_.FileOf(of_other_), file);
  EXPECT_TRUE(std::filesystem::exists(file));
}

TEST_F(HistoryRecorderTest, PacketsThatAreKeptAreMemoryOfTheirUser) {
  constexpr uint64_t kBytes = kPackets * sizeof(datapath::HistoryPacket);
  const Quota& own_bytes = nic_->user(kUser).own_bytes;
  EXPECT_GE(own_bytes.used, kBytes);
  EXPECT_LT(own_bytes.used, 2 * kBytes);
}

TEST(HistoryFileTest, AnyNumberOfPacketsComesInSmallPieces) {
  constexpr uint32_t kLength = 4096;
  const datapath::HistoryPacket packet{.wire_length_bytes = kLength, .captured_bytes = 64};
  HistoryFile file({kPackets, packet}, {}, "");
  size_t pieces = 0, total = 0;
  for (bool goes_on = true; goes_on; ++pieces) {
    std::string piece;
    goes_on = file.Append(piece);
    ASSERT_LE(piece.size(), 64u << 10);
    total += piece.size();
  }
  EXPECT_GT(pieces, kPackets / 16);
  EXPECT_GT(total, kPackets * kLength);
}

// A file system that does not answer would hold up the control thread.
TEST_F(HistoryRecorderTest, OldFilesAreRemovedOnAnotherThread) {
  remover = 0;
  for (uint32_t i = 0; i <= kFiles; ++i) {
    Fail(of_user_);
    AwaitFiles();
  }
  EXPECT_NE(remover, 0);
  EXPECT_NE(remover, gettid());
}

TEST_F(HistoryRecorderTest, AFloodThatWaitsForTheDiskLeavesOthersTheirPlaces) {
  for (int i = 0; i < 200; ++i) Fail(of_user_);
  Fail(of_other_);
  AwaitFiles();
  EXPECT_GT(recorder_.counts().missed, 100u);
  EXPECT_NE(recorder_.FileOf(of_other_), "");
}

TEST_F(HistoryRecorderTest, LinesOfAFloodAreThoseOfItsUsersShareOfTheLog) {
  constexpr uint32_t kFlood = LogBudget::kBurst + 50;
  SetLogLevel("info");
  testing::internal::CaptureStderr();
  const Nanos begin = Nic::Now();
  for (uint32_t i = 0; i < kFlood; ++i) {
    Fail(of_user_);
    AwaitFiles();
  }
  Fail(of_other_);
  AwaitFiles();
  const uint64_t more = uint64_t((Nic::Now() - begin).count() / LogBudget::kInterval.count()) + 1;
  const std::string log = testing::internal::GetCapturedStderr();
  SetLogLevel("error");
  const auto lines = static_cast<uint64_t>(std::ranges::count(log, '\n'));
  EXPECT_EQ(recorder_.counts().written, kFlood + 1);
  EXPECT_GT(lines, LogBudget::kBurst) << "and one of the other user";
  EXPECT_LE(lines, LogBudget::kBurst + 1 + more);
}

}  // namespace
}  // namespace uroce::nic
