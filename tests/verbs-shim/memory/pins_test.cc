// SPDX-License-Identifier: Apache-2.0
// Pinned pages stay at their place, whether the kernel counts them or not.
#include "verbs-shim/memory/pins.h"

#include <fcntl.h>
#include <linux/if_xdp.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/verbs-shim/memory/fake_daemon.h"
#include "verbs-shim/memory/maps.h"
#include "verbs-shim/memory/memory.h"
#include "verbs-shim/memory/write_protection.h"

namespace uroce::memory {
namespace {

constexpr uint64_t kPages = 4;
constexpr uint64_t kBytes = kPages * kPageBytes;

/// Pins pages as an AF_XDP socket does for its packets: VmPin does not count them.
class XdpPin {
 public:
  XdpPin(void* pages, uint64_t bytes) : socket_(socket(AF_XDP, SOCK_RAW, 0)) {
    xdp_umem_reg memory = {};
    memory.addr = reinterpret_cast<uint64_t>(pages);
    memory.len = bytes;
    memory.chunk_size = kPageBytes;
    is_held_ =
        socket_ >= 0 && setsockopt(socket_, SOL_XDP, XDP_UMEM_REG, &memory, sizeof(memory)) == 0;
  }
  ~XdpPin() {
    if (ring_ != MAP_FAILED) munmap(ring_, kPageBytes);
    if (socket_ >= 0) close(socket_);
  }
  XdpPin(const XdpPin&) = delete;
  XdpPin& operator=(const XdpPin&) = delete;

  /// The mapping of a ring holds the pages from here on, and no file does.
  void CloseFile() {
    const int entries = 8;
    ASSERT_EQ(setsockopt(socket_, SOL_XDP, XDP_UMEM_FILL_RING, &entries, sizeof(entries)), 0);
    ring_ = mmap(nullptr, kPageBytes, PROT_READ, MAP_SHARED, socket_, XDP_UMEM_PGOFF_FILL_RING);
    ASSERT_NE(ring_, MAP_FAILED);
    close(socket_);
    socket_ = -1;
  }
  bool is_held() const { return is_held_; }

 private:
  int socket_;
  void* ring_ = MAP_FAILED;
  bool is_held_;
};

bool SeesPins() {
  const char* without = getenv("UROCE_USERFAULTFD");
  if (without != nullptr && strcmp(without, "0") == 0) return false;
  const FaultSupport support = ProbeFaultSupport(-1);
  return support.moves_pages && support.kernel_mode;
}

/// Pages of a mapping that joins no other, such as one with a stack.
uint8_t* MapPages(uint64_t bytes) {
  auto* area = static_cast<uint8_t*>(
      mmap(nullptr, bytes + 2 * kPageBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  uint8_t* const pages = area + kPageBytes;
  EXPECT_EQ(mprotect(pages, bytes, PROT_READ | PROT_WRITE), 0);
  memset(pages, 'a', bytes);
  return pages;
}

void UnmapPages(uint8_t* pages, uint64_t bytes) {
  munmap(pages - kPageBytes, bytes + 2 * kPageBytes);
}

class PinsTest : public testing::Test {
 protected:
  void SetUp() override {
    SetPolicy(MrPolicy::kAutomatic);
    pages_ = MapPages(kBytes);
  }
  void TearDown() override {
    if (is_registered_) Deregister();
    UnmapPages(pages_, kBytes);
  }

  void Register(uint8_t* pages, uint64_t bytes) {
    ASSERT_EQ(daemon_.Register(pages, bytes, mr_), 0);
    is_registered_ = true;
  }
  void Deregister() {
    EXPECT_EQ(daemon_.Deregister(mr_), 0);
    is_registered_ = false;
  }
  /// The kernel unpins the pages of a closed socket a little later.
  void AwaitMapped(uint8_t* pages, uint64_t bytes) {
    for (int look = 0; look < 1000; ++look) {
      Register(pages, bytes);
      if (daemon_.Shape(mr_) == "m" + std::to_string(bytes)) return;
      Deregister();
      usleep(10'000);
    }
    Register(pages, bytes);
    ADD_FAILURE() << daemon_.Shape(mr_);
  }
  void ExpectCopied() {
    EXPECT_EQ(daemon_.Shape(mr_), "c16384");
    EXPECT_EQ(daemon_.region(mr_).segments[0].reason, UROCE_WHY_PINNED);
    EXPECT_EQ(PageKind(pages_), "private");
    EXPECT_EQ(pages_[kBytes - 1], 'a');
  }

  FakeDaemon& daemon_ = FakeDaemon::Make();
  MemoryRegistration mr_ = {};
  bool is_registered_ = false;
  uint8_t* pages_ = nullptr;
};

TEST_F(PinsTest, PagesThatTheKernelDoesNotCountStayToo) {
  const XdpPin pin(pages_ + kPageBytes, kPageBytes);
  if (!pin.is_held()) GTEST_SKIP() << "no AF_XDP here (CAP_NET_RAW)";
  EXPECT_FALSE(HasCountedPins());
  EXPECT_TRUE(HasPinningFile());
  Register(pages_, kBytes);
  ExpectCopied();
}

// No list of files tells of this pin.
TEST_F(PinsTest, TheKernelTellsOfThePagesThemselves) {
  XdpPin pin(pages_ + kPageBytes, kPageBytes);
  if (!pin.is_held()) GTEST_SKIP() << "no AF_XDP here (CAP_NET_RAW)";
  if (!SeesPins()) GTEST_SKIP() << "no userfaultfd that moves pages (Linux 6.8)";
  pin.CloseFile();
  EXPECT_FALSE(HasPinningFile());
  Register(pages_, kBytes);
  ExpectCopied();
}

TEST_F(PinsTest, OtherPagesAreReplacedWhereTheKernelTells) {
  uint8_t* const others = MapPages(kBytes);
  const XdpPin pin(others, kPageBytes);
  if (!pin.is_held()) GTEST_SKIP() << "no AF_XDP here (CAP_NET_RAW)";
  Register(pages_, kBytes);
  EXPECT_EQ(daemon_.Shape(mr_), SeesPins() ? "m16384" : "c16384");
  Deregister();
  UnmapPages(others, kBytes);
}

TEST_F(PinsTest, APinInALaterChunkLeavesAllPagesPrivate) {
  constexpr uint64_t kLong = 12 << 20;
  uint8_t* const pages = MapPages(kLong);
  pages[5] = 'x';
  {
    const XdpPin pin(pages + kLong - kPageBytes, kPageBytes);
    if (!pin.is_held()) GTEST_SKIP() << "no AF_XDP here (CAP_NET_RAW)";
    Register(pages, kLong);
    EXPECT_EQ(daemon_.region(mr_).segments[0].reason, UROCE_WHY_PINNED);
    for (const uint64_t at : {uint64_t{0}, kLong / 2, kLong - kPageBytes}) {
      EXPECT_EQ(PageKind(pages + at), "private") << at;
      EXPECT_EQ(pages[at], 'a') << at;
    }
    EXPECT_EQ(pages[5], 'x');
    EXPECT_EQ(daemon_.segment_count(), 0u);
    Deregister();
  }
  AwaitMapped(pages, kLong);
  EXPECT_EQ(daemon_.Read(mr_, pages + 4, 2), "ax");
  Deregister();
  UnmapPages(pages, kLong);
}

// A program that pins registered memory has pinned the segment's pages.
TEST_F(PinsTest, MemoryThatWasRegisteredBeforeStaysASegments) {
  Register(pages_, kBytes);
  {
    const XdpPin pin(pages_, kPageBytes);
    if (!pin.is_held()) GTEST_SKIP() << "no AF_XDP here (CAP_NET_RAW)";
    Deregister();
    EXPECT_EQ(PageKind(pages_), "segment");
    Register(pages_, kBytes);
    EXPECT_EQ(daemon_.Shape(mr_), "m16384");
    EXPECT_EQ(daemon_.segments_made(), 1u) << "the same pages";
  }
  Deregister();
  EXPECT_EQ(PageKind(pages_), "private");
  EXPECT_EQ(pages_[1], 'a');
}

TEST_F(PinsTest, SegmentsOfMemoryThatIsGoneDoNotPileUp) {
  const XdpPin pin(pages_, kPageBytes);
  if (!pin.is_held()) GTEST_SKIP() << "no AF_XDP here (CAP_NET_RAW)";
  if (!SeesPins()) GTEST_SKIP() << "all memory is copied here";
  for (int round = 0; round < 500; ++round) {
    uint8_t* const pages = MapPages(kPageBytes);
    Register(pages, kPageBytes);
    ASSERT_EQ(daemon_.Shape(mr_), "m4096")
        << daemon_.region(mr_).segments[0].reason << " in round " << round;
    Deregister();
    UnmapPages(pages, kPageBytes);
  }
  EXPECT_EQ(daemon_.segments_made(), 500u);
  EXPECT_LT(daemon_.segment_count(), 200u);
}

// Pages that a fork child shares cannot be moved either, but they are not pinned.
TEST_F(PinsTest, PagesThatAForkChildHasAreReplaced) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    char byte;
    close(ends[1]);
    (void)!read(ends[0], &byte, 1);
    _exit(pages_[0] == 'a' ? 0 : 1);
  }
  Register(pages_, kBytes);
  EXPECT_EQ(daemon_.Shape(mr_), "m16384");
  daemon_.Write(mr_, pages_, "parent");
  close(ends[1]);
  int status;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(memcmp(pages_, "parent", 6), 0);
  close(ends[0]);
}

TEST_F(PinsTest, FilesOfOtherKindsPinNothing) {
  const int files[] = {open("/dev/null", O_RDWR),         open("/dev/zero", O_RDWR),
                       open("/dev/tty", O_RDWR),          eventfd(0, 0),
                       socket(AF_UNIX, SOCK_STREAM, 0),   socket(AF_INET, SOCK_DGRAM, 0),
                       memfd_create("file", MFD_CLOEXEC), posix_openpt(O_RDWR | O_NOCTTY)};
  EXPECT_FALSE(HasPinningFile());
  for (const int file : files) {
    if (file >= 0) close(file);
  }
}

TEST_F(PinsTest, ADeviceThatIsNotKnownMayPin) {
  const std::string path = testing::TempDir() + "/device-" + std::to_string(getpid());
  if (mknod(path.c_str(), S_IFCHR | 0600, makedev(195, 255)) != 0) GTEST_SKIP() << "no CAP_MKNOD";
  const int device = open(path.c_str(), O_PATH);
  unlink(path.c_str());
  ASSERT_GE(device, 0);
  EXPECT_TRUE(HasPinningFile());
  close(device);
  EXPECT_FALSE(HasPinningFile());
}

}  // namespace
}  // namespace uroce::memory
