// SPDX-License-Identifier: Apache-2.0
// After a fork, parent and child have their memory each for itself, registered or not.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>

#include "tests/verbs-shim/memory/fake_daemon.h"

namespace uroce::memory {
namespace {

constexpr uint64_t kPages = 16;
constexpr uint64_t kBytes = kPages * kPageBytes;

/// Runs `child` in a fork child and returns its answer.
template <typename Child>
int InFork(Child child) {
  const pid_t pid = fork();
  if (pid == 0) _exit(child());
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFEXITED(status)) << "status " << status;
  return WEXITSTATUS(status);
}

class ForkTest : public testing::Test {
 protected:
  void SetUp() override {
    pages_ = static_cast<char*>(
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    memset(pages_, 'p', kBytes);
    ASSERT_EQ(daemon_.Register(pages_, kBytes, mr_), 0);
    if (PageKind(pages_) != "segment") GTEST_SKIP() << "no userfaultfd here";
  }

  FakeDaemon& daemon_ = FakeDaemon::Make();
  MemoryRegistration mr_ = {};
  char* pages_ = nullptr;
};

TEST_F(ForkTest, TheChildSeesTheContentsAndItsWritesStayItsOwn) {
  const int answer = InFork([this] {
    if (std::string(pages_, kBytes) != std::string(kBytes, 'p')) return 1;
    memset(pages_, 'c', kBytes);
    return std::string(pages_, kBytes) == std::string(kBytes, 'c') ? 0 : 2;
  });
  EXPECT_EQ(answer, 0);
  EXPECT_EQ(std::string(pages_, kBytes), std::string(kBytes, 'p'));
  EXPECT_EQ(daemon_.Read(mr_, pages_, kBytes), std::string(kBytes, 'p'));
}

TEST_F(ForkTest, TheParentsAndTheDaemonsWritesDoNotReachTheChild) {
  int to_child[2];
  ASSERT_EQ(pipe(to_child), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    char byte;
    if (read(to_child[0], &byte, 1) != 1) _exit(9);
    _exit(std::string(pages_, kBytes) == std::string(kBytes, 'p') ? 0 : 1);
  }
  memset(pages_, 'q', kBytes / 2);
  daemon_.Write(mr_, pages_ + kBytes / 2, std::string(kBytes / 2, 'd'));
  ASSERT_EQ(write(to_child[1], "x", 1), 1);
  int status = 0;
  waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
  close(to_child[0]);
  close(to_child[1]);
}

TEST_F(ForkTest, TheParentsRegionStaysWhatItWas) {
  EXPECT_EQ(InFork([] { return 0; }), 0);
  EXPECT_EQ(PageKind(pages_), "segment");
  daemon_.Write(mr_, pages_ + 100, "after");
  EXPECT_EQ(memcmp(pages_ + 100, "after", 5), 0);
}

TEST_F(ForkTest, PagesWithoutARegionAreTheChildsOwnToo) {
  ASSERT_EQ(daemon_.Deregister(mr_), 0);
  auto* moved = static_cast<char*>(mremap(pages_, kBytes, 2 * kBytes, MREMAP_MAYMOVE));
  ASSERT_NE(moved, MAP_FAILED);
  moved[2 * kBytes - 1] = 'p';
  EXPECT_EQ(InFork([moved] {
              if (PageKind(moved) != "private") return 1;
              if (moved[0] != 'p' || moved[2 * kBytes - 1] != 'p') return 2;
              moved[0] = moved[2 * kBytes - 1] = 'c';
              return 0;
            }),
            0);
  EXPECT_EQ(moved[0], 'p');
  EXPECT_EQ(moved[2 * kBytes - 1], 'p');
}

TEST_F(ForkTest, PagesOfASegmentThatIsGivenBackInPartAreTheChildsOwnToo) {
  MemoryRegistration small = {};
  ASSERT_EQ(daemon_.Register(pages_ + 4 * kPageBytes, kPageBytes, small), 0);
  ASSERT_EQ(daemon_.Deregister(mr_), 0);
  EXPECT_EQ(InFork([this] {
              if (std::string(pages_, kBytes) != std::string(kBytes, 'p')) return 1;
              memset(pages_, 'c', kBytes);
              return PageKind(pages_ + 4 * kPageBytes) == "private" ? 0 : 2;
            }),
            0);
  EXPECT_EQ(std::string(pages_, kBytes), std::string(kBytes, 'p'));
  daemon_.Write(small, pages_ + 4 * kPageBytes, "after");
  EXPECT_EQ(memcmp(pages_ + 4 * kPageBytes, "after", 5), 0);
  ASSERT_EQ(daemon_.Deregister(small), 0);
}

TEST_F(ForkTest, ProtectionIsInherited) {
  ASSERT_EQ(mprotect(pages_, kPageBytes, PROT_READ), 0);
  ASSERT_EQ(mprotect(pages_ + kPageBytes, kPageBytes, PROT_NONE), 0);
  EXPECT_EQ(InFork([this] {
              MappedArray<Vma> mappings;
              const auto start = reinterpret_cast<uint64_t>(pages_);
              if (ReadMaps({start, start + 2 * kPageBytes}, mappings) != 0) return 1;
              if (mappings.size() != 2 || pages_[0] != 'p') return 2;
              if (!mappings[0].readable || mappings[0].writable) return 3;
              return mappings[1].readable || mappings[1].shared ? 4 : 0;
            }),
            0);
}

TEST_F(ForkTest, TheChildMayRegisterWithItsOwnDaemon) {
  EXPECT_EQ(InFork([this] {
              FakeDaemon& daemon = FakeDaemon::Make();
              MemoryRegistration mr = {};
              if (daemon.Register(pages_, kBytes, mr) != 0) return 1;
              pages_[0] = 'c';
              return daemon.Read(mr, pages_, 2) == "cp" ? 0 : 2;
            }),
            0);
  EXPECT_EQ(pages_[0], 'p');
}

// What a child does with its parent's region must not disturb its own regions.
TEST_F(ForkTest, TheChildMayEndItsParentsRegion) {
  EXPECT_EQ(InFork([this] {
              FakeDaemon& daemon = FakeDaemon::Make();
              MemoryRegistration first = {}, second = {};
              if (daemon.Register(pages_, kBytes, first) != 0) return 1;
              if (daemon_.Deregister(mr_) != 0 || daemon.segment_count() != 1) return 2;
              if (daemon.Register(pages_, kBytes, second) != 0) return 3;
              if (daemon.segment_count() != 1 || daemon.Deregister(first) != 0) return 4;
              return daemon.Deregister(second) == 0 && daemon.segment_count() == 0 ? 0 : 5;
            }),
            0);
  daemon_.Write(mr_, pages_, "still");
  EXPECT_EQ(memcmp(pages_, "still", 5), 0);
}

TEST_F(ForkTest, AGrandchildHasItsOwnToo) {
  EXPECT_EQ(InFork([this] {
              pages_[0] = 'c';
              if (InFork([this] {
                    const bool is_right = pages_[0] == 'c';
                    pages_[0] = 'g';
                    return is_right ? 0 : 1;
                  }) != 0) {
                return 1;
              }
              return pages_[0] == 'c' ? 0 : 2;
            }),
            0);
}

// Registrations, writes and forks at the same time: no process hangs, and no bytes reach another
// process.
TEST_F(ForkTest, ForksAmongRegistrationsAndWriters) {
  std::atomic<bool> stop = false;
  std::thread registrar([&] {
    while (!stop) {
      auto* block = static_cast<char*>(malloc(50000));
      MemoryRegistration mr = {};
      EXPECT_EQ(daemon_.Register(block, 50000, mr), 0);
      EXPECT_EQ(daemon_.Deregister(mr), 0);
      free(block);
    }
  });
  std::thread writer([&] {
    while (!stop) memset(pages_ + kBytes / 2, 'w', kBytes / 2);
  });
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(InFork([this] {
                memset(pages_, 'c', kBytes);
                return 0;
              }),
              0);
    ASSERT_EQ(std::string(pages_, kBytes / 2), std::string(kBytes / 2, 'p'));
    ASSERT_EQ(memchr(pages_ + kBytes / 2, 'c', kBytes / 2), nullptr);
  }
  stop = true;
  registrar.join();
  writer.join();
}

}  // namespace
}  // namespace uroce::memory
