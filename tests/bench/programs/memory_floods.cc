// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/programs/memory_floods.h"

#include <fcntl.h>
#include <infiniband/verbs.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "pipeline/shm/rings/completion_queue.h"
#include "tests/bench/programs/queue_floods.h"
#include "tests/nic/control/memory/lending.h"

namespace uroce::bench {
namespace {

using hostile::Program;
using hostile::QueuePair;

constexpr int kProcesses = 6;
constexpr off_t kFreedBytes = 1 << 20;
constexpr uint64_t kAddr = 0x4000'0000;

/// Starts a process that maps one page of a file as often as it may.
void StartMapper(int file, off_t offset) {
  constexpr int kMappings = 60'000;  // vm.max_map_count is 65,530.
  int done[2];
  Require(pipe(done) == 0, "pipe");
  if (fork() == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int i = 0; i < kMappings; ++i) mmap(nullptr, 4096, PROT_READ, MAP_SHARED, file, offset);
    Require(write(done[1], "", 1) == 1, "a pipe");
    for (;;) pause();
  }
  char byte = 0;
  Require(read(done[0], &byte, 1) == 1, "a pipe");
}

/// Starts processes that map the page at `offset` of the file, and one that frees it in a loop.
void StartFreeing(int file, off_t offset) {
  for (int i = 0; i < kProcesses; ++i) StartMapper(file, offset);
  if (fork() != 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (;;) fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, kFreedBytes);
}

/// A file that is the memory of a region, and how the daemon reaches it.
struct FloodFile {
  Fd file;
  uint32_t mode;
  uint32_t segment;  // or UROCE_NONE
  uint32_t reason;
};

FloodFile MakeFile(Program& program, MemoryKind kind) {
  if (kind == MemoryKind::kSegment) {
    nic::Answer made =
        program.client.Call(UROCE_CREATE_SEGMENT, uroce_create_segment{kAddr, kFreedBytes});
    Require(made.error == 0, "CREATE_SEGMENT");
    return {std::move(made.fds.at(0)), UROCE_MR_MAPPED, made.handle(), UROCE_WHY_NONE};
  }
  Fd file(memfd_create("flood", MFD_CLOEXEC));
  Require(ftruncate(file.get(), kFreedBytes) == 0, "ftruncate");
  const uroce_lend_reply lent =
      nic::Lend(program.lend_socket(), nic::LendFile(0, kFreedBytes), file.get());
  if (lent.error == UROCE_LEND_FREEABLE || lent.error == EBUSY) {
    return {std::move(file), UROCE_MR_COPIED, UROCE_NONE, UROCE_WHY_NOT_SEALED};
  }
  Require(lent.error == 0, "LEND_FILE");
  return {std::move(file), UROCE_MR_SHARED, lent.segment, UROCE_WHY_NONE};
}

uroce_reg_mr_reply Register(Program& program, uint32_t device, const FloodFile& memory) {
  struct {
    uroce_reg_mr request;
    uroce_mr_segment segment;
  } message{};
  message.request = {program.pds[device],
                     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
                     kAddr,
                     kFreedBytes,
                     kAddr,
                     1,
                     UROCE_NONE};
  message.segment = {kAddr, kFreedBytes, memory.mode, memory.segment, 0, memory.reason, 0};
  const nic::Answer made = program.client.Call(UROCE_REG_MR, message);
  Require(made.error == 0, "REG_MR");
  return made.As<uroce_reg_mr_reply>();
}

/// Fills all slots of the send queue with WRITEs from one region to another.
void FillWithWrites(const Program& program, const QueuePair& sender, uint32_t lkey, uint32_t rkey) {
  uroce_send_wqe wqe{};
  wqe.opcode = IBV_WR_RDMA_WRITE;
  wqe.flags = UROCE_SEND_SIGNALED;
  wqe.num_sge = 1;
  wqe.remote_addr = kAddr;
  wqe.rkey = rkey;
  const uroce_sge sge{kAddr, 64, lkey};
  for (uint32_t slot = 0; slot < sender.layout.sq_depth; ++slot) {
    uint8_t* const place =
        &program.At<uint8_t>(sender.layout.sq_offset) + slot * sender.layout.sq_slot_bytes;
    std::memcpy(place, &wqe, sizeof(wqe));
    std::memcpy(place + sizeof(wqe), &sge, sizeof(sge));
  }
}

/// Posts one WRITE at a time.
[[noreturn]] void WriteAgainAndAgain(Program& program, QueuePair& sender) {
  const uroce_cq_ring& ring = sender.layout.send_ring;
  rings::CqeConsumer completions({.page = &program.At<uroce_cq_ring_page>(ring.page_offset),
                                  .entries = &program.At<uroce_cqe>(ring.cqe_offset),
                                  .depth = ring.depth});
  for (;;) {
    program.Post(sender);
    while (completions.Peek() == nullptr) usleep(20);
    Require(completions.Peek()->status == IBV_WC_SUCCESS, "a WRITE");
    completions.Advance();
    completions.Publish();
  }
}

}  // namespace

void FloodHoles(Program& program) {
  StartFreeing(program.hello.fds[0].get(),
               static_cast<off_t>(program.queue_pairs[0].layout.page_offset));
  SayReady();
  FloodDoorbells(program);
}

void FloodMemoryHoles(Program& program, MemoryKind kind) {
  // Without it the daemon denies accesses once workers had to wait.
  const Fd memory(open("/proc/self/mem", O_RDWR | O_CLOEXEC));
  Require(nic::Lend(program.lend_socket(), nic::LendMemory(), memory.get()).error == 0, "lending");
  const FloodFile made = MakeFile(program, kind);
  Require(mmap(reinterpret_cast<void*>(kAddr), kFreedBytes, PROT_READ | PROT_WRITE,
               MAP_SHARED | MAP_FIXED, made.file.get(), 0) != MAP_FAILED,
          "mmap");
  const uroce_reg_mr_reply from = Register(program, 0, made);
  const uroce_reg_mr_reply to = Register(program, 1, made);
  QueuePair& sender = program.queue_pairs[0];
  FillWithWrites(program, sender, from.lkey, to.rkey);
  StartFreeing(made.file.get(), 0);
  SayReady();
  WriteAgainAndAgain(program, sender);
}

void FreeOwnFile() {
  const Fd file(memfd_create("flood", MFD_CLOEXEC));
  Require(ftruncate(file.get(), kFreedBytes) == 0, "ftruncate");
  // As an arena: what is mapped below it lies where the kernel has no page tables, and its walks
  // over mappings there let no other thread run.
  constexpr uint64_t kArenaBytes = uint64_t{4} << 30;
  Require(mmap(nullptr, kArenaBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
               0) != MAP_FAILED,
          "mmap");
  auto* const byte = static_cast<volatile char*>(
      mmap(nullptr, kFreedBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0));
  Require(byte != MAP_FAILED, "mmap");
  StartFreeing(file.get(), 0);
  SayReady();
  for (;; usleep(20)) *byte = 1;
}

}  // namespace uroce::bench
