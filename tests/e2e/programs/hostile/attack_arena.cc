// SPDX-License-Identifier: Apache-2.0
// Attacks by way of the locks that the kernel holds on files that a program shares with the daemon.
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <thread>

#include "tests/e2e/programs/hostile/attacks.h"
#include "tests/nic/control/memory/lending.h"

namespace uroce::hostile {
namespace {

constexpr int kPatienceMs = 20'000;
constexpr uint64_t kPageBytes = 4096;
constexpr uint32_t kDeepest = 32'768;  // A ring of 2 MB.

/// A page that does not come before Release(): a thread that reads it waits, also in a system call.
/// The kernel gives such a userfaultfd to root. One for user mode alone would fail the call.
class AbsentPage {
 public:
  AbsentPage()
      : fd_(static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK))),
        page_(
            mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    uffdio_api api{};
    api.api = UFFD_API;
    uffdio_register watch{};
    watch.range = {reinterpret_cast<uint64_t>(page_), kPageBytes};
    watch.mode = UFFDIO_REGISTER_MODE_MISSING;
    is_absent_ = fd_ && ioctl(fd_.get(), UFFDIO_API, &api) == 0 &&
                 ioctl(fd_.get(), UFFDIO_REGISTER, &watch) == 0;
  }
  ~AbsentPage() { munmap(page_, kPageBytes); }
  AbsentPage(const AbsentPage&) = delete;
  AbsentPage& operator=(const AbsentPage&) = delete;

  bool is_absent() const { return is_absent_; }
  const void* get() const { return page_; }
  /// Whether a thread waits for it. poll tells that of a userfaultfd with O_NONBLOCK alone; of
  /// others it says POLLERR at once.
  bool IsAwaited() const {
    pollfd waits{.fd = fd_.get(), .events = POLLIN, .revents = 0};
    return poll(&waits, 1, kPatienceMs) == 1 && waits.revents == POLLIN;
  }
  void Release() { fd_ = Fd(); }

 private:
  Fd fd_;
  void* page_;
  bool is_absent_ = false;
};

/// Whether the daemon answers another program.
bool AnswersOthers(const std::string& socket_path) {
  nic::ControlClient other(socket_path);
  other.Post(UROCE_HELLO, {UROCE_ABI_VERSION, 0, 0, 0, 0, 0, 0, 0});
  pollfd answer{.fd = other.socket_fd(), .events = POLLIN, .revents = 0};
  return poll(&answer, 1, kPatienceMs) == 1;
}

/// Makes a queue whose memory the daemon frees in the arena when the queue goes, and lets it go
/// without waiting for the answer.
bool LeaveQueue(Program& program) {
  uroce_create_cq create{};
  create.context = program.contexts[0];
  create.cqe = kDeepest;
  create.channel = UROCE_NONE;
  const nic::Answer made = program.client.Call(UROCE_CREATE_CQ, create);
  if (made.error != 0 || made.hung_up) return false;
  const uroce_handle handle{made.handle(), 0};
  const auto* bytes = reinterpret_cast<const uint8_t*>(&handle);
  program.client.Post(UROCE_DESTROY_CQ, {bytes, bytes + sizeof(handle)});
  return true;
}

}  // namespace

// A write to the file holds its lock while it waits for the bytes. A daemon that waited for the
// lock would serve no program.
std::string LockArena(const std::string& socket_path) {
  Random random(1);
  Program program(socket_path, random);
  if (!program.Make()) return "the daemon does not serve\n";
  AbsentPage page;
  if (!page.is_absent()) return "no userfaultfd\n";
  std::thread writer([&] {
    (void)!pwrite(program.hello.fds[0].get(), page.get(), kPageBytes,
                  static_cast<off_t>(UROCE_ARENA_BYTES - kPageBytes));
  });
  std::string failure;
  if (!page.IsAwaited()) failure = "the write does not wait\n";
  if (failure.empty() && !LeaveQueue(program)) failure = "no queue\n";
  if (failure.empty() && !AnswersOthers(socket_path)) failure = "the daemon waits for a program\n";
  page.Release();
  writer.join();
  if (!failure.empty()) return failure;
  return program.client.Receive().error == 0 ? "" : "the queue did not go\n";
}

namespace {

// A file that many processes have mapped many times takes the kernel seconds.
std::string FreePages(int file, void* mapping, uint64_t length) {
  for (const int mode : {FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, FALLOC_FL_ZERO_RANGE,
                         FALLOC_FL_COLLAPSE_RANGE}) {
    if (fallocate(file, mode, 0, static_cast<off_t>(length)) == 0) return "fallocate frees pages\n";
  }
  if (madvise(mapping, length, MADV_REMOVE) == 0) return "madvise frees pages\n";
  if (ftruncate(file, 0) == 0) return "ftruncate frees pages\n";
  return "";
}

}  // namespace

std::string FreePagesOfArena(const std::string& socket_path) {
  Random random(1);
  Program program(socket_path, random);
  if (!program.Make()) return "the daemon does not serve\n";
  return FreePages(program.hello.fds[0].get(), program.arena, UROCE_ARENA_BYTES);
}

// The program is the owner of the file: else the kernel would not tell it which pages are there.
std::string FreePagesOfSegment(const std::string& socket_path) {
  Random random(1);
  Program program(socket_path, random);
  if (!program.Make()) return "the daemon does not serve\n";
  constexpr uint64_t kBytes = 2 * kPageBytes;
  const nic::Answer made =
      program.client.Call(UROCE_CREATE_SEGMENT, uroce_create_segment{0x4000'0000, kBytes});
  if (made.error != 0 || made.fds.size() != 1) return "no segment\n";
  auto* const pages = static_cast<uint8_t*>(
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, made.fds[0].get(), 0));
  if (pages == MAP_FAILED) return "the segment cannot be mapped\n";
  pages[0] = 1;
  unsigned char are_there[2] = {};
  if (mincore(pages, kBytes, are_there) != 0 || (are_there[0] & 1) == 0 ||
      (are_there[1] & 1) != 0) {
    return "mincore does not tell\n";
  }
  int flags = 0;
  if (ioctl(made.fds[0].get(), FS_IOC_SETFLAGS, &flags) == 0) return "the file can be changed\n";
  return FreePages(made.fds[0].get(), pages, kBytes);
}

// Workers would wait while the program frees a page of its file.
std::string LendFreeableFiles(const std::string& socket_path) {
  Random random(1);
  Program program(socket_path, random);
  if (!program.Make()) return "the daemon does not serve\n";
  const Fd file(memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (ftruncate(file.get(), kPageBytes) != 0) return "no file\n";
  const auto lend = [&](bool writable) {
    return nic::Lend(program.lend_socket(), nic::LendFile(0, kPageBytes, writable), file.get())
        .error;
  };
  if (lend(true) != UROCE_LEND_FREEABLE) return "a file is mapped for writing\n";
  if (lend(false) != UROCE_LEND_FREEABLE) return "a file is mapped for reading\n";
  if (fcntl(file.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE) != 0) return "no seal\n";
  return lend(false) == 0 ? "" : "a sealed file is not mapped\n";
}

}  // namespace uroce::hostile
