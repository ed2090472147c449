// SPDX-License-Identifier: Apache-2.0
// usage: flooder SOCKET KIND UID: one program of that user that loads the daemon as much as it can,
// until it is killed. KIND: doorbells, bells, channel, copies, handles, commands, dumps, queues,
// registrations, sessions, deaths, fds (commands with unexpected fds), regions (dumps of very
// many), files (long ones, lent for one page), holes, lent, segments (frees pages of its queues, a
// file that it has registered, registered private memory, which its processes have mapped very
// often); or what asks the daemon for nothing: spin, which uses a processor like the others, and
// frees, which frees pages of a file as lent does. Prints a line when the flood begins.
#include <fcntl.h>
#include <grp.h>
#include <infiniband/verbs.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "pipeline/base/cpu.h"
#include "pipeline/shm/rings/doorbells.h"
#include "tests/bench/programs/memory_floods.h"
#include "tests/bench/programs/queue_floods.h"
#include "tests/e2e/programs/hostile/program.h"
#include "tests/nic/control/memory/lending.h"

namespace uroce::bench {
namespace {

using hostile::Program;

constexpr uint64_t kRegionBytes = 64 << 20;
constexpr off_t kFileBytes = 512 << 20;
constexpr uint64_t kAddr = 0x10000;
constexpr int kDyingQueuePairs = 500;

[[noreturn]] void Wait() {
  for (;;) pause();
}

/// Asks for a dump and reads all of it.
void Dump(Program& program, uint32_t what) {
  const nic::Answer answer = program.client.Call(UROCE_DUMP, uroce_dump{what, 0});
  Require(answer.error == 0 && answer.fds.size() == 1, "DUMP");
  static char piece[64 << 10];
  while (read(answer.fds[0].get(), piece, sizeof(piece)) > 0) continue;
}

// Uses handles that do not exist, beside queue pairs any of which might have used them.
[[noreturn]] void FloodHandles(Program& program) {
  for (;;) {
    Require(program.client.Handle(UROCE_DESTROY_AH, UINT32_MAX).error != 0, "DESTROY_AH");
  }
}

[[noreturn]] void FloodCommands(Program& program) {
  for (;;) {
    Require(program.client.Handle(UROCE_QUERY_PORT, program.contexts[0]).error == 0, "QUERY_PORT");
  }
}

[[noreturn]] void FloodDumps(Program& program) {
  for (;;) {
    Dump(program, UROCE_DUMP_STAT);
  }
}

/// Makes as many regions with as many parts as a program may have.
[[noreturn]] void FloodRegions(Program& program) {
  constexpr uint32_t kRegions = 2000, kParts = 64;
  constexpr uint64_t kPartBytes = 4096;
  struct {
    uroce_reg_mr request;
    uroce_mr_segment parts[kParts];
  } message{};
  message.request = {
      program.pds[0], IBV_ACCESS_LOCAL_WRITE, kAddr, kParts * kPartBytes, kAddr, kParts,
      UROCE_NONE};
  for (uint32_t i = 0; i < kParts; ++i) {
    message.parts[i] = {kAddr + i * kPartBytes, kPartBytes, UROCE_MR_NULL, UROCE_NONE, 0, 0, 0};
  }
  for (uint32_t i = 0; i < kRegions; ++i) {
    Require(program.client.Call(UROCE_REG_MR, message).error == 0, "REG_MR");
  }
  SayReady();
  for (;;) Dump(program, UROCE_DUMP_MR);
}

/// The daemon is the last holder of each file, also of one that it does not map.
[[noreturn]] void FloodFiles(Program& program) {
  SayReady();
  for (;;) {
    Fd file(memfd_create("flood", MFD_CLOEXEC));
    Require(fallocate(file.get(), 0, 0, kFileBytes) == 0, "fallocate");
    const uroce_lend_reply lent =
        nic::Lend(program.lend_socket(), nic::LendFile(0, 4096), file.get());
    const bool is_copied = lent.error == UROCE_LEND_FREEABLE || lent.error == EBUSY;
    Require(lent.error == 0 || is_copied, "LEND_FILE");
    file.Reset();
    if (is_copied) continue;
    Require(program.client.Handle(UROCE_DESTROY_SEGMENT, lent.segment).error == 0,
            "DESTROY_SEGMENT");
  }
}

/// Sends fds whose close takes long, where none are expected.
[[noreturn]] void FloodFds(const std::string& socket_path) {
  SayReady();
  for (;;) {
    Fd file(memfd_create("flood", MFD_CLOEXEC));
    Require(fallocate(file.get(), 0, 0, kFileBytes) == 0, "fallocate");
    const nic::ControlClient client(socket_path);
    nic::SendLend(client.socket_fd(), nic::LendMemory(), file.get(), sizeof(uroce_lend));
  }
}

void MakeQueues(Program& program) {
  nic::ControlClient& client = program.client;
  const uint32_t cq =
      client.Call(UROCE_CREATE_CQ, uroce_create_cq{program.contexts[0], 16, 1, UROCE_NONE, 0})
          .handle();
  const uroce_create_qp request{program.pds[0], IBV_QPT_RC, cq, cq, 9, 0, {16, 16, 1, 1, 0}};
  const nic::Answer qp = client.Call(UROCE_CREATE_QP, request);
  Require(qp.error == 0, "CREATE_QP");
  Require(client.Call(UROCE_RESIZE_CQ, uroce_resize_cq{cq, 32}).error == 0, "RESIZE_CQ");
  Require(client.Handle(UROCE_DESTROY_QP, qp.handle()).error == 0, "DESTROY_QP");
  Require(client.Handle(UROCE_DESTROY_CQ, cq).error == 0, "DESTROY_CQ");
}

void Register(Program& program) {
  const uint32_t segment =
      program.client.Call(UROCE_CREATE_SEGMENT, uroce_create_segment{kAddr, kRegionBytes}).handle();
  struct {
    uroce_reg_mr request;
    uroce_mr_segment segment;
  } message{};
  message.request = {program.pds[0], IBV_ACCESS_LOCAL_WRITE, kAddr, kRegionBytes, kAddr, 1,
                     UROCE_NONE};
  message.segment = {kAddr, kRegionBytes, UROCE_MR_MAPPED, segment, 0, 0, 0};
  const nic::Answer made = program.client.Call(UROCE_REG_MR, message);
  Require(made.error == 0, "REG_MR");
  Require(program.client.Handle(UROCE_DEREG_MR, made.handle()).error == 0, "DEREG_MR");
  Require(program.client.Handle(UROCE_DESTROY_SEGMENT, segment).error == 0, "DESTROY_SEGMENT");
}

[[noreturn]] void FloodSessions(const std::string& socket_path) {
  for (;;) {
    nic::ControlClient client(socket_path);
    Require(client.Hello().error == 0, "HELLO");
  }
}

[[noreturn]] void FloodDeaths(const std::string& socket_path) {
  for (;;) {
    const pid_t child = fork();
    if (child != 0) {
      waitpid(child, nullptr, 0);
      continue;
    }
    hostile::Random random(1);
    Program program(socket_path, random);
    Require(program.Make(), "a program");
    for (int i = 0; i < kDyingQueuePairs; ++i) {
      const uroce_create_qp request{
          program.pds[0], IBV_QPT_RC, program.cqs[0], program.cqs[0], 9, 0, {16, 16, 1, 1, 0}};
      Require(program.client.Call(UROCE_CREATE_QP, request).error == 0, "CREATE_QP");
    }
    _exit(0);
  }
}

int Flood(const std::string& socket_path, const std::string& kind) {
  if (kind == "fds") FloodFds(socket_path);
  if (kind == "spin" || kind == "sessions" || kind == "deaths") SayReady();
  if (kind == "spin") {
    for (;;) cpu::Pause();
  }
  if (kind == "frees") FreeOwnFile();
  if (kind == "sessions") FloodSessions(socket_path);
  if (kind == "deaths") FloodDeaths(socket_path);
  hostile::Random random(1);
  Program program(socket_path, random);
  Require(program.Make(), "a program");
  if (kind == "bells") MakeManyQueuePairs(program, IBV_QPT_RC);
  if (kind == "handles") MakeManyQueuePairs(program, IBV_QPT_UD);
  if (kind == "channel") FillChannel(program);
  if (kind == "copies") StartStuckCopies(program);
  if (kind == "holes") FloodHoles(program);
  if (kind == "lent") FloodMemoryHoles(program, MemoryKind::kLent);
  if (kind == "segments") FloodMemoryHoles(program, MemoryKind::kSegment);
  SayReady();
  if (kind == "doorbells" || kind == "bells") FloodDoorbells(program);
  if (kind == "handles") FloodHandles(program);
  if (kind == "channel" || kind == "copies") Wait();
  if (kind == "commands") FloodCommands(program);
  if (kind == "regions") FloodRegions(program);
  if (kind == "files") FloodFiles(program);
  if (kind == "dumps") FloodDumps(program);
  if (kind != "queues" && kind != "registrations") return 2;
  for (;;) kind == "queues" ? MakeQueues(program) : Register(program);
}

/// Becomes another user than the daemon's, without any privilege; its memory stays its own.
void BecomeUser(uid_t uid) {
  Require(setgroups(0, nullptr) == 0 && setresgid(uid, uid, uid) == 0 &&
              setresuid(uid, uid, uid) == 0 && prctl(PR_SET_DUMPABLE, 1) == 0,
          "setresuid");
}

}  // namespace
}  // namespace uroce::bench

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fputs("usage: flooder SOCKET KIND UID\n", stderr);
    return 2;
  }
  uroce::bench::BecomeUser(static_cast<uid_t>(std::atoi(argv[3])));
  return uroce::bench::Flood(argv[1], argv[2]);
}
