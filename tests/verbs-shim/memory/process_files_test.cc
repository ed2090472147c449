// SPDX-License-Identifier: Apache-2.0
// The files of this process in /proc that registrations use.
#include "verbs-shim/memory/process_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "verbs-shim/memory/maps.h"

namespace uroce::memory {
namespace {

TEST(ProcessFilesTest, KeptFilesNeedNoFreeFd) {
  KeepProcessFiles();
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none = {0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  uint64_t count = 0;
  const int error = CountMaps(count);
  const int64_t memory = OpenProcessFile(ProcessFile::kMemory);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(error, 0);
  EXPECT_GT(count, 5u);
  EXPECT_GE(memory, 0);
}

TEST(ProcessFilesTest, AFileThatTheProgramHasClosedIsOpenedAgain) {
  const auto maps = static_cast<int>(OpenProcessFile(ProcessFile::kMaps));
  ASSERT_GE(maps, 0);
  const int other = open("/dev/null", O_RDONLY);
  ASSERT_EQ(dup2(other, maps), maps);  // The number is another file's now.
  close(other);
  uint64_t count = 0;
  EXPECT_EQ(CountMaps(count), 0);
  EXPECT_GT(count, 5u);
  EXPECT_EQ(fcntl(maps, F_GETFD), 0) << "the program's file stays";
  close(maps);
}

// As after setuid(2): the files belong to root.
TEST(ProcessFilesTest, AProcessThatIsNotDumpableOpensItsMemory) {
  const pid_t child = fork();
  if (child == 0) {
    ForgetProcessFiles();
    const bool is_changed =
        setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0;
    const bool is_hidden = prctl(PR_SET_DUMPABLE, 0) == 0;
    const bool is_open = OpenProcessFile(ProcessFile::kMemory) >= 0;
    const bool stays_hidden = prctl(PR_GET_DUMPABLE) == 0;
    _exit(!is_changed ? 2 : is_hidden && is_open && stays_hidden ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  if (WEXITSTATUS(status) == 2) GTEST_SKIP() << "only root becomes another user";
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace uroce::memory
