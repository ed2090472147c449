// SPDX-License-Identifier: Apache-2.0
#include "verbs-shim/memory/threads.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
#include <atomic>
#include <functional>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "pipeline/shm/abi/uroce_commands.h"
#include "tests/verbs-shim/memory/fake_daemon.h"
#include "verbs-shim/memory/segv_action.h"
#include "verbs-shim/memory/write_protection.h"

namespace uroce::memory {
namespace {

// ---- Stacks and control blocks ----

Vma Anonymous(uint64_t start, uint64_t end) {
  return {.start = start,
          .end = end,
          .file_offset = 0,
          .inode = 0,
          .readable = true,
          .writable = true,
          .executable = false,
          .shared = false,
          .kind = VmaKind::kAnonymous};
}

std::vector<std::pair<uint64_t, uint64_t>> Untouchable(const ThreadFacts& facts) {
  MappedArray<AddressRange> ranges;
  EXPECT_TRUE(FindUntouchable(facts, ranges));
  std::vector<std::pair<uint64_t, uint64_t>> result;
  for (const AddressRange& range : ranges) result.emplace_back(range.start, range.end);
  ranges.Release();
  return result;
}

using Ranges = std::vector<std::pair<uint64_t, uint64_t>>;

TEST(ThreadsTest, AThreadsStackReachesFromItsMappingsStartToItsControlBlock) {
  const std::vector<Vma> mappings = {Anonymous(0x100000, 0x200000)};
  const std::vector<ThreadRecord> threads = {{.control_block = 0x17f9e0, .is_main = false}};
  EXPECT_EQ(Untouchable({mappings, threads, 0x3000, 0, TlsPlace::kBelow}),
            (Ranges{{0x100000, 0x181000}}));
}

// Large blocks of malloc are often placed right below the main thread's storage.
TEST(ThreadsTest, OfTheMainThreadOnlyTheThreadLocalStorage) {
  const std::vector<Vma> mappings = {Anonymous(0x100000, 0x200000)};
  const std::vector<ThreadRecord> threads = {{.control_block = 0x17f9e0, .is_main = true}};
  EXPECT_EQ(Untouchable({mappings, threads, 0x3000, 0, TlsPlace::kBelow}),
            (Ranges{{0x17c000, 0x181000}}));
}

TEST(ThreadsTest, ThreadLocalStorageAboveTheControlBlock) {
  const std::vector<Vma> mappings = {Anonymous(0x100000, 0x200000)};
  std::vector<ThreadRecord> threads = {{.control_block = 0x17f9e0, .is_main = false}};
  EXPECT_EQ(Untouchable({mappings, threads, 0x3000, 0, TlsPlace::kAbove}),
            (Ranges{{0x100000, 0x184000}}));
  threads[0].is_main = true;
  EXPECT_EQ(Untouchable({mappings, threads, 0x3000, 0, TlsPlace::kAbove}),
            (Ranges{{0x17e000, 0x184000}}));
}

TEST(ThreadsTest, TheEndOfTheMappingIsTheEnd) {
  const std::vector<Vma> mappings = {Anonymous(0x17f000, 0x180000)};
  const std::vector<ThreadRecord> threads = {{.control_block = 0x17f9e0, .is_main = true}};
  EXPECT_EQ(Untouchable({mappings, threads, 0x3000, 0, TlsPlace::kBelow}),
            (Ranges{{0x17f000, 0x180000}}));
}

TEST(ThreadsTest, ACoroutinesStackIsTheNeighbourhoodOfTheFrame) {
  const std::vector<Vma> mappings = {Anonymous(0x1000000, 0x8000000)};
  EXPECT_EQ(Untouchable({mappings, {}, 0x3000, 0x2000010}), (Ranges{{0x1ff0000, 0x2801000}}));
}

TEST(ThreadsTest, ThreadsWithoutAControlBlockAreNotLookedFor) {
  const std::vector<Vma> mappings = {Anonymous(0x100000, 0x200000)};
  const std::vector<ThreadRecord> threads = {{.control_block = 0, .is_main = false}};
  EXPECT_EQ(Untouchable({mappings, threads, 0x3000, 0, TlsPlace::kBelow}), Ranges{});
}

TEST(ThreadsTest, EveryThreadOfThisProcessIsListed) {
  constexpr int kThreads = 20;
  std::latch started(kThreads), listed(1);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      started.count_down();
      listed.wait();
    });
  }
  started.wait();
  MappedArray<ThreadRecord> records;
  EXPECT_EQ(ListThreads(records), 0);
  listed.count_down();
  EXPECT_EQ(records.size(), kThreads + 1u);
  int near_self = 0;
  const auto self = static_cast<uint64_t>(pthread_self());
  for (const ThreadRecord& record : records) {
    EXPECT_NE(record.control_block, 0u);
    if (record.control_block - self < 4096) ++near_self;
  }
  EXPECT_EQ(near_self, 1);
  for (std::thread& thread : threads) thread.join();
  records.Release();
}

thread_local char large[100000];

TEST(ThreadsTest, ThreadLocalStorageIsCounted) {
  const auto self = static_cast<uint64_t>(pthread_self());
  const auto storage = reinterpret_cast<uint64_t>(large);
  if (kOwnTlsPlace == TlsPlace::kBelow) {
    EXPECT_LE(self - storage, StaticTlsBytes());
  } else {
    constexpr uint64_t kMostOfAControlBlock = 4096;
    EXPECT_LE(storage + sizeof large - self, StaticTlsBytes() + kMostOfAControlBlock);
  }
}

// ---- Whether threads survive a fault ----

bool ReadNothing(uint64_t, uint64_t&) { return false; }
bool ReadZero(uint64_t, uint64_t& word) {
  word = 0;
  return true;
}
bool ReadSegv(uint64_t, uint64_t& word) {
  word = 1 << (SIGSEGV - 1);
  return true;
}

ThreadState StateOf(const std::string& line, bool (*read)(uint64_t, uint64_t&) = ReadNothing) {
  ThreadState state;
  EXPECT_TRUE(ParseSystemCall(line, read, state)) << line;
  return state;
}

TEST(WritersTest, AStatusTellsTheMask) {
  ThreadState state;
  EXPECT_TRUE(ParseStatus("Name:\tx\nState:\tS (sleeping)\nSigBlk:\t0000000000000400\n", state));
  EXPECT_TRUE(state.blocks_segv);
  EXPECT_TRUE(ParseStatus("Name:\tx\nState:\tZ (zombie)\nSigBlk:\tfffffffffffffbff\n", state));
  EXPECT_TRUE(state.is_dead);
  EXPECT_FALSE(state.blocks_segv);
  EXPECT_FALSE(ParseStatus("Name:\tx\nState:\tS (sleeping)\n", state));
  EXPECT_FALSE(ParseStatus("", state));
}

TEST(WritersTest, ASystemCallTellsTheStack) {
  EXPECT_EQ(StateOf("running\n").stack_pointer, 0u);
  EXPECT_EQ(StateOf("-1 0x7f00 0x5600\n").stack_pointer, 0x7f00u);
  EXPECT_EQ(StateOf("202 0x1 0x2 0x3 0x0 0x0 0x6 0x7fab 0x5600\n").stack_pointer, 0x7fabu);
  ThreadState state;
  for (const char* line : {"", "202", "202 0x1 0x2", "x 0x1", "202 1 2 3 4 5 6 7 8"}) {
    EXPECT_FALSE(ParseSystemCall(line, ReadNothing, state)) << line;
  }
}

constexpr long kEpollPwait2 = 441;

/// The state of a thread in system call `number`, whose numbers differ between architectures.
ThreadState StateIn(long number, const std::string& arguments,
                    bool (*read)(uint64_t, uint64_t&) = ReadNothing) {
  return StateOf(std::to_string(number) + " " + arguments + " 0x7 0x5\n", read);
}

// Each shows another mask than the thread has afterwards.
TEST(WritersTest, SystemCallsWithMasksHideTheThreads) {
  EXPECT_TRUE(StateIn(SYS_rt_sigsuspend, "0x1 0x8 0x0 0x0 0x0 0x0").blocks_segv);
  EXPECT_TRUE(StateIn(SYS_ppoll, "0x1 0x8 0x0 0x9 0x8 0x0").blocks_segv);
  EXPECT_FALSE(StateIn(SYS_ppoll, "0x1 0x8 0x0 0x0 0x8 0x0").blocks_segv);
  for (const long wait : {long{SYS_epoll_pwait}, kEpollPwait2}) {
    EXPECT_TRUE(StateIn(wait, "0x1 0x8 0x0 0x0 0x9 0x8").blocks_segv) << wait;
    EXPECT_FALSE(StateIn(wait, "0x1 0x8 0x0 0x0 0x0 0x8").blocks_segv) << wait;
  }
  const char* with_mask = "0x1 0x8 0x0 0x0 0x0 0x9";
  EXPECT_TRUE(StateIn(SYS_pselect6, with_mask).blocks_segv);
  EXPECT_FALSE(StateIn(SYS_pselect6, with_mask, ReadZero).blocks_segv);
  EXPECT_TRUE(StateIn(SYS_pselect6, with_mask, ReadSegv).blocks_segv);
  EXPECT_FALSE(StateIn(SYS_pselect6, "0x1 0x8 0x0 0x0 0x0 0x0").blocks_segv) << "select";
  const char* timed = "0x9 0x0 0x0 0x8 0x0 0x0";
  EXPECT_TRUE(StateIn(SYS_rt_sigtimedwait, timed).blocks_segv);
  EXPECT_FALSE(StateIn(SYS_rt_sigtimedwait, timed, ReadZero).blocks_segv);
  EXPECT_TRUE(StateIn(SYS_rt_sigtimedwait, timed, ReadSegv).blocks_segv);
}

/// Programs with a second thread, without a userfaultfd.
class WithoutUserfaultfdTest : public testing::Test {
 protected:
  void SetUp() override {
    SetPolicy(MrPolicy::kAutomatic);
    setenv("UROCE_USERFAULTFD", "0", 1);
    pages_ = static_cast<uint8_t*>(mmap(nullptr, kBytes + 2 * kPageBytes, PROT_NONE,
                                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) +
             kPageBytes;
    ASSERT_EQ(mprotect(pages_, kBytes, PROT_READ | PROT_WRITE), 0);
    ASSERT_EQ(pipe(ends_), 0);
  }
  void TearDown() override {
    if (thread_.joinable()) End();
    for (const int end : ends_) close(end);
    munmap(pages_ - kPageBytes, kBytes + 2 * kPageBytes);
    unsetenv("UROCE_USERFAULTFD");
  }

  /// Starts a thread that runs `work`, and returns when it is asleep there.
  void Start(std::function<void()> work) {
    std::atomic<int> id = 0;
    thread_ = std::thread([&id, work = std::move(work)] {
      id = static_cast<int>(syscall(SYS_gettid));
      work();
    });
    while (id == 0 || !IsAsleep(id)) std::this_thread::yield();
  }
  void End() {
    EXPECT_EQ(write(ends_[1], "x", 1), 1);
    thread_.join();
    char byte;
    EXPECT_EQ(read(ends_[0], &byte, 1), 1);
  }
  void Sleep() const {
    pollfd wait{.fd = ends_[0], .events = POLLIN, .revents = 0};
    poll(&wait, 1, -1);
  }

  /// The region's parts, and the reason of the first one.
  std::string Register() {
    EXPECT_EQ(daemon_.Register(pages_, kBytes, mr_), 0);
    reason_ = daemon_.region(mr_).segments.front().reason;
    const std::string shape = daemon_.Shape(mr_);
    EXPECT_EQ(daemon_.Deregister(mr_), 0);
    return shape;
  }

  static constexpr uint64_t kBytes = 64 * kPageBytes;

  FakeDaemon& daemon_ = FakeDaemon::Make();
  MemoryRegistration mr_ = {};
  uint8_t* pages_ = nullptr;
  uint32_t reason_ = 0;
  int ends_[2] = {-1, -1};
  std::thread thread_;

 private:
  static bool IsAsleep(int id) {
    char path[64], state = 0;
    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", id);
    FILE* file = fopen(path, "re");
    if (file == nullptr) return false;
    const bool is_read = fscanf(file, "%*d (%*[^)]) %c", &state) == 1;
    fclose(file);
    return is_read && state == 'S';
  }
};

TEST_F(WithoutUserfaultfdTest, MemoryIsMapped) {
  EXPECT_EQ(Register(), "m262144");
  EXPECT_EQ(reason_, UROCE_WHY_NO_USERFAULTFD);
  EXPECT_EQ(PageKind(pages_), "private") << "One thread's memory comes back.";
  Start([this] { Sleep(); });
  EXPECT_EQ(Register(), "m262144");
  EXPECT_EQ(reason_, UROCE_WHY_NO_USERFAULTFD);
}

TEST_F(WithoutUserfaultfdTest, MemoryIsCopiedWhileAThreadBlocksTheSignal) {
  Start([this] {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    Sleep();
  });
  EXPECT_EQ(Register(), "c262144");
  EXPECT_EQ(reason_, UROCE_WHY_NO_USERFAULTFD);
  EXPECT_NE(mr_.limited_bytes, 0u);
  End();
  EXPECT_EQ(Register(), "m262144");
}

TEST_F(WithoutUserfaultfdTest, AThreadThatWaitsWithAnotherMaskBlocksWhatItBlockedBefore) {
  Start([this] {
    sigset_t all, none;
    sigfillset(&all);
    sigemptyset(&none);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    pollfd wait{.fd = ends_[0], .events = POLLIN, .revents = 0};
    ppoll(&wait, 1, nullptr, &none);
  });
  EXPECT_EQ(Register(), "c262144");
  End();
  Start([this] {
    pollfd wait{.fd = ends_[0], .events = POLLIN, .revents = 0};
    ppoll(&wait, 1, nullptr, nullptr);
  });
  EXPECT_EQ(Register(), "m262144");
}

ucontext_t coroutine, main_of_thread;
std::function<void()> coroutine_work;

// A handler could not run there while the pages are read-only.
TEST_F(WithoutUserfaultfdTest, AStackOfACoroutineIsCopied) {
  coroutine_work = [this] { Sleep(); };
  Start([this] {
    getcontext(&coroutine);
    coroutine.uc_stack.ss_sp = pages_;
    coroutine.uc_stack.ss_size = kBytes;
    coroutine.uc_link = &main_of_thread;
    makecontext(
        &coroutine, [] { coroutine_work(); }, 0);
    swapcontext(&main_of_thread, &coroutine);
  });
  EXPECT_EQ(Register(), "c262144");
  EXPECT_EQ(reason_, UROCE_WHY_STACK);
  End();
  EXPECT_EQ(Register(), "m262144");
}

// Each writer owns a word of every page.
TEST_F(WithoutUserfaultfdTest, NoWriteIsLost) {
  constexpr size_t kWriters = 3, kPages = kBytes / kPageBytes;
  std::atomic<bool> stop = false;
  std::atomic<size_t> running = 0;
  std::vector<std::vector<uint64_t>> counts(kWriters, std::vector<uint64_t>(kPages));
  const auto word = [this](size_t page, size_t writer) -> volatile uint64_t& {
    return reinterpret_cast<uint64_t*>(pages_ + page * kPageBytes)[writer];
  };
  std::vector<std::thread> writers;
  for (size_t writer = 0; writer < kWriters; ++writer) {
    writers.emplace_back([&, writer] {
      ++running;
      for (size_t turn = 0; !stop; ++turn) {
        const size_t page = turn * 7 % kPages;
        word(page, writer) = word(page, writer) + 1;
        ++counts[writer][page];
      }
    });
  }
  while (running < kWriters) std::this_thread::yield();
  size_t mapped = 0;
  for (int round = 0; round < 300; ++round) mapped += Register() == "m262144" ? 1 : 0;
  stop = true;
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(mapped, 300u);
  for (size_t page = 0; page < kPages; ++page) {
    for (size_t i = 0; i < kWriters; ++i) ASSERT_EQ(word(page, i), counts[i][page]) << page;
  }
}

TEST_F(WithoutUserfaultfdTest, MemoryIsCopiedWhereTheSignalIsIgnored) {
  Start([this] { Sleep(); });
  ASSERT_TRUE(PrepareWriteWindows());
  KernelAction ignored = {}, before;
  ignored.handler = reinterpret_cast<uint64_t>(SIG_IGN);
  ASSERT_TRUE(ChangeSegvAction(&ignored, &before));
  EXPECT_EQ(Register(), "c262144");
  EXPECT_EQ(reason_, UROCE_WHY_NO_USERFAULTFD);
  ASSERT_TRUE(ChangeSegvAction(&before, nullptr));
  EXPECT_EQ(Register(), "m262144");
}

}  // namespace
}  // namespace uroce::memory
