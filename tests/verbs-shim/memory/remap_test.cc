// SPDX-License-Identifier: Apache-2.0
// No write gets lost while pages are remapped under the threads that write to them.
#include "verbs-shim/memory/remap.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "pipeline/shm/abi/uroce_commands.h"
#include "verbs-shim/memory/pages.h"
#include "verbs-shim/memory/write_protection.h"

namespace uroce::memory {
namespace {

constexpr int kWriters = 3;
constexpr uint64_t kPages = 64;
constexpr uint64_t kBytes = kPages * kPageBytes;

struct Way {
  const char* name;
  bool kernel_mode;
  bool protects_absent;
  bool by_signal = false;
};

/// Anonymous pages and the remaps of them.
class RemapTest : public testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    if (GetParam().by_signal) {
      ASSERT_TRUE(PrepareWriteWindows());
    } else {
      ProbeUserfaultfd();
    }
    if (IsSkipped()) return;
    pages_ = static_cast<uint64_t*>(
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  }
  void TearDown() override {
    if (pages_ != nullptr) munmap(pages_, kBytes);
  }

  void ProbeUserfaultfd() {
    support_ = ProbeFaultSupport(-1);
    const bool has_none = support_.origin == FaultSupport::Origin::kSignal;
    if (has_none) GTEST_SKIP() << "no userfaultfd here";
    if (GetParam().kernel_mode && !support_.kernel_mode) GTEST_SKIP() << "user-mode faults only";
    if (GetParam().protects_absent && !support_.protects_absent) GTEST_SKIP() << "old kernel";
    support_.kernel_mode = GetParam().kernel_mode;
    support_.protects_absent = GetParam().protects_absent;
  }

  /// Remaps all pages for those of a new memfd.
  void Remap() {
    const int memfd = memfd_create(UROCE_SEGMENT_NAME, MFD_CLOEXEC);
    ASSERT_EQ(ftruncate(memfd, kBytes), 0);
    const auto start = reinterpret_cast<uint64_t>(pages_);
    const RemapRequest request{.pages = {start, start + kBytes},
                               .protection = PROT_READ | PROT_WRITE,
                               .memfd = memfd,
                               .is_private = is_private_,
                               .keep = false,
                               .checks_pins = is_private_ && SeesPins()};
    is_private_ = false;
    struct rlimit before;
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
    const struct rlimit none = {.rlim_cur = 0, .rlim_max = before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, may_write_files_ ? &before : &none), 0);
    EXPECT_EQ(RemapPages({&support_, {}}, request, result_), 0);
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    close(memfd);
  }
  void RemapUnderWriters(int rounds);
  /// Private memory that is long enough for copy threads: the first word of a page is its index
  /// plus 1.
  struct LongMemory {
    static constexpr uint64_t kBytes = kLeastThreadedBytes;

    LongMemory() {
      for (uint64_t i = 0; i < kBytes / 8; i += 512) words[i] = i + 1;
    }
    ~LongMemory() { munmap(words, kBytes); }
    LongMemory(const LongMemory&) = delete;
    LongMemory& operator=(const LongMemory&) = delete;

    uint64_t* const words = static_cast<uint64_t*>(
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  };
  /// Remaps all of `memory` for pages of `memfd`, with copy threads.
  int RemapLong(const LongMemory& memory, int memfd, bool keep) {
    const auto start = reinterpret_cast<uint64_t>(memory.words);
    const RemapRequest request{.pages = {start, start + LongMemory::kBytes},
                               .protection = PROT_READ | PROT_WRITE,
                               .memfd = memfd,
                               .is_private = true,
                               .keep = keep,
                               .checks_pins = SeesPins()};
    CopyThreads copy_threads(LongMemory::kBytes);
    return static_cast<int>(RemapPages({&support_, {}, &copy_threads}, request, result_));
  }
  bool SeesPins() const { return support_.moves_pages && support_.kernel_mode; }

  void MakePrivateAgain() {
    ASSERT_EQ(mmap(pages_, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                   -1, 0),
              pages_);
    is_private_ = true;
  }

  volatile uint64_t& Word(uint64_t page, int index) {
    return pages_[page * (kPageBytes / sizeof(uint64_t)) + static_cast<uint64_t>(index)];
  }

  FaultSupport support_;
  bool may_write_files_ = true;
  bool is_private_ = true;  // no remap yet
  uint64_t* pages_ = nullptr;
  RemapResult result_ = {};
};

// Each writer owns a word of every page, and all share one that they add to atomically.
void RemapTest::RemapUnderWriters(int rounds) {
  std::atomic<bool> stop = false;
  std::atomic<int> running = 0;
  std::vector<std::vector<uint64_t>> counts(kWriters, std::vector<uint64_t>(kPages));
  std::vector<std::thread> writers;
  for (int w = 0; w < kWriters; ++w) {
    writers.emplace_back([&, w] {
      ++running;
      for (uint64_t turn = 0; !stop; ++turn) {
        const uint64_t page = turn * 7 % kPages;
        Word(page, w) = Word(page, w) + 1;
        std::atomic_ref(pages_[page * 512 + kWriters]).fetch_add(1);
        ++counts[static_cast<size_t>(w)][page];
      }
    });
  }
  while (running < kWriters) std::this_thread::yield();
  for (int round = 0; round < rounds; ++round) Remap();
  stop = true;
  for (std::thread& writer : writers) writer.join();
  for (uint64_t page = 0; page < kPages; ++page) {
    uint64_t sum = 0;
    for (int w = 0; w < kWriters; ++w) {
      ASSERT_EQ(Word(page, w), counts[static_cast<size_t>(w)][page]) << "page " << page;
      sum += counts[static_cast<size_t>(w)][page];
    }
    ASSERT_EQ(Word(page, kWriters), sum) << "page " << page;
  }
}

TEST_P(RemapTest, KeepsEveryIncrementOfConcurrentWriters) { RemapUnderWriters(400); }

// The limit is of memfds too, and its signal would end the program.
TEST_P(RemapTest, KeepsThemWhereTheProgramMayWriteNoFiles) {
  may_write_files_ = false;
  RemapUnderWriters(50);
}

// The first write to a page that was never touched is the one that gets lost most easily.
TEST_P(RemapTest, KeepsFirstWritesToUntouchedPages) {
  for (int round = 0; round < 400; ++round) {
    std::atomic<bool> is_running = false;
    std::thread writer([&] {
      is_running = true;
      for (uint64_t page = 0; page < kPages; ++page) Word(page, 0) = page + 1;
    });
    while (!is_running) std::this_thread::yield();
    Remap();
    writer.join();
    for (uint64_t page = 0; page < kPages; ++page) {
      ASSERT_EQ(Word(page, 0), page + 1) << "round " << round;
    }
    MakePrivateAgain();
  }
}

// System calls that write into the pages wait in kernel mode; otherwise they may get EFAULT, and
// what they report as done is done.
TEST_P(RemapTest, KeepsWritesOfSystemCalls) {
  std::atomic<bool> stop = false;
  std::atomic<uint64_t> reads = 0;
  uint64_t faults = 0, wrong = 0;
  const int source = memfd_create("source", 0);
  const std::string pattern(kBytes, 'p');
  ASSERT_EQ(write(source, pattern.data(), kBytes), static_cast<ssize_t>(kBytes));
  std::thread reader([&] {
    auto* bytes = reinterpret_cast<char*>(pages_);
    while (!stop) {
      memset(bytes, 0, kBytes);
      const ssize_t got = pread(source, bytes, kBytes, 0);
      if (got != static_cast<ssize_t>(kBytes)) ++faults;
      if (got > 0 && memcmp(bytes, pattern.data(), static_cast<size_t>(got)) != 0) ++wrong;
      ++reads;
    }
  });
  while (reads == 0) std::this_thread::yield();
  for (int round = 0; round < 400; ++round) Remap();
  stop = true;
  reader.join();
  close(source);
  EXPECT_EQ(wrong, 0u);
  EXPECT_TRUE(!GetParam().kernel_mode || faults == 0) << faults;
}

TEST_P(RemapTest, RefusesWhatCannotBeProtectedAndLeavesIt) {
  const int file = memfd_create("file", 0);
  ASSERT_EQ(ftruncate(file, kBytes), 0);
  auto* mapped =
      static_cast<char*>(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0));
  memcpy(mapped, "kept", sizeof("kept"));
  const auto start = reinterpret_cast<uint64_t>(mapped);
  RemapRequest request{.pages = {start, start + kBytes},
                       .protection = PROT_READ | PROT_WRITE,
                       .memfd = -1,
                       .is_private = true,
                       .keep = false,
                       .checks_pins = false};
  EXPECT_NE(RemapPages({&support_, {}}, request, result_), 0);
  EXPECT_STREQ(mapped, "kept");
  const auto anonymous = reinterpret_cast<uint64_t>(pages_);
  Word(3, 0) = 7;
  request.pages = {anonymous, anonymous + kBytes};
  request.keep = true;
  request.checks_pins = SeesPins();
  EXPECT_EQ(RemapPages({&support_, {}}, request, result_), EBADF);
  EXPECT_EQ(result_.kept, 0u) << "it came back";
  EXPECT_EQ(Word(3, 0), 7u);
  Word(3, 0) = 8;  // Not write-protected any more.
  munmap(mapped, kBytes);
  close(file);
}

// As where the program has replaced a mapping since the plan was made.
TEST_P(RemapTest, RefusesPagesThatAreShared) {
  if (!SeesPins()) GTEST_SKIP() << "this way moves no pages";
  const int file = memfd_create("file", 0), memfd = memfd_create("segment", 0);
  ASSERT_EQ(ftruncate(file, kBytes), 0);
  ASSERT_EQ(ftruncate(memfd, kBytes), 0);
  ASSERT_EQ(mmap(pages_, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0), pages_);
  Word(3, 0) = 7;
  const auto start = reinterpret_cast<uint64_t>(pages_);
  const RemapRequest request{.pages = {start, start + kBytes},
                             .protection = PROT_READ | PROT_WRITE,
                             .memfd = memfd,
                             .is_private = true,
                             .keep = true,
                             .checks_pins = true};
  EXPECT_NE(RemapPages({&support_, {}}, request, result_), 0);
  EXPECT_EQ(result_.kept, 0u);
  Word(4, 0) = Word(3, 0) + 1;
  uint64_t word = 0;
  EXPECT_EQ(pread(file, &word, sizeof(word), 4 * kPageBytes), 8);
  EXPECT_EQ(word, 8u) << "the mapping stayed";
  close(file);
  close(memfd);
}

// A file of some chunks, which may not grow: the next chunk fails in all parts but the first ones.
TEST_P(RemapTest, AnErrorInAPartOfALongRegionLeavesAllAsItWas) {
  constexpr uint64_t kFile = 9 * kChunkBytes + (kChunkBytes >> 2);
  const int memfd = memfd_create("segment", MFD_ALLOW_SEALING);
  ASSERT_EQ(ftruncate(memfd, kFile), 0);
  ASSERT_EQ(fcntl(memfd, F_ADD_SEALS, F_SEAL_GROW), 0);
  const LongMemory memory;
  EXPECT_NE(RemapLong(memory, memfd, GetParam().kernel_mode), 0);
  EXPECT_FALSE(result_.stays);
  EXPECT_EQ(result_.kept, 0u);
  for (uint64_t i = 0; i < LongMemory::kBytes / 8; i += 512) {
    ASSERT_EQ(memory.words[i], i + 1);
    memory.words[i] = i + 2;
  }
  uint64_t of_file = 0;
  EXPECT_EQ(pread(memfd, &of_file, sizeof(of_file), 0), 8);
  EXPECT_EQ(of_file, 1u) << "the first chunk was in the file, and is private again";
  close(memfd);
}

// Userfaultfd fills absent pages alone; such a file is written.
TEST_P(RemapTest, AFileThatHasPagesGetsTheContents) {
  const int memfd = memfd_create("segment", 0);
  ASSERT_EQ(ftruncate(memfd, LongMemory::kBytes), 0);
  ASSERT_EQ(pwrite(memfd, "former", 6, 3 * kChunkBytes + 5 * kPageBytes), 6);
  const LongMemory memory;
  ASSERT_EQ(RemapLong(memory, memfd, /*keep=*/false), 0);
  for (uint64_t i = 0; i < LongMemory::kBytes / 8; i += 512) {
    ASSERT_EQ(memory.words[i], i + 1);
    memory.words[i] = i + 2;
    uint64_t of_file = 0;
    ASSERT_EQ(pread(memfd, &of_file, sizeof(of_file), static_cast<off_t>(i * 8)), 8);
    ASSERT_EQ(of_file, i + 2);
  }
  close(memfd);
}

TEST_P(RemapTest, TheSignalMaskIsPutBack) {
  sigset_t before, after;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  Remap();
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  EXPECT_EQ(memcmp(&before, &after, sizeof(uint64_t)), 0);
}

INSTANTIATE_TEST_SUITE_P(Ways, RemapTest,
                         testing::Values(Way{"KernelMode", true, true},
                                         Way{"KernelModeBeforeLinux64", true, false},
                                         Way{"UserMode", false, true},
                                         Way{"UserModeBeforeLinux64", false, false},
                                         Way{"Signal", false, false, true}),
                         [](const auto& way) { return way.param.name; });

}  // namespace
}  // namespace uroce::memory
