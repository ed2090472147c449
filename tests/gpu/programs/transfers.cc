// SPDX-License-Identifier: Apache-2.0
// Two programs, of which one transfers to and from device memory of the other, until the test asks
// for an end.
// Usage: transfers ROLE DEVICE DIRECTORY [TIMEOUT], under `uroce run`. Both meet in the directory.
//   target      has 1 MB of device memory. Does what a new file in the directory asks for, and
//               renames the file then: do-fork, do-child-end, do-reset, do-destroy, do-free,
//               do-scribble, do-push (writes to the requester, and prints how that ended),
//               do-exit (at once), do-end (deregisters first), do-NAME for each lie of
//               stage_liar.cc: answers the daemon so from then on.
//   own-target  has it in a context of cuCtxCreate.
//   late-target registers it first while all fds are in use, then while no thread can start, and
//               prints what these two answer.
//   requester   writes a pattern, reads it and compares, until the file "stop" is there. Prints
//               "N rounds" now and then, in the end "done", or "failed: STATUS"; exit status 1:
//               bytes differ. TIMEOUT is that of its ACKs (4.096 us * 2^TIMEOUT).
//   doubter     goes on where bytes differ, and prints "N wrong" before "N rounds".
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "pipeline/shm/abi/uroce_copies.h"
#include "tests/gpu/programs/stage_liar.h"
#include "tests/gpu/verbs/api.h"
#include "tests/gpu/verbs/end.h"

namespace uroce::memory_kinds {
namespace {

constexpr size_t kBytes = 1 << 20;
constexpr uint32_t kMessageBytes = 100'000;
constexpr uint32_t kWindow = 4;
constexpr uint32_t kPushedBytes = 4096;

bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

void Pause() { usleep(1000); }

/// Writes the whole file at once.
void Publish(const std::string& path, const EndInfo& info) {
  const std::string other = path + ".new";
  std::FILE* const file = std::fopen(other.c_str(), "w");
  if (file == nullptr || std::fwrite(&info, sizeof(info), 1, file) != 1) std::exit(2);
  std::fclose(file);
  std::rename(other.c_str(), path.c_str());
}

EndInfo Learn(const std::string& path) {
  EndInfo info;
  while (!Exists(path)) Pause();
  std::FILE* const file = std::fopen(path.c_str(), "r");
  if (file == nullptr || std::fread(&info, sizeof(info), 1, file) != 1) std::exit(2);
  std::fclose(file);
  return info;
}

// ---- The target ----

/// All fds of the process are in use while this lasts.
class FullFds {
 public:
  FullFds() {
    for (int fd = dup(0); fd >= 0; fd = dup(0)) fds_.push_back(fd);
  }
  ~FullFds() {
    for (const int fd : fds_) close(fd);
  }
  FullFds(const FullFds&) = delete;
  FullFds& operator=(const FullFds&) = delete;

 private:
  std::vector<int> fds_;
};

/// While this lasts, the process has room for a stage with lanes, and not for a thread's stack
/// besides.
class FullAddressSpace {
 public:
  FullAddressSpace() {
    constexpr rlim_t kRoom =
        sizeof(uroce_stage) + UROCE_COPY_LANES * sizeof(uroce_copy_lane) + (1 << 20);
    pthread_attr_t stack;
    pthread_attr_init(&stack);
    pthread_attr_setstacksize(&stack, 2 * kRoom);
    pthread_setattr_default_np(&stack);
    getrlimit(RLIMIT_AS, &former_);
    unsigned long pages = 0;
    std::FILE* const file = std::fopen("/proc/self/statm", "r");
    if (file == nullptr || std::fscanf(file, "%lu", &pages) != 1) std::exit(2);
    std::fclose(file);
    const rlimit little = {pages * sysconf(_SC_PAGESIZE) + kRoom, former_.rlim_max};
    setrlimit(RLIMIT_AS, &little);
  }
  ~FullAddressSpace() { setrlimit(RLIMIT_AS, &former_); }
  FullAddressSpace(const FullAddressSpace&) = delete;
  FullAddressSpace& operator=(const FullAddressSpace&) = delete;

 private:
  rlimit former_{};
};

class Target {
 public:
  Target(const char* device, std::string directory, const std::string& role)
      : end_(device), directory_(std::move(directory)) {
    context_ = UsePrimary(0);
    if (role == "own-target") Check(TheApi().cuCtxCreate(&context_, 0, 0), "cuCtxCreate");
    Check(TheApi().cuMemAlloc(&memory_, kBytes), "cuMemAlloc");
    if (role == "late-target") {
      TryWith<FullFds>("no fd");
      TryWith<FullAddressSpace>("no thread");
    }
    mr_ = end_.Register(memory_, kBytes);
    if (mr_ == nullptr) {
      std::perror("ibv_reg_mr");
      std::exit(2);
    }
    EndInfo info = end_.info();
    info.address = memory_;
    info.rkey = mr_->rkey;
    Publish(directory_ + "/target", info);
    requester_ = Learn(directory_ + "/requester");
    end_.Connect(requester_, 14);
    Publish(directory_ + "/ready", info);
  }

  int Run() {
    for (;;) {
      for (const char* const what :
           {"fork", "child-end", "reset", "destroy", "free", "scribble", "push"}) {
        if (Takes(what)) Do(what);
      }
      for (const StageLiar::Lie& lie : StageLiar::Lies()) {
        if (Takes(lie.name)) Tell(lie);
      }
      if (Takes("exit")) return 0;
      if (Takes("end")) return ibv_dereg_mr(mr_) == 0 ? 0 : 1;
      Pause();
    }
  }

 private:
  /// Prints what a registration answers while `Obstacle` lasts.
  template <typename Obstacle>
  void TryWith(const char* what) {
    int error = 0;
    {
      const Obstacle obstacle;
      if (end_.Register(memory_, kBytes) == nullptr) error = errno;
    }
    std::printf("%s: %s\n", what, std::strerror(error));
    std::fflush(stdout);
  }

  bool Takes(const char* what) {
    const std::string asked = directory_ + "/do-" + what;
    if (!Exists(asked)) return false;
    asked_ = asked;
    done_ = directory_ + "/done-" + what;
    return true;
  }

  void Do(const std::string& what) {
    if (what == "fork") {
      child_ = fork();
      if (child_ == 0) RunChild();
    }
    if (what == "child-end") waitpid(child_, nullptr, 0);
    if (what == "reset") Check(TheApi().cuDevicePrimaryCtxReset(0), "cuDevicePrimaryCtxReset");
    if (what == "destroy") Check(TheApi().cuCtxDestroy(context_), "cuCtxDestroy");
    if (what == "free") Check(TheApi().cuMemFree(memory_), "cuMemFree");
    if (what == "scribble") Scribble();
    if (what == "push") Push();
    std::rename(asked_.c_str(), done_.c_str());
  }

  void Tell(const StageLiar::Lie& lie) {
    if (liar_ == nullptr) liar_ = std::make_unique<StageLiar>(memory_, kBytes);
    liar_->Tell(lie);
    std::rename(asked_.c_str(), done_.c_str());
  }

  /// Writes from device memory to what the requester has for that.
  void Push() {
    std::string failed = end_.PostOneSided(IBV_WR_RDMA_WRITE, {memory_, kPushedBytes, mr_->lkey},
                                           requester_.address, requester_.rkey);
    if (failed.empty()) failed = end_.Await();
    std::printf("push: %s\n", failed.empty() ? "done" : failed.c_str());
    std::fflush(stdout);
  }

  /// Ends when it is asked to.
  [[noreturn]] void RunChild() {
    while (!Exists(directory_ + "/do-child-end")) Pause();
    _exit(0);
  }

  End end_;
  std::string directory_;
  CUcontext context_ = nullptr;
  CUdeviceptr memory_ = 0;
  ibv_mr* mr_ = nullptr;
  EndInfo requester_ = {};
  std::unique_ptr<StageLiar> liar_;
  pid_t child_ = 0;
  std::string asked_;
  std::string done_;
};

// ---- The requester ----

/// Posts one request for each part of the window, and waits for all.
std::string MoveAll(End& end, ibv_wr_opcode opcode, const ibv_mr& mr, const EndInfo& peer) {
  std::string failed;
  for (uint32_t i = 0; i < kWindow && failed.empty(); ++i) {
    const uint32_t at = i * kMessageBytes;
    failed =
        end.PostOneSided(opcode, {reinterpret_cast<uint64_t>(mr.addr) + at, kMessageBytes, mr.lkey},
                         peer.address + at, peer.rkey);
  }
  for (uint32_t i = 0; i < kWindow && failed.empty(); ++i) failed = end.Await();
  return failed;
}

int Request(const char* device, const std::string& directory, uint8_t timeout, bool is_doubter) {
  End end(device);
  const EndInfo peer = Learn(directory + "/target");
  static Bytes sent(kWindow * kMessageBytes);
  static Bytes got(kWindow * kMessageBytes);
  ibv_mr* const sent_mr = end.Register(reinterpret_cast<uint64_t>(sent.data()), sent.size());
  ibv_mr* const got_mr = end.Register(reinterpret_cast<uint64_t>(got.data()), got.size());
  static Bytes pushed(kPushedBytes);
  const ibv_mr* const pushed_mr =
      end.Register(reinterpret_cast<uint64_t>(pushed.data()), pushed.size());
  if (sent_mr == nullptr || got_mr == nullptr || pushed_mr == nullptr) return 2;
  EndInfo info = end.info();
  info.address = reinterpret_cast<uint64_t>(pushed.data());
  info.rkey = pushed_mr->rkey;
  Publish(directory + "/requester", info);
  end.Connect(peer, timeout);
  Learn(directory + "/ready");
  uint64_t wrong = 0;
  for (uint64_t round = 1; !Exists(directory + "/stop"); ++round) {
    const Bytes pattern = Pattern(sent.size(), round);
    std::copy(pattern.begin(), pattern.end(), sent.begin());
    std::string failed = MoveAll(end, IBV_WR_RDMA_WRITE, *sent_mr, peer);
    if (failed.empty()) failed = MoveAll(end, IBV_WR_RDMA_READ, *got_mr, peer);
    if (!failed.empty()) {
      std::printf("failed: %s\n", failed.c_str());
      return 0;
    }
    if (got != pattern && !is_doubter) {
      std::printf("wrong bytes in round %" PRIu64 "\n", round);
      return 1;
    }
    if (got != pattern) std::printf("%" PRIu64 " wrong\n", ++wrong);
    std::printf("%" PRIu64 " rounds\n", round);
    std::fflush(stdout);
  }
  std::printf("done\n");
  return 0;
}

int Main(int argc, char** argv) {
  const std::string role = argc >= 4 ? argv[1] : "";
  if (role == "requester" || role == "doubter") {
    const int timeout = argc > 4 ? std::atoi(argv[4]) : 14;
    return Request(argv[2], argv[3], static_cast<uint8_t>(timeout), role == "doubter");
  }
  if (role != "target" && role != "own-target" && role != "late-target") {
    std::fprintf(stderr,
                 "usage: transfers target|own-target|late-target|requester|doubter DEVICE "
                 "DIRECTORY\n");
    return 2;
  }
  const std::string missing = LoadApi();
  if (!missing.empty()) {
    std::printf("no GPU: %s\n", missing.c_str());
    return 3;
  }
  return Target(argv[2], argv[3], role).Run();
}

}  // namespace
}  // namespace uroce::memory_kinds

int main(int argc, char** argv) { return uroce::memory_kinds::Main(argc, argv); }
