// SPDX-License-Identifier: Apache-2.0
// Mapped memory whose pages come late, as while a process frees a page that many have mapped.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "pipeline/datapath/memory/copy_helper.h"
#include "pipeline/datapath/memory/memory_rest.h"
#include "pipeline/datapath/worker/stall_watch.h"
#include "tests/datapath/testbed.h"
#include "tests/datapath/work_codes.h"

namespace uroce::datapath {
namespace {

/// Pages of this process, each of which comes a while after a thread has touched it.
class LatePages {
 public:
  static constexpr size_t kPageBytes = 4096;
  static constexpr size_t kCount = 16;
  static constexpr size_t kBytes = kCount * kPageBytes;
  static constexpr std::chrono::milliseconds kLate{3};

  LatePages() {
    uffdio_api api{.api = UFFD_API, .features = 0, .ioctls = 0};
    uffdio_register range{
        .range = {Address(), kBytes}, .mode = UFFDIO_REGISTER_MODE_MISSING, .ioctls = 0};
    is_late_ = ioctl(fd_, UFFDIO_API, &api) == 0 && ioctl(fd_, UFFDIO_REGISTER, &range) == 0;
    if (is_late_) thread_ = std::thread([this] { Serve(); });
  }
  ~LatePages() {
    ends_ = true;
    if (thread_.joinable()) thread_.join();
    close(fd_);
    munmap(bytes_, kBytes);
  }
  bool is_late() const { return is_late_; }
  uint8_t* bytes() const { return static_cast<uint8_t*>(bytes_); }
  /// Takes the pages away.
  void Drop() { madvise(bytes_, kBytes, MADV_DONTNEED); }

 private:
  uint64_t Address() const { return reinterpret_cast<uint64_t>(bytes_); }
  void Serve() {
    while (!ends_) {
      pollfd waits{.fd = fd_, .events = POLLIN, .revents = 0};
      uffd_msg fault{};
      if (poll(&waits, 1, 1) != 1 || read(fd_, &fault, sizeof(fault)) != sizeof(fault)) continue;
      std::this_thread::sleep_for(kLate);
      const uint64_t page = fault.arg.pagefault.address / kPageBytes * kPageBytes;
      uffdio_zeropage zeros{.range = {page, kPageBytes}, .mode = 0, .zeropage = 0};
      ioctl(fd_, UFFDIO_ZEROPAGE, &zeros);
    }
  }

  const int fd_ =
      static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY));
  void* const bytes_ =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  bool is_late_ = false;
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

class WorkerRestTest : public testing::Test {
 protected:
  static constexpr size_t kBytes = 4096;

  void SetUp() override {
    if (!pages_.is_late()) GTEST_SKIP() << "no userfaultfd: " << errno;
    bed_.StartCopyHelper();
    late_ = &bed_.Register(pages_.bytes(), LatePages::kBytes, kAllAccess, MrMode::kMapped);
    late_->rest = bed_.session->rest();
    late_->has_helper = true;
  }
  void Post(Endpoint& endpoint, uint8_t opcode, const MemoryRegion& local,
            const MemoryRegion& remote) {
    endpoint.PostSend({.opcode = opcode,
                       .wr_id = 1,
                       .list = {Testbed::Sge(local, 0, opcode == kFetchAdd ? 8 : 64)},
                       .remote_addr = remote.iova,
                       .rkey = remote.key,
                       .compare_add = 5});
  }
  uint32_t Complete(Endpoint& endpoint) {
    uroce_cqe cqe{};
    EXPECT_TRUE(bed_.RunUntil([&] { return endpoint.PollSend(cqe); }));
    return cqe.status;
  }
  /// A turn with a WRITE, after which the next one begins late.
  void LongTurn(Endpoint& endpoint, const MemoryRegion& remote) {
    Post(endpoint, kWrite, own_, remote);
    EXPECT_EQ(Complete(endpoint), 0u);
    bed_.Turn(Nanos(3'000'000));
  }
  /// The worker waits for the page, begins to measure, and waits for the page once more.
  void WaitForThePage(Endpoint& endpoint) {
    LongTurn(endpoint, *late_);
    EXPECT_FALSE(bed_.session->rest()->is_on()) << "the worker measured before";
    pages_.Drop();
    Post(endpoint, kWrite, own_, *late_);
    EXPECT_EQ(Complete(endpoint), 0u);
  }
  /// An access to the memory that rests: the helper makes it.
  void MoveByHelper(Endpoint& endpoint, uint8_t opcode, const MemoryRegion& local,
                    const MemoryRegion& remote) {
    const uint64_t begun = bed_.session->copies_begun();
    Post(endpoint, opcode, local, remote);
    EXPECT_EQ(Complete(endpoint), 0u);
    EXPECT_GT(bed_.session->copies_begun(), begun);
  }

  LatePages pages_;
  Testbed bed_;
  std::vector<uint8_t> own_bytes_ = Pattern(kBytes, 1);
  std::vector<uint8_t> other_bytes_ = std::vector<uint8_t>(kBytes);
  MemoryRegion& own_ = bed_.Register(own_bytes_.data(), kBytes, kAllAccess, MrMode::kMapped);
  MemoryRegion& other_ = bed_.Register(other_bytes_.data(), kBytes, kAllAccess, MrMode::kMapped);
  MemoryRegion* late_ = nullptr;
};

TEST_F(WorkerRestTest, AWorkerThatHasWaitedForMemoryLeavesItToTheHelper) {
  auto [a, b] = bed_.AddPair();
  EXPECT_FALSE(bed_.session->rest()->is_on());
  WaitForThePage(*a);
  EXPECT_TRUE(bed_.session->rest()->is_on());
  EXPECT_EQ(std::memcmp(pages_.bytes(), own_bytes_.data(), 64), 0);
  const uint8_t before = own_bytes_[0]++;
  MoveByHelper(*a, kWrite, own_, *late_);
  EXPECT_EQ(pages_.bytes()[0], uint8_t(before + 1));
  MoveByHelper(*a, kWrite, *late_, other_);
  EXPECT_EQ(other_bytes_[0], uint8_t(before + 1));
  pages_.bytes()[0] = before;
  MoveByHelper(*a, kRead, own_, *late_);
  EXPECT_EQ(own_bytes_[0], before);
}

// Nothing was long before. Only faults of user mode wait for LatePages: those of the helper fail.
TEST_F(WorkerRestTest, ATurnWaitsForFewOfItsAccesses) {
  auto [a, b] = bed_.AddPair();
  constexpr size_t kLatePages = StallWatch::kAccessesPerLook + 1;
  for (size_t i = kLatePages; i < LatePages::kCount; ++i)
    pages_.bytes()[i * LatePages::kPageBytes] = 0;
  a->hold_bell = true;
  for (size_t i = 0; i < LatePages::kCount; ++i) {
    a->PostSend({.opcode = kWrite,
                 .wr_id = i,
                 .list = {Testbed::Sge(own_, 0, 64)},
                 .remote_addr = late_->iova + i * LatePages::kPageBytes,
                 .rkey = late_->key});
  }
  a->RingBell();
  for (size_t i = 0; i < LatePages::kCount; ++i) EXPECT_EQ(Complete(*a), 0u);
  EXPECT_GT(bed_.session->copies_begun(), 0u) << "the others are the helper's";
  for (size_t i = 0; i < LatePages::kCount; ++i) {
    EXPECT_EQ(pages_.bytes()[i * LatePages::kPageBytes], own_bytes_[0]) << i;
  }
}

// A program that has not lent its memory cannot make workers wait instead.
TEST_F(WorkerRestTest, WithoutAHelperRestingMemoryIsDenied) {
  auto [a, b] = bed_.AddPair();
  WaitForThePage(*a);
  late_->has_helper = false;
  Post(*a, kWrite, own_, *late_);
  EXPECT_NE(Complete(*a), 0u);
}

TEST_F(WorkerRestTest, AtomicsOnRestingMemoryAreTheHelpers) {
  auto [a, b] = bed_.AddPair();
  WaitForThePage(*a);
  uint64_t before = 0, after = 0;
  std::memcpy(&before, pages_.bytes(), sizeof(before));
  MoveByHelper(*a, kFetchAdd, own_, *late_);
  std::memcpy(&after, pages_.bytes(), sizeof(after));
  EXPECT_EQ(after, before + 5);
}

TEST_F(WorkerRestTest, TheWorkerAccessesTheMemoryItselfOnceTheRestIsOver) {
  auto [a, b] = bed_.AddPair();
  WaitForThePage(*a);
  bed_.session->rest()->EndIfOver(kNever);
  const uint64_t begun = bed_.session->copies_begun();
  Post(*a, kWrite, own_, *late_);
  EXPECT_EQ(Complete(*a), 0u);
  EXPECT_EQ(bed_.session->copies_begun(), begun);
}

// A worker that loses its CPU for long, or is late for another reason, blames no program, and does
// not begin to measure.
TEST_F(WorkerRestTest, ALongTurnInWhichTheWorkerWaitedForNothingIsNoReason) {
  auto [a, b] = bed_.AddPair();
  LongTurn(*a, *late_);  // The worker waits for the page.
  bed_.Turn(StallWatch::kLong * MemoryRest::kTimesAsLong * 10);
  for (int i = 0; i < 10; ++i) LongTurn(*a, *late_);
  pages_.Drop();
  Post(*a, kWrite, own_, *late_);
  EXPECT_EQ(Complete(*a), 0u);
  EXPECT_FALSE(bed_.session->rest()->is_on());
}

TEST(StallWatchTest, MeasuresAfterALongTurnInWhichTheThreadWaited) {
  TurnTime time;
  StallWatch watch(time);
  const auto wait = [] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); };
  wait();
  watch.AfterSleep();
  watch.OnTurn(StallWatch::kLong, time.now());
  EXPECT_FALSE(watch.measures()) << "a sleep between two turns is no wait in a turn";
  wait();
  watch.OnTurn(StallWatch::kLong - Nanos(1), time.now());
  EXPECT_FALSE(watch.measures()) << "the turn was not long";
  watch.OnTurn(StallWatch::kLong, time.now());
  EXPECT_TRUE(watch.measures());
  const Nanos later = time.now() + StallWatch::kLong * MemoryRest::kTimesAsLong;
  watch.OnTurn(Nanos(1), later);
  EXPECT_FALSE(watch.measures());
  watch.OnTurn(StallWatch::kLong, later);
  EXPECT_FALSE(watch.measures()) << "it had waited in another turn";
}

}  // namespace
}  // namespace uroce::datapath
