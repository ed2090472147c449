// SPDX-License-Identifier: Apache-2.0
#include "tools/capture/output.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <vector>

namespace uroce::tools {
namespace {

constexpr sig_atomic_t kRunning = 0;
constexpr sig_atomic_t kStopping = 1;

class CaptureOutputTest : public testing::Test {
 protected:
  void SetUp() override {
    char place[] = "/tmp/uroce-test-XXXXXX";
    directory_ = mkdtemp(place);
    signal(SIGPIPE, SIG_IGN);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string Path(const std::string& name) const { return directory_ + "/" + name; }
  static std::string Contents(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  std::set<std::string> Names() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
      names.insert(entry.path().filename().string());
    }
    return names;
  }
  static WriteResult Write(CaptureOutput& output, const std::string& text,
                           const sig_atomic_t& stopping = kRunning) {
    std::span<const uint8_t> part{reinterpret_cast<const uint8_t*>(text.data()), text.size()};
    return output.Write({&part, 1}, stopping);
  }

  std::string directory_;
};

TEST_F(CaptureOutputTest, RingFilesAreNumberedAndDatedBeforeTheirSuffix) {
  tm time{};
  time.tm_year = 124;
  time.tm_mday = 31;
  time.tm_hour = 23;
  time.tm_min = 5;
  time.tm_sec = 9;
  EXPECT_EQ(RingFileName("roce.pcapng", 7, time), "roce_00007_20240131230509.pcapng");
  EXPECT_EQ(RingFileName("/a.d/roce", 12, time), "/a.d/roce_00012_20240131230509");
  EXPECT_EQ(RingFileName("/a.d/.roce", 1, time), "/a.d/.roce_00001_20240131230509");
}

TEST_F(CaptureOutputTest, NewFileIsItsOwnersOnly) {
  ASSERT_TRUE(CaptureOutput::Open(Path("file"), false, 0).ok());
  struct stat info {};
  ASSERT_EQ(stat(Path("file").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(CaptureOutputTest, NewFileOfSudoIsItsCallers) {
  if (geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  setenv("SUDO_UID", "1234", 1);
  setenv("SUDO_GID", "4321", 1);
  std::ofstream(Path("old")) << "root's";
  ASSERT_TRUE(CaptureOutput::Open(Path("new"), false, 0).ok());
  ASSERT_TRUE(CaptureOutput::Open(Path("old"), false, 0).ok());
  unsetenv("SUDO_UID");
  unsetenv("SUDO_GID");
  struct stat info {};
  ASSERT_EQ(stat(Path("new").c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, 1234u);
  EXPECT_EQ(info.st_gid, 4321u);
  // What a link of the caller's leads to stays with whom it belongs to.
  ASSERT_EQ(stat(Path("old").c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, 0u);
}

TEST_F(CaptureOutputTest, OldFileIsWrittenAgainWithTheRightsItHad) {
  std::ofstream(Path("file")) << "what was there before";
  chmod(Path("file").c_str(), 0640);
  auto output = CaptureOutput::Open(Path("file"), false, 0);
  ASSERT_TRUE(output.ok()) << output.status();
  EXPECT_EQ(Write(*output, "new"), WriteResult::kOk);
  EXPECT_EQ(Contents(Path("file")), "new");
  struct stat info {};
  ASSERT_EQ(stat(Path("file").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0640u);
}

// In /tmp another user may have made the file before, and then reads what is captured.
TEST_F(CaptureOutputTest, AFileThatAnotherUserMadeWhereAllMakeFilesIsNotWritten) {
  if (geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  chmod(directory_.c_str(), 01777);
  std::ofstream(Path("planted")) << "theirs";
  ASSERT_EQ(mkfifo(Path("fifo").c_str(), 0666), 0);
  for (const char* name : {"planted", "fifo"}) {
    ASSERT_EQ(chown(Path(name).c_str(), 1234, 1234), 0);
    const auto output = CaptureOutput::Open(Path(name), false, 0);  // The FIFO has no reader.
    ASSERT_FALSE(output.ok());
    EXPECT_THAT(std::string(output.status().message()), testing::HasSubstr("another user"));
  }
  EXPECT_EQ(Contents(Path("planted")), "theirs");
  setenv("SUDO_UID", "1234", 1);
  setenv("SUDO_GID", "4321", 1);
  EXPECT_TRUE(CaptureOutput::Open(Path("planted"), false, 0).ok());
  unsetenv("SUDO_UID");
  unsetenv("SUDO_GID");
  // The owner of the directory can replace any file in it.
  ASSERT_EQ(chown(directory_.c_str(), 1234, 1234), 0);
  EXPECT_TRUE(CaptureOutput::Open(Path("planted"), false, 0).ok());
}

TEST_F(CaptureOutputTest, PathThatCannotBeOpenedIsNamed) {
  const auto output = CaptureOutput::Open(Path("none/file"), false, 0);
  ASSERT_FALSE(output.ok());
  EXPECT_THAT(std::string(output.status().message()), testing::HasSubstr("none/file"));
}

TEST_F(CaptureOutputTest, RingKeepsTheNewestFiles) {
  auto output = CaptureOutput::Open(Path("r.pcapng"), true, 2);
  ASSERT_TRUE(output.ok()) << output.status();
  std::vector<std::string> names = {output->name()};
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(output->Next().ok());
    names.push_back(output->name());
  }
  EXPECT_EQ(output->file_count(), 4u);
  EXPECT_EQ(Names(), (std::set<std::string>{std::filesystem::path(names[2]).filename(),
                                            std::filesystem::path(names[3]).filename()}));
}

TEST_F(CaptureOutputTest, RingWithoutACountKeepsAllFiles) {
  auto output = CaptureOutput::Open(Path("r.pcapng"), true, 0);
  ASSERT_TRUE(output.ok()) << output.status();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(output->Next().ok());
  EXPECT_EQ(Names().size(), 4u);
}

TEST_F(CaptureOutputTest, WriteThatFailsLeavesNoPartOfItsBlocks) {
  auto output = CaptureOutput::Open(Path("file"), false, 0);
  ASSERT_TRUE(output.ok()) << output.status();
  ASSERT_EQ(Write(*output, std::string(100, 'a')), WriteResult::kOk);
  // A limit on the file's size stands for a full disk: part of the blocks fits.
  signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{150, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const WriteResult result = Write(*output, std::string(100, 'b'));
  const int reason = errno;
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(result, WriteResult::kFailed);
  EXPECT_EQ(reason, EFBIG);
  EXPECT_EQ(Contents(Path("file")), std::string(100, 'a'));
}

/// An output into a pipe of which the test holds the reading end.
struct PipeOutput {
  explicit PipeOutput(const std::string& path) {
    EXPECT_EQ(mkfifo(path.c_str(), 0600), 0);
    reader = Fd(open(path.c_str(), O_RDONLY | O_NONBLOCK));
    output = CaptureOutput::Open(path, false, 0);
    EXPECT_TRUE(output.ok()) << output.status();
  }
  Fd reader;
  absl::StatusOr<CaptureOutput> output = absl::UnknownError("not open");
};

TEST_F(CaptureOutputTest, PipeWithoutReaderSaysSo) {
  PipeOutput pipe(Path("pipe"));
  pipe.reader = Fd();
  EXPECT_EQ(Write(*pipe.output, "text"), WriteResult::kReaderGone);
}

TEST_F(CaptureOutputTest, EndOfACaptureDoesNotWaitForAReaderThatTakesNothing) {
  PipeOutput pipe(Path("pipe"));
  EXPECT_EQ(Write(*pipe.output, std::string(10 << 20, 'x'), kStopping), WriteResult::kStuck);
}

}  // namespace
}  // namespace uroce::tools
