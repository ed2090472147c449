// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/memory/copy_helper.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

std::atomic<int> watched_fd{-1};
std::atomic<pid_t> closed_by{0};

}  // namespace

// In libc's place: says which thread closes the watched fd.
extern "C" int close(int fd) {
  int expected = fd;
  if (watched_fd.compare_exchange_strong(expected, -1)) closed_by = gettid();
  return static_cast<int>(syscall(SYS_close, fd));
}

namespace uroce::datapath {
namespace {

// The helper of copied memory between several workers.

class CopyHelperTest : public testing::Test {
 protected:
  ~CopyHelperTest() override {
    for (const int fd : wake_fds_) close(fd);
  }
  static std::unique_ptr<CopyJob> Job(CopyJob::Kind kind, void* address, uint32_t length) {
    auto job = std::make_unique<CopyJob>();
    job->kind = kind;
    job->piece_count = job->own_pieces = 1;
    job->pieces[0] = {.app_addr = reinterpret_cast<uint64_t>(address), .length_bytes = length};
    return job;
  }
  std::unique_ptr<CopyJob> Await(uint32_t worker) {
    for (;;) {
      if (CopyJob* job = helper_.PollDone(worker)) return std::unique_ptr<CopyJob>(job);
      std::this_thread::yield();
    }
  }

  std::array<int, 2> wake_fds_{eventfd(0, EFD_NONBLOCK), eventfd(0, EFD_NONBLOCK)};
  CopyHelper helper_{{.fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC), .user = Credentials::Own()},
                     wake_fds_};
};

TEST_F(CopyHelperTest, AJobComesBackToTheWorkerThatSubmittedIt) {
  uint64_t word = 7;
  uint64_t copy = 0;
  auto job = Job(CopyJob::Kind::kRead, &word, sizeof(word));
  job->pieces[0].bytes = reinterpret_cast<uint8_t*>(&copy);
  helper_.Submit(1, job.release());
  EXPECT_EQ(helper_.in_flight(1), 1u);
  EXPECT_EQ(helper_.in_flight(0), 0u);
  EXPECT_TRUE(Await(1)->succeeded);
  EXPECT_EQ(helper_.PollDone(0), nullptr);
  EXPECT_EQ(copy, 7u);
}

// Closing a program's file can block: the thread that ends the helper does not close it.
TEST_F(CopyHelperTest, TheMemoryIsClosedByTheThreadThatTouchesIt) {
  uint64_t word = 7;
  for (int round = 0; round < 1000; ++round) {
    const int fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
    closed_by = 0;
    watched_fd = fd;
    {
      CopyHelper helper({.fd = fd, .user = Credentials::Own()}, wake_fds_);
      auto job = Job(CopyJob::Kind::kFetchAdd, &word, sizeof(word));
      helper.Submit(0, job.release());
      CopyJob* done = nullptr;
      while ((done = helper.PollDone(0)) == nullptr) std::this_thread::yield();
      delete done;
    }
    while (closed_by == 0) std::this_thread::yield();
    ASSERT_NE(closed_by, gettid()) << "round " << round;
  }
}

TEST_F(CopyHelperTest, WorkersLeaveMemoryToTheHelperUnlessTheyMayAccessIt) {
  uint64_t word = 7;
  uint64_t copy = 0;
  auto job = Job(CopyJob::Kind::kRead, &word, sizeof(word));
  job->pieces[0].bytes = reinterpret_cast<uint8_t*>(&copy);
  EXPECT_FALSE(helper_.DoNow(0, *job));
  EXPECT_EQ(copy, 0u);
}

/// A helper of memory that workers may access.
class WorkerAccessTest : public CopyHelperTest {
 protected:
  static ProgramMemory Memory(int fd) {
    return {.fd = fd,
            .user = Credentials::Own(),
            .by_workers = true,
            .long_access = std::chrono::nanoseconds::max()};
  }
  static int OwnMemory() { return open("/proc/self/mem", O_RDWR | O_CLOEXEC); }

  CopyHelper shared_{Memory(OwnMemory()), wake_fds_};
  CopyHelper alone_{Memory(OwnMemory()), std::span(wake_fds_).first(1)};
};

TEST_F(WorkerAccessTest, AJobIsDoneWhenTheCallReturns) {
  uint64_t word = 7;
  uint64_t copy = 0;
  auto job = Job(CopyJob::Kind::kRead, &word, sizeof(word));
  job->pieces[0].bytes = reinterpret_cast<uint8_t*>(&copy);
  ASSERT_TRUE(shared_.DoNow(1, *job));
  EXPECT_TRUE(job->succeeded);
  EXPECT_EQ(copy, 7u);
  EXPECT_EQ(shared_.submitted(), 0u);
}

TEST_F(WorkerAccessTest, AnAddressWithoutMemoryIsRefused) {
  uint64_t copy = 0;
  auto job = Job(CopyJob::Kind::kRead, nullptr, sizeof(copy));
  job->pieces[0].bytes = reinterpret_cast<uint8_t*>(&copy);
  ASSERT_TRUE(shared_.DoNow(0, *job));
  EXPECT_FALSE(job->succeeded);
}

// Two system calls are not one atomic: those of all threads have to have an order.
TEST_F(WorkerAccessTest, AtomicsAreLeftToTheHelperWhereOthersMayHaveAtomicsToo) {
  uint64_t word = 7;
  EXPECT_FALSE(shared_.DoNow(0, *Job(CopyJob::Kind::kFetchAdd, &word, sizeof(word))));
  auto job = Job(CopyJob::Kind::kFetchAdd, &word, sizeof(word));
  job->swap_add = 1;
  alone_.Submit(0, job.release());
  EXPECT_FALSE(alone_.DoNow(0, *Job(CopyJob::Kind::kFetchAdd, &word, sizeof(word))));
  CopyJob* done = nullptr;
  while ((done = alone_.PollDone(0)) == nullptr) std::this_thread::yield();
  job.reset(done);
  ASSERT_TRUE(alone_.DoNow(0, *job));
  EXPECT_EQ(word, 9u);
}

TEST_F(WorkerAccessTest, AJobOfAProcessThatHasEndedIsLeftToTheHelper) {
  uint64_t word = 7;
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    char byte = 0;
    close(ends[1]);
    _exit(static_cast<int>(read(ends[0], &byte, 1)));
  }
  const std::string path = "/proc/" + std::to_string(child) + "/mem";
  uint64_t copy = 0;
  CopyHelper helper(Memory(open(path.c_str(), O_RDWR | O_CLOEXEC)), wake_fds_);
  auto job = Job(CopyJob::Kind::kRead, &word, sizeof(word));
  job->pieces[0].bytes = reinterpret_cast<uint8_t*>(&copy);
  EXPECT_TRUE(helper.DoNow(0, *job));
  EXPECT_EQ(copy, 7u);
  close(ends[0]);
  close(ends[1]);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  job = Job(CopyJob::Kind::kRead, &word, sizeof(word));
  job->pieces[0].bytes = reinterpret_cast<uint8_t*>(&copy);
  EXPECT_FALSE(helper.DoNow(0, *job));
}

class AccessRestTest : public testing::Test {
 protected:
  void Access(std::chrono::microseconds took) {
    rest_.Note(now_, now_ + took, std::chrono::milliseconds(1));
    now_ += took;
  }
  void QuickAccesses(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) Access(std::chrono::microseconds(2));
  }

  AccessRest::Time now_{std::chrono::hours(1)};
  AccessRest rest_;
};

TEST_F(AccessRestTest, OneLongAccessAmongManyIsNoReason) {
  for (int i = 0; i < 10; ++i) {
    QuickAccesses(AccessRest::kFew);
    Access(std::chrono::milliseconds(50));
    EXPECT_FALSE(rest_.IsOn(now_));
  }
}

TEST_F(AccessRestTest, TheSecondLongOneOfFewBeginsARestOfTenTimesItsTime) {
  Access(std::chrono::milliseconds(1));
  QuickAccesses(AccessRest::kFew - 1);
  Access(std::chrono::milliseconds(5));
  EXPECT_TRUE(rest_.IsOn(now_));
  EXPECT_TRUE(rest_.IsOn(now_ + std::chrono::milliseconds(49)));
  EXPECT_FALSE(rest_.IsOn(now_ + std::chrono::milliseconds(50)));
  now_ += std::chrono::milliseconds(50);
  Access(std::chrono::milliseconds(2));
  EXPECT_TRUE(rest_.IsOn(now_)) << "pages still come slowly";
}

TEST_F(CopyHelperTest, AtomicsOfAllWorkersExcludeEachOther) {
  constexpr uint64_t kRounds = 500;
  uint64_t word = 0;
  const auto add = [&](uint32_t worker) {
    uint64_t last = 0;
    for (uint64_t i = 0; i < kRounds; ++i) {
      auto job = Job(CopyJob::Kind::kFetchAdd, &word, sizeof(word));
      job->swap_add = 1;
      helper_.Submit(worker, job.release());
      const std::unique_ptr<CopyJob> done = Await(worker);
      ASSERT_TRUE(done->succeeded);
      if (i != 0) {
        ASSERT_GT(done->original, last);
      }
      last = done->original;
    }
  };
  std::thread first(add, 0);
  std::thread second(add, 1);
  first.join();
  second.join();
  uint64_t sum = 0;
  auto job = Job(CopyJob::Kind::kRead, &word, sizeof(word));
  job->pieces[0].bytes = reinterpret_cast<uint8_t*>(&sum);
  helper_.Submit(0, job.release());
  EXPECT_TRUE(Await(0)->succeeded);
  EXPECT_EQ(sum, 2 * kRounds);
  EXPECT_EQ(helper_.submitted(), 2 * kRounds + 1);
  EXPECT_TRUE(helper_.AreDone(helper_.generation()));
}

TEST_F(CopyHelperTest, AWorkerThatSleepsIsWokenAndTheOthersAreNot) {
  ASSERT_TRUE(helper_.AnnounceSleep(1));
  uint64_t word = 0;
  auto job = Job(CopyJob::Kind::kWrite, &word, sizeof(word));
  uint64_t value = 9;
  job->pieces[0].bytes = reinterpret_cast<uint8_t*>(&value);
  helper_.Submit(1, job.release());
  uint64_t signals = 0;
  while (read(wake_fds_[1], &signals, sizeof(signals)) < 0) std::this_thread::yield();
  EXPECT_LT(read(wake_fds_[0], &signals, sizeof(signals)), 0);
  helper_.AnnounceAwake(1);
  Await(1).reset();
}

/// /proc/PID/mem of a process that has ended since.
int MemoryOfAnEndedProcess() {
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  const std::string path = "/proc/" + std::to_string(child) + "/mem";
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return fd;
}

TEST_F(CopyHelperTest, JobsIntoAProcessThatHasEndedNeverComeBackAndEndWithTheHelper) {
  auto place = std::make_shared<int>(1);
  const std::weak_ptr<int> watch = place;
  std::atomic<int> told{0};
  auto helper = std::make_unique<CopyHelper>(ProgramMemory{.fd = MemoryOfAnEndedProcess(),
                                                           .user = Credentials::Own(),
                                                           .place = std::move(place),
                                                           .on_end = [&told] { ++told; }},
                                             wake_fds_);
  ASSERT_TRUE(helper->AnnounceSleep(0));
  uint64_t value = 0;
  for (const auto kind : {CopyJob::Kind::kRead, CopyJob::Kind::kWrite, CopyJob::Kind::kFetchAdd}) {
    auto job = Job(kind, &value, sizeof(value));
    job->pieces[0].bytes = reinterpret_cast<uint8_t*>(&value);
    helper->Submit(0, job.release());
  }
  while (!helper->AreDone(helper->generation())) std::this_thread::yield();
  EXPECT_EQ(helper->PollDone(0), nullptr);
  EXPECT_EQ(helper->in_flight(0), 3u) << "their queue pairs wait";
  helper.reset();
  while (!watch.expired()) std::this_thread::yield();  // Sanitizers see what is not freed.
  EXPECT_EQ(told, 1) << "the thread that made it may end them";
}

TEST_F(CopyHelperTest, MemoryThatIsNotThereFailsTheJob) {
  auto job = Job(CopyJob::Kind::kRead, nullptr, 8);
  uint64_t value = 0;
  job->pieces[0].bytes = reinterpret_cast<uint8_t*>(&value);
  helper_.Submit(0, job.release());
  EXPECT_FALSE(Await(0)->succeeded);
}

/// The first line of `path` that begins with `name`, without it.
std::string LineOf(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(name, 0) == 0) return line.substr(name.size());
  }
  return "none";
}

constexpr Credentials kProgramUser{61'000, 61'001};
// Of one test alone: threads of the others' helpers may still be ending.
constexpr Credentials kAnother{61'002, 61'003};

/// A child of kProgramUser that waits to be killed.
class Sleeper {
 public:
  Sleeper() : pid_(fork()) {
    if (pid_ != 0) return;
    pause();
    _exit(0);
  }
  ~Sleeper() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;
  int Open(const char* name) const {
    return open(("/proc/" + std::to_string(pid_) + "/" + name).c_str(), O_RDWR | O_CLOEXEC);
  }

 private:
  pid_t pid_;
};

// /proc/PID/oom_score_adj asks who writes, and lowers it for CAP_SYS_RESOURCE alone.
TEST_F(CopyHelperTest, NothingIsWrittenByTheDaemonsPrivilege) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, whose privilege it would be";
  const Sleeper sleeper;
  CopyHelper helper({.fd = sleeper.Open("oom_score_adj"), .user = kProgramUser}, wake_fds_);
  char bytes[] = "-500";
  auto job = Job(CopyJob::Kind::kWrite, nullptr, sizeof(bytes) - 1);
  job->pieces[0].bytes = reinterpret_cast<uint8_t*>(bytes);
  helper.Submit(0, job.release());
  CopyJob* done = nullptr;
  while ((done = helper.PollDone(0)) == nullptr) std::this_thread::yield();
  EXPECT_FALSE(std::unique_ptr<CopyJob>(done)->succeeded);
}

/// What hinders a process of user `uid` from taking a thread its CPU time: the first errno, or 0.
int Reschedule(pid_t thread, uid_t uid) {
  const pid_t child = fork();
  if (child == 0) {
    if (syscall(SYS_setresuid, uid, uid, uid) != 0) _exit(0);
    const sched_param none{};
    cpu_set_t first{};
    CPU_SET(0, &first);
    const bool is_done = setpriority(PRIO_PROCESS, static_cast<id_t>(thread), 19) == 0 ||
                         sched_setscheduler(thread, SCHED_IDLE, &none) == 0 ||
                         sched_setaffinity(thread, sizeof(first), &first) == 0;
    _exit(is_done ? 0 : errno);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

/// The threads of this process. While threads of earlier helpers end, the kernel's list may lack
/// one that lasts: so it is read until two readings agree.
std::set<pid_t> Threads() {
  std::set<pid_t> before;
  for (;;) {
    std::set<pid_t> now;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      now.insert(std::stoi(task.path().filename()));
    }
    if (now == before) return now;
    before = std::move(now);
  }
}

TEST_F(CopyHelperTest, ItsThreadActsForTheProgramsUserWhoCannotReachIt) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to act for another user";
  uint64_t status = 0;
  CopyHelper helper({.fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC), .user = kAnother},
                    wake_fds_);
  auto job = Job(CopyJob::Kind::kRead, &status, sizeof(status));
  uint64_t copy = 0;
  job->pieces[0].bytes = reinterpret_cast<uint8_t*>(&copy);
  helper.Submit(0, job.release());
  CopyJob* done = nullptr;
  while ((done = helper.PollDone(0)) == nullptr) std::this_thread::yield();
  EXPECT_TRUE(std::unique_ptr<CopyJob>(done)->succeeded) << "the fd grants it";
  // It begins with the credentials that it keeps: the first job is done after that.
  int found = 0;
  for (const pid_t task : Threads()) {
    const std::string file = "/proc/self/task/" + std::to_string(task) + "/status";
    if (LineOf(file, "Uid:") != "\t0\t0\t0\t61002") continue;
    ++found;
    EXPECT_EQ(LineOf(file, "Gid:"), "\t0\t0\t0\t61003");
    EXPECT_EQ(Reschedule(task, kAnother.uid), EPERM);
    EXPECT_EQ(LineOf(file, "Groups:"), "\t ");
    for (const char* set : {"CapInh:", "CapPrm:", "CapEff:"}) {
      EXPECT_EQ(LineOf(file, set), "\t0000000000000000") << set;
    }
  }
  EXPECT_EQ(found, 1) << "the others stay: no user may signal or schedule it";
  EXPECT_EQ(geteuid(), 0u) << "of the other threads nothing has changed";
}

class AccessSpeedTest : public testing::Test {
 protected:
  static constexpr std::chrono::nanoseconds kFast = AccessSpeed::kSlowestOf64KiB;
  static constexpr std::chrono::nanoseconds kSlow = kFast + std::chrono::nanoseconds(4);

  void Note(std::chrono::nanoseconds of_64_kib, uint32_t copies = AccessSpeed::kWindow) {
    for (uint32_t i = 0; i < copies; ++i) speed_.Note(64 << 10, of_64_kib);
  }

  AccessSpeed speed_;
};

TEST_F(AccessSpeedTest, AWindowOfSlowCopiesIsSlow) {
  Note(kSlow, AccessSpeed::kWindow - 1);
  EXPECT_FALSE(speed_.IsSlow());
  Note(kSlow, 1);
  EXPECT_TRUE(speed_.IsSlow());
}

TEST_F(AccessSpeedTest, OneFastCopyShowsThatTheOthersHadLostTheirCpu) {
  Note(kFast, 1);
  Note(kSlow, AccessSpeed::kWindow - 1);
  EXPECT_FALSE(speed_.IsSlow());
  Note(kSlow);
  EXPECT_TRUE(speed_.IsSlow()) << "the fast one was in the window before";
  Note(kSlow, AccessSpeed::kWindow - 1);
  Note(kFast, 1);
  EXPECT_FALSE(speed_.IsSlow());
}

TEST_F(AccessSpeedTest, TimeIsPerByte) {
  for (uint32_t i = 0; i < AccessSpeed::kWindow; ++i) speed_.Note(16 << 10, kFast / 4);
  EXPECT_FALSE(speed_.IsSlow());
  for (uint32_t i = 0; i < AccessSpeed::kWindow; ++i) speed_.Note(16 << 10, kSlow / 4);
  EXPECT_TRUE(speed_.IsSlow());
}

TEST_F(AccessSpeedTest, ASlowWorkerMeasuresAgainNowAndThen) {
  Note(kSlow);
  for (uint32_t i = 1; i < AccessSpeed::kLaneCopies; ++i) speed_.NoteLane();
  EXPECT_TRUE(speed_.IsSlow());
  speed_.NoteLane();
  EXPECT_FALSE(speed_.IsSlow());
  Note(kSlow, 1);
  EXPECT_TRUE(speed_.IsSlow());
}

class CopyVectorTest : public testing::Test {
 protected:
  /// Adds a piece, with which a message ends.
  void Add(uint64_t app_addr, uint32_t length_bytes) {
    job_.pieces[job_.piece_count++] = {app_addr, frame_.data() + 256 * job_.piece_count,
                                       length_bytes};
    job_.SetEnd(true);
  }
  /// Adds a piece that is page `page` of some memory of the daemon.
  void AddPage(uint64_t app_addr, uint32_t page) {
    job_.pieces[job_.piece_count++] = {app_addr, pages_.data() + 4096 * page, 4096};
    job_.SetEnd(true);
  }
  /// Lengths of the entries from a piece on.
  std::vector<size_t> Lengths(CopyJob::Kind kind, uint32_t first = 0) {
    job_.kind = kind;
    const CopyVector vector = GatherPieces(job_, first);
    std::vector<size_t> lengths;
    for (int i = 0; i < vector.count; ++i) lengths.push_back(vector.entries[i].iov_len);
    return lengths;
  }

  std::vector<uint8_t> frame_ = std::vector<uint8_t>(256 * CopyJob::kMaxPieces);
  std::vector<uint8_t> pages_ = std::vector<uint8_t>(4096 * 3);
  CopyJob job_;
};

using Kind = CopyJob::Kind;
using Sizes = std::vector<size_t>;

TEST_F(CopyVectorTest, TheLastAlignedEightBytesAreWrittenAfterAllOthers) {
  Add(0x1000, 256);
  EXPECT_EQ(Lengths(Kind::kWrite), (Sizes{248, 8}));
  const CopyVector vector = GatherPieces(job_, 0);
  EXPECT_EQ(vector.entries[0].iov_base, frame_.data());
  EXPECT_EQ(vector.entries[1].iov_base, frame_.data() + 248);
}

TEST_F(CopyVectorTest, AWriteThatDoesNotEndItsMessageIsOneEntry) {
  Add(0x1000, 256);
  job_.SetEnd(false);
  EXPECT_EQ(Lengths(Kind::kWrite), (Sizes{256}));
}

TEST_F(CopyVectorTest, OfAnUnalignedEndOnlyWhatItHasOfTheEightBytes) {
  Add(0x1003, 256);
  EXPECT_EQ(Lengths(Kind::kWrite), (Sizes{253, 3}));
}

TEST_F(CopyVectorTest, WhatIsInOneAlignedPieceIsOneEntry) {
  Add(0x1002, 6);
  EXPECT_EQ(Lengths(Kind::kWrite), Sizes{6});
}

TEST_F(CopyVectorTest, OnlyTheLastPieceOfAMessageHasAnEnd) {
  Add(0x1000, 64);
  job_.SetEnd(false);
  Add(0x1040, 64);
  EXPECT_EQ(Lengths(Kind::kWrite), (Sizes{64, 56, 8}));
  EXPECT_EQ(Lengths(Kind::kWrite, 1), (Sizes{56, 8}));
  EXPECT_EQ(Lengths(Kind::kRead), (Sizes{64, 64}));
}

TEST_F(CopyVectorTest, EachMessageOfAJobHasAnEnd) {
  Add(0x1000, 64);
  Add(0x1040, 64);
  EXPECT_EQ(Lengths(Kind::kWrite), (Sizes{56, 8, 56, 8}));
  EXPECT_EQ(job_.ranges(), 1u);
}

TEST_F(CopyVectorTest, PagesThatFollowEachOtherAtBothEndsAreOneEntry) {
  AddPage(0x1000, 0);
  job_.SetEnd(false);
  AddPage(0x2000, 1);
  EXPECT_EQ(Lengths(Kind::kWrite), (Sizes{8184, 8}));
  EXPECT_EQ(GatherPieces(job_, 0).entries[0].iov_base, pages_.data());
  EXPECT_EQ(Lengths(Kind::kRead), Sizes{8192});
}

TEST_F(CopyVectorTest, PagesFromDifferentPlacesAreSeparateEntries) {
  AddPage(0x1000, 0);
  job_.SetEnd(false);
  AddPage(0x2000, 2);
  EXPECT_EQ(Lengths(Kind::kWrite), (Sizes{4096, 4088, 8}));
}

TEST_F(CopyVectorTest, TheLastWordOfAMessageIsAloneAlsoBehindAPage) {
  AddPage(0x1000, 0);
  job_.SetEnd(false);
  job_.pieces[job_.piece_count++] = {0x2000, pages_.data() + 4096, 8};
  job_.SetEnd(true);
  EXPECT_EQ(Lengths(Kind::kWrite), (Sizes{4096, 8}));
}

// Within an entry the kernel keeps to the order of its steps alone.
TEST_F(CopyVectorTest, PiecesBehindAnEndOrWithinAStepBeginAnEntry) {
  AddPage(0x1000, 0);
  AddPage(0x2000, 1);
  EXPECT_EQ(Lengths(Kind::kWrite), (Sizes{4088, 8, 4088, 8}));
  job_.piece_count = 0;
  for (uint32_t i = 0; i < 3; ++i) {
    job_.pieces[job_.piece_count++] = {0x1000 + 1024 * i, pages_.data() + 1024 * i, 1024};
  }
  EXPECT_EQ(Lengths(Kind::kWrite), (Sizes{1024, 1024, 1024}));
}

TEST_F(CopyVectorTest, TheMostPiecesHaveRoomForTheirEnds) {
  for (uint64_t i = 0; i < CopyJob::kMaxPieces; ++i) Add(0x1000 + 64 * i, 64);
  EXPECT_EQ(Lengths(Kind::kWrite).size(), 2 * CopyJob::kMaxPieces);
}

TEST_F(CopyVectorTest, PiecesThatDoNotFollowAreOfAnotherCall) {
  Add(0x1000, 64);
  Add(0x2000, 64);
  EXPECT_EQ(Lengths(Kind::kWrite), (Sizes{56, 8}));
  EXPECT_EQ(Lengths(Kind::kWrite, 1), (Sizes{56, 8}));
  EXPECT_EQ(job_.ranges(), 2u);
}

}  // namespace
}  // namespace uroce::datapath
