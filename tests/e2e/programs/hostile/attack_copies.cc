// SPDX-License-Identifier: Apache-2.0
// Attacks by way of the thread that touches programs' own memory for the daemon.
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "pipeline/shm/rings/doorbells.h"
#include "pipeline/shm/rings/shared_word.h"
#include "tests/e2e/programs/hostile/attacks.h"
#include "tests/nic/control/memory/lending.h"

namespace uroce::hostile {
namespace {

constexpr int kPatienceMs = 20'000;
// Where nothing is: what the daemon is to copy there or from there fails.
constexpr uint64_t kCopiedAddr = 0x10000;
constexpr uint32_t kCopiedBytes = 64 << 10;

std::string Failed(const char* what) {
  return std::string(what) + ": " + std::strerror(errno) + "\n";
}

/// Lends what `memory` is and registers some of it as copied. The key is 0 if it was refused.
uroce_reg_mr_reply RegisterCopied(Program& program, const Fd& memory) {
  if (nic::Lend(program.lend_socket(), nic::LendMemory(), memory.get()).error != 0) return {};
  struct {
    uroce_reg_mr request;
    uroce_mr_segment segment;
  } message{{program.pds[0], 7, kCopiedAddr, kCopiedBytes, kCopiedAddr, 1, UROCE_NONE},
            {kCopiedAddr, kCopiedBytes, UROCE_MR_COPIED, UROCE_NONE, 0, UROCE_WHY_STACK, 0}};
  return program.client.Call(UROCE_REG_MR, message).As<uroce_reg_mr_reply>();
}

/// Posts one RDMA WRITE from memory of `lkey`, to nowhere in particular.
void PostWrite(const Program& program, const QueuePair& queue_pair, uint32_t lkey) {
  const uroce_create_qp_reply& layout = queue_pair.layout;
  uint8_t* const slot = program.arena + layout.sq_offset;
  uroce_send_wqe wqe{};
  wqe.opcode = IBV_WR_RDMA_WRITE;
  wqe.flags = UROCE_SEND_SIGNALED;
  wqe.num_sge = 1;
  const uroce_sge sge{kCopiedAddr, kCopiedBytes, lkey};
  std::memcpy(slot, &wqe, sizeof(wqe));
  std::memcpy(slot + sizeof(wqe), &sge, sizeof(sge));
  auto& page = *reinterpret_cast<uroce_qp_page*>(program.arena + layout.page_offset);
  rings::StoreRelease(page.sq_produced.value, 1u);
  program.Ring(layout);
}

/// The memory of a child that has ended since.
Fd MemoryOfAnEndedProcess() {
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) {
    // The test may kill its parent at any time; the child would keep the daemon's sockets.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent) pause();
    _exit(0);
  }
  const std::string path = "/proc/" + std::to_string(child) + "/mem";
  Fd memory(open(path.c_str(), O_RDWR | O_CLOEXEC));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return memory;
}

// Nothing would ever end what waits for it: frames of the worker, and the program's queue pairs.
std::string LendMemoryOfAnEndedProcess(const std::string& socket_path) {
  Random random(1);
  Program program(socket_path, random);
  if (!program.Make()) return "the daemon does not serve\n";
  const Fd memory = MemoryOfAnEndedProcess();
  if (!memory) return Failed("/proc/PID/mem of a child");
  const uint32_t key = RegisterCopied(program, memory).lkey;
  if (key == 0) return {};  // Refused.
  for (const QueuePair& queue_pair : program.queue_pairs) {
    if (queue_pair.type == IBV_QPT_RC) PostWrite(program, queue_pair, key);
  }
  pollfd hung_up{.fd = program.client.socket_fd(), .events = 0, .revents = 0};
  if (poll(&hung_up, 1, kPatienceMs) == 1) return {};
  return "queue pairs wait for a process that has ended\n";
}

/// Enters new namespaces, and shows there a file of this process in /proc under the path of its
/// memory.
Fd DisguiseAsMemory(const char* file) {
  prctl(PR_SET_DUMPABLE, 1);
  if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return {};
  prctl(PR_SET_DUMPABLE, 1);
  if (mount(file, "/proc/self/mem", nullptr, MS_BIND, nullptr) != 0) return {};
  return Fd(open("/proc/self/mem", O_RDWR | O_CLOEXEC));
}

// The daemon's privilege would be used on it.
std::string LendDisguisedFiles(const std::string& socket_path) {
  Random random(1);
  Program program(socket_path, random);
  if (!program.Make()) return "the daemon does not serve\n";
  const std::string self = "/proc/" + std::to_string(getpid()) + "/";
  const Fd file = DisguiseAsMemory((self + "oom_score_adj").c_str());
  if (!file) return Failed("a file of proc mounted over /proc/self/mem");
  char path[64] = {};
  const std::string link = "/proc/self/fd/" + std::to_string(file.get());
  if (readlink(link.c_str(), path, sizeof(path) - 1) < 0 || path != self + "mem") {
    return std::string("the disguise shows: ") + path + "\n";
  }
  return RegisterCopied(program, file).lkey == 0 ? "" : "a file is taken for memory\n";
}

// The thread that opened the file for the program acts for its user; it also finds out whether
// this user could end the daemon, so that workers may wait for the memory.
std::string LendFileBeforeMemory(const std::string& socket_path) {
  Random random(1);
  Program program(socket_path, random);
  if (!program.Make()) return "the daemon does not serve\n";
  const Fd file(memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (ftruncate(file.get(), kCopiedBytes) != 0) return Failed("a file");
  if (fcntl(file.get(), F_ADD_SEALS, F_SEAL_WRITE) != 0) return Failed("a seal");
  errno = nic::Lend(program.lend_socket(), nic::LendFile(0, kCopiedBytes, false), file.get()).error;
  if (errno != 0) return Failed("the daemon takes no file");
  prctl(PR_SET_DUMPABLE, 1);
  const Fd memory(open("/proc/self/mem", O_RDWR | O_CLOEXEC));
  if (RegisterCopied(program, memory).lkey == 0) return "no region\n";
  const nic::Answer dump = program.client.Call(UROCE_DUMP, uroce_dump{UROCE_DUMP_MR, 0});
  if (dump.error != 0 || dump.fds.size() != 1) return "no dump\n";
  std::string text;
  char piece[4096];
  for (ssize_t got = 0; (got = read(dump.fds[0].get(), piece, sizeof(piece))) > 0;) {
    text.append(piece, static_cast<size_t>(got));
  }
  if (text.find(R"("copied_by":"helper")") != std::string::npos) return {};
  return "workers wait for the program: " + text + "\n";
}

}  // namespace

void AddCopies(Program& program, Random& random) {
  const bool has_ended = Below(random, 3) == 0;
  const Fd memory =
      has_ended ? MemoryOfAnEndedProcess() : Fd(open("/proc/self/mem", O_RDWR | O_CLOEXEC));
  const uroce_reg_mr_reply copied = RegisterCopied(program, memory);
  if (copied.lkey != 0) program.regions.push_back(copied);
}

const std::vector<Attack> kAttacks = {{"memory-of-an-ended-process", LendMemoryOfAnEndedProcess},
                                      {"disguised-files", LendDisguisedFiles},
                                      {"locked-arena", LockArena},
                                      {"holes-in-arena", FreePagesOfArena},
                                      {"freed-segment", FreePagesOfSegment},
                                      {"freeable-files", LendFreeableFiles},
                                      {"file-before-memory", LendFileBeforeMemory}};

}  // namespace uroce::hostile
