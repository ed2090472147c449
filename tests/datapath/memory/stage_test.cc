// SPDX-License-Identifier: Apache-2.0
// The daemon's end of a stage, before a program that the test plays.
#include "pipeline/datapath/memory/stage.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "pipeline/datapath/memory/copy_helper.h"
#include "pipeline/shm/rings/shared_word.h"

namespace uroce::datapath {
namespace {

constexpr uint64_t kDevice = 0x7000'0000'0000;
constexpr size_t kDeviceBytes = 1 << 20;

/// The memory of a device, and the thread of a program that serves a stage of it.
class ServingProgram {
 public:
  explicit ServingProgram(uroce_stage& stage) : stage_(stage), device_(kDeviceBytes) {
    thread_ = std::thread([this] { Run(); });
  }
  ~ServingProgram() { Stop(); }
  /// Uses the stage no more.
  void Stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }

  std::vector<uint8_t>& device() { return device_; }
  /// The pieces of each request, as texts: "write 0x10+8".
  std::vector<std::vector<std::string>> requests;
  /// Returns the error of a request with these pieces.
  std::function<int(const std::vector<uroce_stage_piece>&)> answer = [](const auto&) { return 0; };
  /// Requests are not answered while it is set.
  std::atomic<bool> is_stopped{false};

 private:
  void Run() {
    uint32_t served = 0;
    while (!stop_) {
      const uint32_t requested = rings::LoadAcquire(stage_.requested);
      if (requested == served || is_stopped) {
        std::this_thread::yield();
        continue;
      }
      served = requested;
      stage_.error = Serve();
      rings::StoreRelease(stage_.served, served);
      rings::FullFence();
      if (rings::LoadRelaxed(stage_.daemon_sleeps) == 0) continue;
      syscall(SYS_futex, &stage_.served, FUTEX_WAKE, 1, nullptr, nullptr, 0);
    }
  }

  int Serve() {
    const std::vector<uroce_stage_piece> pieces(stage_.pieces, stage_.pieces + stage_.piece_count);
    const bool writes = stage_.kind == UROCE_STAGE_WRITE;
    std::vector<std::string> texts;
    for (const uroce_stage_piece& piece : pieces) {
      texts.push_back((writes ? "write " : "read ") + std::to_string(piece.addr - kDevice) + "+" +
                      std::to_string(piece.length));
    }
    requests.push_back(texts);
    if (const int error = answer(pieces)) return error;
    for (const uroce_stage_piece& piece : pieces) {
      uint8_t* const there = device_.data() + (piece.addr - kDevice);
      uint8_t* const here = stage_.data + piece.offset;
      std::memcpy(writes ? there : here, writes ? here : there, piece.length);
    }
    return 0;
  }

  uroce_stage& stage_;
  std::vector<uint8_t> device_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

/// A stage. Both sides use one mapping: ThreadSanitizer does not know that two are one memory.
struct StageOfTest {
  StageOfTest() {
    const Fd file = *MakeSharedFile("stage", sizeof(uroce_stage));
    Mapping mapping = *MapShared(file.get(), sizeof(uroce_stage));
    memory = reinterpret_cast<uroce_stage*>(mapping.data());
    stage =
        std::make_unique<Stage>(*GuardedMapping::Make(std::move(mapping), MappingGuard::kNoOwner));
  }
  uroce_stage& shared() const { return *memory; }

  uroce_stage* memory = nullptr;
  std::unique_ptr<Stage> stage;
};

class StageTest : public testing::Test {
 protected:
  StageTest() : program_(stage_.shared()) {
    std::iota(bytes_.begin(), bytes_.end(), 0);
    std::iota(program_.device().begin(), program_.device().end(), 100);
  }
  ~StageTest() override { close(memory_); }

  /// Adds a staged piece of `length` bytes at `offset` of the device.
  void Add(uint64_t offset, uint32_t length) {
    CopyPiece& piece = job_.pieces[job_.piece_count++];
    piece = {kDevice + offset, bytes_.data() + at_, length, /*is_staged=*/true};
    // All pieces are of one message.
    if (job_.piece_count > 1) job_.pieces[job_.piece_count - 2].ends_message = false;
    piece.ends_message = true;
    at_ += length;
    job_.own_pieces = job_.piece_count;
  }
  ssize_t Move(CopyJob::Kind kind, uint32_t first = 0) {
    job_.kind = kind;
    return stage_.stage->Move(job_, first, {stop_, memory_});
  }
  using Texts = std::vector<std::vector<std::string>>;

  StageOfTest stage_;
  ServingProgram program_;
  std::vector<uint8_t> bytes_ = std::vector<uint8_t>(kDeviceBytes);
  CopyJob job_;
  uint32_t at_ = 0;
  std::atomic<bool> stop_{false};
  const int memory_ = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
};

TEST_F(StageTest, PiecesThatFollowEachOtherAreOnePieceForTheProgram) {
  Add(64, 4096);
  Add(64 + 4096, 100);
  Add(9000, 5);
  EXPECT_EQ(Move(CopyJob::Kind::kRead), 4096 + 100 + 5);
  EXPECT_EQ(program_.requests, (Texts{{"read 64+4196", "read 9000+5"}}));
  const std::vector<uint8_t>& device = program_.device();
  EXPECT_TRUE(std::equal(bytes_.begin(), bytes_.begin() + 4196, device.begin() + 64));
  EXPECT_TRUE(std::equal(bytes_.begin() + 4196, bytes_.begin() + 4201, device.begin() + 9000));
}

// Programs poll on the end of a message.
TEST_F(StageTest, TheLastWordOfAMessageIsTheLastPiece) {
  Add(64, 4096);
  Add(64 + 4096, 100);
  EXPECT_EQ(Move(CopyJob::Kind::kWrite), 4196);
  // 64 + 4196 = 4260, in the word that begins at 4256.
  EXPECT_EQ(program_.requests, (Texts{{"write 64+4192", "write 4256+4"}}));
  EXPECT_TRUE(std::equal(bytes_.begin(), bytes_.begin() + 4196, program_.device().begin() + 64));
  program_.requests.clear();
  job_.SetEnd(false);
  EXPECT_EQ(Move(CopyJob::Kind::kWrite), 4196);
  EXPECT_EQ(program_.requests, (Texts{{"write 64+4196"}})) << "within a message";
  program_.requests.clear();
  job_.pieces[0].ends_message = true;
  EXPECT_EQ(Move(CopyJob::Kind::kWrite), 4196);
  // 64 + 4096 = 4160: the first message ends with the word at 4152.
  EXPECT_EQ(program_.requests, (Texts{{"write 64+4088", "write 4152+8", "write 4160+100"}}))
      << "two messages";
}

TEST_F(StageTest, PiecesBehindThoseOfTheJobDoNotFailIt) {
  Add(0, 100);
  Add(100, 50);
  job_.own_pieces = 1;
  program_.answer = [](const auto& pieces) { return pieces[0].length > 100 ? EFAULT : 0; };
  EXPECT_EQ(Move(CopyJob::Kind::kRead), 100);
  EXPECT_EQ(program_.requests, (Texts{{"read 0+150"}, {"read 0+100"}}));
  program_.answer = [](const auto&) { return EFAULT; };
  EXPECT_EQ(Move(CopyJob::Kind::kRead), -1);
  EXPECT_EQ(stage_.stage->counters().refused, 3u);
  EXPECT_EQ(stage_.stage->counters().read_bytes, 100u);
}

TEST_F(StageTest, AWaitForTheProgramEndsWithTheHelper) {
  Add(0, 8);
  program_.is_stopped = true;
  std::thread stopper([this] {
    while (rings::LoadAcquire(stage_.shared().daemon_sleeps) == 0) std::this_thread::yield();
    stop_ = true;
  });
  EXPECT_EQ(Move(CopyJob::Kind::kRead), 0);
  stopper.join();
}

TEST_F(StageTest, AWaitForTheProgramEndsWithItsProcess) {
  Add(0, 8);
  program_.is_stopped = true;
  const pid_t child = fork();
  if (child == 0) {
    for (;;) pause();
  }
  const std::string path = "/proc/" + std::to_string(child) + "/mem";
  const int memory = open(path.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(memory, 0);
  std::thread killer([&] {
    while (rings::LoadAcquire(stage_.shared().daemon_sleeps) == 0) std::this_thread::yield();
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  });
  job_.kind = CopyJob::Kind::kRead;
  EXPECT_EQ(stage_.stage->Move(job_, 0, {stop_, memory}), 0);
  killer.join();
  close(memory);
}

// A program may write anything to its stage at any time.
TEST_F(StageTest, AnAnswerToAnotherRequestIsNone) {
  Add(0, 8);
  program_.is_stopped = true;
  std::thread liar([this] {
    for (uint32_t number : {0u, 2u, 77u, UINT32_MAX}) {
      while (rings::LoadAcquire(stage_.shared().daemon_sleeps) == 0) std::this_thread::yield();
      rings::StoreRelease(stage_.shared().served, number);
    }
    // The daemon has written its request before.
    while (rings::LoadAcquire(stage_.shared().requested) == 0) std::this_thread::yield();
    stage_.shared().piece_count = UINT32_MAX;
    stage_.shared().pieces[0] = {.addr = 0, .offset = UINT32_MAX, .length = UINT32_MAX};
    stop_ = true;
  });
  EXPECT_EQ(Move(CopyJob::Kind::kRead), 0);
  liar.join();
}

/// A program that writes random words to a second mapping of the stage: mostly words that mean
/// something, and answers now and then.
class RandomProgram {
 public:
  RandomProgram(int file, uint32_t seed)
      : mapping_(*MapShared(file, sizeof(uroce_stage))), random_(seed), thread_([this] {
          while (!stop_) Write();
        }) {}
  ~RandomProgram() {
    stop_ = true;
    thread_.join();
  }
  RandomProgram(const RandomProgram&) = delete;
  RandomProgram& operator=(const RandomProgram&) = delete;

 private:
  uint32_t AnyWord(uint32_t near) {
    const auto any = static_cast<uint32_t>(random_());
    const uint32_t words[] = {any, near, near + 1, near - 1, 0, UINT32_MAX, UROCE_STAGE_DATA_BYTES};
    return words[random_() % std::size(words)];
  }
  void Write() {
    auto& stage = *reinterpret_cast<uroce_stage*>(mapping_.data());
    auto* const words = reinterpret_cast<uint32_t*>(&stage);
    const uint32_t requested = rings::LoadAcquire(stage.requested);
    uint32_t& word = words[random_() % (offsetof(uroce_stage, data) / sizeof(uint32_t))];
    if (&word != &stage.requested) rings::StoreRelaxed(word, AnyWord(requested));
    stage.data[random_() % sizeof(stage.data)] = static_cast<uint8_t>(random_());
    if (random_() % 16 == 0) stage.error = random_() % 4 == 0 ? EFAULT : 0;
    if (random_() % 16 == 0) rings::StoreRelease(stage.served, requested);
    syscall(SYS_futex, &stage.served, FUTEX_WAKE, 1, nullptr, nullptr, 0);
  }

  Mapping mapping_;
  std::mt19937 random_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

// Whatever the program writes, a request moves its own bytes and no others, or fails.
TEST(RandomStageTest, ARequestMovesNothingButItsOwnBytes) {
  const Fd file = *MakeSharedFile("stage", sizeof(uroce_stage));
  Stage stage(
      *GuardedMapping::Make(*MapShared(file.get(), sizeof(uroce_stage)), MappingGuard::kNoOwner));
  const Fd memory(open("/proc/self/mem", O_RDWR | O_CLOEXEC));
  const std::atomic<bool> stop{false};
  constexpr uint32_t kSeed = 20361;
  std::mt19937 random(kSeed);
  const RandomProgram program(file.get(), kSeed + 1);
  constexpr uint8_t kCanary = 0xa5;
  uint64_t read_bytes = 0;
  for (int i = 0; i < 500; ++i) {
    std::vector<uint8_t> bytes(CopyJob::kMaxPieces * 4096 + 64, kCanary);
    CopyJob job;
    job.kind = random() % 2 == 0 ? CopyJob::Kind::kRead : CopyJob::Kind::kWrite;
    job.piece_count = static_cast<uint32_t>(1 + random() % CopyJob::kMaxPieces);
    job.own_pieces = static_cast<uint32_t>(1 + random() % job.piece_count);
    uint32_t all = 0;
    for (uint32_t piece = 0; piece < job.piece_count; ++piece) {
      const auto length = static_cast<uint32_t>(1 + random() % 4096);
      job.pieces[piece] = {kDevice + (random() % 2 == 0 ? all : random() % kDeviceBytes),
                           bytes.data() + all, length, /*is_staged=*/true};
      all += length;
    }
    const ssize_t moved = stage.Move(job, 0, {stop, memory.get()});
    ASSERT_NE(moved, 0) << "no one has ended";
    ASSERT_LE(moved, static_cast<ssize_t>(all));
    const bool reads = job.kind == CopyJob::Kind::kRead;
    const size_t changed = reads && moved > 0 ? static_cast<size_t>(moved) : 0;
    read_bytes += changed;
    ASSERT_TRUE(std::all_of(bytes.begin() + static_cast<ptrdiff_t>(changed), bytes.end(),
                            [](uint8_t byte) { return byte == kCanary; }))
        << "round " << i << ", seed " << kSeed;
  }
  EXPECT_GT(read_bytes, 0u);
  EXPECT_EQ(stage.counters().read_bytes, read_bytes);
  EXPECT_GT(stage.counters().refused, 0u);
}

/// A helper whose program has a stage.
class StagedCopiesTest : public testing::Test {
 protected:
  StagedCopiesTest() : program_(stage_.shared()) { helper_.SetStage(std::move(stage_.stage)); }
  ~StagedCopiesTest() override {
    program_.Stop();  // The helper's end unmaps the stage.
    close(wake_fd_[0]);
  }

  CopyJob& Do(std::unique_ptr<CopyJob> job) {
    helper_.Submit(0, job.release());
    do {
      done_.reset(helper_.PollDone(0));
    } while (done_ == nullptr);
    return *done_;
  }

  StageOfTest stage_;
  ServingProgram program_;
  const std::array<int, 1> wake_fd_{eventfd(0, EFD_NONBLOCK)};
  CopyHelper helper_{{.fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC), .user = Credentials::Own()},
                     wake_fd_};
  std::unique_ptr<CopyJob> done_;
};

TEST_F(StagedCopiesTest, AJobReachesMemoryOfTheProgramAndOfItsDeviceInTheOrderOfThePieces) {
  std::string host = "....";
  auto job = std::make_unique<CopyJob>();
  std::string bytes = "abcdefghij";
  auto* const at = reinterpret_cast<uint8_t*>(bytes.data());
  job->kind = CopyJob::Kind::kWrite;
  job->pieces[0] = {kDevice, at, 3, true};
  job->pieces[1] = {reinterpret_cast<uint64_t>(host.data()), at + 3, 4};
  job->pieces[2] = {kDevice + 3, at + 7, 3, true};
  job->piece_count = job->own_pieces = 3;
  EXPECT_TRUE(Do(std::move(job)).succeeded);
  EXPECT_EQ(host, "defg");
  EXPECT_EQ(std::string(program_.device().begin(), program_.device().begin() + 6), "abchij");
  EXPECT_EQ(helper_.stage_counters()->written_bytes, 6u);
}

// ---- Queue pairs that are reset while the helper copies ----

/// A program that does not answer until it is told to.
class AbandonedCopiesTest : public StagedCopiesTest {
 protected:
  AbandonedCopiesTest() { program_.is_stopped = true; }
  ~AbandonedCopiesTest() override {
    program_.is_stopped = false;
    while (helper_.in_flight(0) != 0) AwaitOne();
  }

  /// Submits a job of eight bytes at `addr`.
  CopyJob& Submit(CopyJob::Kind kind, uint64_t addr, bool is_staged) {
    auto* const job = new CopyJob;
    job->kind = kind;
    job->pieces[0] = {addr, reinterpret_cast<uint8_t*>(&value_), sizeof(value_), is_staged};
    job->piece_count = job->own_pieces = 1;
    job->swap_add = value_;
    helper_.Submit(0, job);
    return *job;
  }
  /// Submits one at the start of the device, which the program has been asked for on return.
  CopyJob& Begin(CopyJob::Kind kind) {
    CopyJob& job = Submit(kind, kDevice, /*is_staged=*/true);
    while (rings::LoadAcquire(stage_.shared().requested) == 0) std::this_thread::yield();
    return job;
  }
  std::unique_ptr<CopyJob> AwaitOne() {
    for (;;) {
      if (CopyJob* job = helper_.PollDone(0)) return std::unique_ptr<CopyJob>(job);
      std::this_thread::yield();
    }
  }
  void AwaitNoLateWrites() const {
    while (helper_.HasLateWrites()) std::this_thread::yield();
  }
  uint64_t DeviceWord() {
    uint64_t word = 0;
    std::memcpy(&word, program_.device().data(), sizeof(word));
    return word;
  }

  uint64_t value_ = 0x1122334455667788;
  uint64_t host_ = 5;
};

TEST_F(AbandonedCopiesTest, AWriteThatHasBegunIsLateUntilItsBytesAreThere) {
  CopyJob& job = Begin(CopyJob::Kind::kWrite);
  EXPECT_FALSE(helper_.HasLateWrites());
  helper_.Abandon(job);
  EXPECT_TRUE(helper_.HasLateWrites());
  program_.is_stopped = false;
  AwaitNoLateWrites();
  EXPECT_EQ(DeviceWord(), value_) << "nothing comes later";
  EXPECT_EQ(AwaitOne().get(), &job) << "its frames are freed by the worker";
}

TEST_F(AbandonedCopiesTest, AnAtomicThatHasBegunIsLateUntilItHasWritten) {
  CopyJob& job = Begin(CopyJob::Kind::kFetchAdd);
  helper_.Abandon(job);
  EXPECT_TRUE(helper_.HasLateWrites());
  program_.is_stopped = false;
  AwaitNoLateWrites();
  EXPECT_EQ(DeviceWord(), value_);
}

TEST_F(AbandonedCopiesTest, AReadChangesNothingOfTheProgram) {
  helper_.Abandon(Begin(CopyJob::Kind::kRead));
  EXPECT_FALSE(helper_.HasLateWrites());
}

TEST_F(AbandonedCopiesTest, AJobThatHasNotBegunNeverBegins) {
  const uint64_t before = host_;
  Begin(CopyJob::Kind::kWrite);
  CopyJob& behind =
      Submit(CopyJob::Kind::kWrite, reinterpret_cast<uint64_t>(&host_), /*is_staged=*/false);
  helper_.Abandon(behind);
  EXPECT_FALSE(helper_.HasLateWrites()) << "another copy that hangs delays no one who resets this";
  program_.is_stopped = false;
  EXPECT_TRUE(AwaitOne()->succeeded);
  const std::unique_ptr<CopyJob> second = AwaitOne();
  EXPECT_EQ(second.get(), &behind);
  EXPECT_FALSE(second->succeeded);
  EXPECT_EQ(host_, before);
}

TEST_F(AbandonedCopiesTest, AWriteThatHasEndedIsNotLate) {
  CopyJob& job =
      Submit(CopyJob::Kind::kWrite, reinterpret_cast<uint64_t>(&host_), /*is_staged=*/false);
  const std::unique_ptr<CopyJob> ended = AwaitOne();
  EXPECT_EQ(host_, value_);
  helper_.Abandon(job);
  EXPECT_FALSE(helper_.HasLateWrites());
}

// Abandons each write as soon as it is submitted, so at any moment of its life. Runs under
// ThreadSanitizer, too.
TEST_F(AbandonedCopiesTest, WhenNoWriteIsLateNoneComes) {
  program_.is_stopped = false;
  auto& host = *reinterpret_cast<std::atomic<uint64_t>*>(&host_);
  for (uint64_t round = 0; round < 2000; ++round) {
    CopyJob& job = Submit(CopyJob::Kind::kFetchAdd, reinterpret_cast<uint64_t>(&host_), false);
    for (uint64_t i = round % 64; i != 0; --i) std::atomic_signal_fence(std::memory_order_seq_cst);
    helper_.Abandon(job);
    AwaitNoLateWrites();
    const uint64_t before = host.load();
    AwaitOne();
    ASSERT_EQ(host.load(), before) << round;
  }
}

TEST_F(StagedCopiesTest, AtomicsReadAndWriteAWordOfTheDevice) {
  const auto atomic = [this](CopyJob::Kind kind, uint64_t swap_add, uint64_t compare) {
    auto job = std::make_unique<CopyJob>();
    job->kind = kind;
    job->pieces[0] = {.app_addr = kDevice + 8, .length_bytes = 8, .is_staged = true};
    job->piece_count = job->own_pieces = 1;
    job->swap_add = swap_add;
    job->compare = compare;
    EXPECT_TRUE(Do(std::move(job)).succeeded);
    return done_->original;
  };
  const auto word = [this] {
    uint64_t value;
    std::memcpy(&value, program_.device().data() + 8, sizeof(value));
    return value;
  };
  EXPECT_EQ(atomic(CopyJob::Kind::kFetchAdd, 5, 0), 0u);
  EXPECT_EQ(atomic(CopyJob::Kind::kFetchAdd, 7, 0), 5u);
  EXPECT_EQ(atomic(CopyJob::Kind::kCompareSwap, 99, 1), 12u);
  EXPECT_EQ(word(), 12u) << "not swapped";
  EXPECT_EQ(atomic(CopyJob::Kind::kCompareSwap, 99, 12), 12u);
  EXPECT_EQ(word(), 99u);
}

}  // namespace
}  // namespace uroce::datapath
