// SPDX-License-Identifier: Apache-2.0
// Files and memory that a program lends the daemon on its second socket.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "nic/control/memory_socket.h"
#include "pipeline/os/shared_memory.h"
#include "tests/nic/control/memory/lending.h"
#include "tests/nic/control/test_program.h"

namespace uroce::nic {
namespace {

TEST(ControlTest, OnlyTheMemoryOfAProcessIsTakenAsSuch) {
  TestProgram program;
  const int socket = program.hello.fds[2].get();
  const uroce_reg_mr request{program.pd, 7, 0x5000, 64, 0x5000, 1, UROCE_NONE};
  const std::vector<uroce_mr_segment> copied = {
      {0x5000, 64, UROCE_MR_COPIED, UROCE_NONE, 0, UROCE_WHY_STACK, 0}};
  EXPECT_EQ(program.Register(request, copied).error, EINVAL) << "no memory was passed yet";
  const Fd null(open("/dev/null", O_RDWR)), file(memfd_create("mem", 0));
  const Fd maps(open("/proc/self/maps", O_RDONLY)), readable(open("/proc/self/mem", O_RDONLY));
  const Fd path(open("/proc/self/mem", O_PATH));
  for (const Fd* wrong : {&null, &file, &maps, &readable, &path}) {
    EXPECT_EQ(Lend(socket, LendMemory(), wrong->get()).error, EINVAL);
  }
  EXPECT_EQ(Lend(socket, LendMemory(), -1).error, EINVAL);
  const Fd memory(open("/proc/self/mem", O_RDWR));
  uroce_lend unknown = LendMemory();
  unknown.what = 7;
  EXPECT_EQ(Lend(socket, unknown, memory.get()).error, EINVAL);
  EXPECT_EQ(Lend(socket, LendMemory(), memory.get(), sizeof(uroce_lend) - 1).error, EINVAL);
  EXPECT_EQ(Lend(socket, LendMemory(), memory.get()).error, 0);
  const Answer made = program.Register(request, copied);
  EXPECT_EQ(made.error, 0) << made.text;
  EXPECT_EQ(program.client.Handle(UROCE_DEREG_MR, made.As<uroce_reg_mr_reply>().handle).error, 0);
}

// A mount may give any of them the path of any other.
TEST(ControlTest, OfAllFilesOfProcTheMemoryOfAProcessAloneIsTakenForIt) {
  int memories = 0, others = 0;
  for (const char* directory : {"/proc", "/proc/self", "/proc/thread-self", "/proc/sys/vm"}) {
    for (const auto& entry : std::filesystem::directory_iterator(directory)) {
      if (entry.is_symlink() || !entry.is_regular_file()) continue;
      const Fd file(open(entry.path().c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
      if (!file) continue;
      const bool is_memory = entry.path().filename() == "mem";
      EXPECT_EQ(IsMemoryFile(file.get()), is_memory) << entry.path();
      ++(is_memory ? memories : others);
    }
  }
  EXPECT_EQ(memories, 2);
  EXPECT_GT(others, 5);
}

TEST(ControlTest, AnFdThatComesWithNothingElseIsClosed) {
  TestProgram program;
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const Fd reader(ends[0]);
  Fd writer(ends[1]);
  SendLend(program.hello.fds[2].get(), LendMemory(), writer.get(), 0);
  writer.Reset();
  pollfd hung_up{.fd = reader.get(), .events = 0, .revents = 0};
  EXPECT_EQ(poll(&hung_up, 1, 10'000), 1);
}

/// A memfd of four pages.
struct OwnFile {
  OwnFile() : fd(memfd_create("own", MFD_ALLOW_SEALING)) { ftruncate(fd.get(), kBytes); }
  static constexpr uint64_t kBytes = 0x4000;
  Fd fd;
};

TEST(ControlTest, AFileInMemoryIsMappedAsFarAsItReaches) {
  TestProgram program;
  const int socket = program.hello.fds[2].get();
  const OwnFile own;
  const uroce_lend_reply lent = Lend(socket, LendFile(0x1004, 0x1000), own.fd.get());
  ASSERT_EQ(lent.error, 0);
  EXPECT_EQ(lent.offset, 0x1000u);
  EXPECT_EQ(lent.length, 0x2000u);
  const uroce_reg_mr request{program.pd, 7, 0x5004, 0x1000, 0x5004, 1, UROCE_NONE};
  const Answer made =
      program.Register(request, {{0x5004, 0x1000, UROCE_MR_SHARED, lent.segment, 4, 0, 0}});
  EXPECT_EQ(made.error, 0) << made.text;
  EXPECT_EQ(Lend(socket, LendFile(0x3000, 0x1001), own.fd.get()).error, EINVAL) << "past its end";
  EXPECT_EQ(Lend(socket, LendFile(0, 0), own.fd.get()).error, EINVAL);
  EXPECT_EQ(Lend(socket, LendFile(0, ~0ull), own.fd.get()).error, EINVAL);
  EXPECT_EQ(Lend(socket, LendFile(~0ull - 10, 100), own.fd.get()).error, EINVAL);
  EXPECT_EQ(program.client.Handle(UROCE_DESTROY_SEGMENT, lent.segment).error, 0);
}

TEST(ControlTest, OnlyFilesInMemoryAreMapped) {
  TestProgram program;
  const int socket = program.hello.fds[2].get();
  const OwnFile own;
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const Fd reader(ends[0]), writer(ends[1]), device(open("/dev/zero", O_RDWR));
  const Fd event(eventfd(0, 0)), proc(open("/proc/self/maps", O_RDONLY));
  const Fd directory(open("/dev/shm", O_RDONLY)), other(open("/proc/self/exe", O_RDONLY));
  const std::string link = "/proc/self/fd/" + std::to_string(own.fd.get());
  const Fd path(open(link.c_str(), O_PATH));
  for (const Fd* wrong : {&reader, &device, &event, &proc, &directory, &other, &path}) {
    EXPECT_EQ(Lend(socket, LendFile(0, 0x1000, false), wrong->get()).error, EINVAL);
  }
  EXPECT_EQ(program.MakeQp().error, 0) << "the program goes on";
}

TEST(ControlTest, AFileForReadingIsNotWrittenTo) {
  TestProgram program;
  const int socket = program.hello.fds[2].get();
  const OwnFile own;
  const Fd readable(open(("/proc/self/fd/" + std::to_string(own.fd.get())).c_str(), O_RDONLY));
  EXPECT_EQ(Lend(socket, LendFile(0, 0x1000), readable.get()).error, EINVAL);
  const uroce_lend_reply lent = Lend(socket, LendFile(0, 0x1000, false), readable.get());
  ASSERT_EQ(lent.error, 0);
  const std::vector<uroce_mr_segment> shared = {
      {0x5000, 0x1000, UROCE_MR_SHARED, lent.segment, 0, 0, 0}};
  uroce_reg_mr request{program.pd, IBV_ACCESS_LOCAL_WRITE, 0x5000, 0x1000, 0x5000, 1, UROCE_NONE};
  EXPECT_EQ(program.Register(request, shared).error, EINVAL);
  request.access = IBV_ACCESS_REMOTE_READ;
  EXPECT_EQ(program.Register(request, shared).error, 0);
}

/// Registers a whole file that the program lends. Returns how many of its pages exist afterwards.
uint64_t PagesAfterRegistering(TestProgram& program, int file, uint64_t bytes) {
  const uroce_lend_reply lent = Lend(program.hello.fds[2].get(), LendFile(0, bytes), file);
  EXPECT_EQ(lent.error, 0);
  const uroce_reg_mr request{program.pd, 7, 0x10000, bytes, 0x10000, 1, UROCE_NONE};
  const Answer made =
      program.Register(request, {{0x10000, bytes, UROCE_MR_SHARED, lent.segment, 0, 0, 0}});
  EXPECT_EQ(made.error, 0) << made.text;
  struct stat status {};
  EXPECT_EQ(fstat(file, &status), 0);
  return static_cast<uint64_t>(status.st_blocks) * 512 / kPageBytes;
}

/// A file with pages 1, 700 and 701 of `kBytes`.
struct SparseFile {
  static constexpr uint64_t kBytes = 4 << 20;
  SparseFile() : fd(memfd_create("sparse", 0)) {
    ftruncate(fd.get(), kBytes);
    for (const off_t page : {1, 700, 701}) pwrite(fd.get(), "x", 1, page * off_t{kPageBytes});
  }
  Fd fd;
};

TEST(ControlTest, RegisteringAFileMakesNoPagesOfIt) {
  TestProgram program;
  EXPECT_EQ(PagesAfterRegistering(program, SparseFile().fd.get(), SparseFile::kBytes), 3u);
  const Fd small(memfd_create("small", 0));
  ftruncate(small.get(), 0x4000);
  EXPECT_EQ(PagesAfterRegistering(program, small.get(), 0x4000), 0u);
}

// mincore(2) says of such a file that all pages are there.
TEST(ControlTest, RegisteringAFileOfAnotherUserMakesNoPagesOfItEither) {
  constexpr uid_t kOther = 61001;
  TestProgram program;
  const SparseFile sparse;
  if (fchown(sparse.fd.get(), kOther, kOther) != 0) GTEST_SKIP() << "it takes root";
  ASSERT_EQ(fchmod(sparse.fd.get(), 0400), 0);
  EXPECT_EQ(PagesAfterRegistering(program, sparse.fd.get(), SparseFile::kBytes), 3u);
}

// What the file has no more ends the program once it is reached (pipeline/os/shared_memory.h).
TEST(ControlTest, PagesThatTheFileHasNoMoreAreNotTouched) {
  TestProgram program;
  const OwnFile own;
  const uroce_lend_reply lent =
      Lend(program.hello.fds[2].get(), LendFile(0, OwnFile::kBytes), own.fd.get());
  ASSERT_EQ(lent.error, 0);
  ASSERT_EQ(ftruncate(own.fd.get(), 0x1000), 0);
  const uroce_reg_mr request{program.pd, 7, 0x5000, 0x4000, 0x5000, 1, UROCE_NONE};
  EXPECT_EQ(
      program.Register(request, {{0x5000, 0x4000, UROCE_MR_SHARED, lent.segment, 0, 0, 0}}).error,
      0);
  EXPECT_EQ(program.MakeQp().error, 0) << "the program goes on";
}

/// Whether this process, and so the daemon in it, may look behind mappings.
bool MayLookBehind(const uroce_lend& mapping) {
  std::ostringstream link;
  link << "/proc/self/map_files/" << std::hex << mapping.vma_start << '-' << mapping.vma_end;
  return Fd(open(link.str().c_str(), O_RDONLY | O_CLOEXEC)).get() >= 0;
}

// The daemon runs as the same user here: what it lends is its privilege, if it has any.
TEST(ControlTest, TheDaemonLooksBehindSharedMappingsOnly) {
  TestProgram program;
  const int socket = program.hello.fds[2].get();
  const OwnFile own;
  const auto map = [&own](int protection, int flags) {
    void* at = mmap(nullptr, OwnFile::kBytes, protection, flags, own.fd.get(), 0);
    uroce_lend request = LendFile(0, OwnFile::kBytes);
    request.vma_start = reinterpret_cast<uint64_t>(at);
    request.vma_end = request.vma_start + OwnFile::kBytes;
    return request;
  };
  const uroce_lend shared = map(PROT_READ | PROT_WRITE, MAP_SHARED);
  const bool may_look = MayLookBehind(shared);
  EXPECT_EQ(Lend(socket, shared, -1).error == 0, may_look);
  uroce_lend readable = map(PROT_READ, MAP_SHARED);
  EXPECT_NE(Lend(socket, readable, -1).error, 0) << "the mapping is for reading";
  readable.writable = 0;
  EXPECT_EQ(Lend(socket, readable, -1).error == 0, may_look);
  EXPECT_NE(Lend(socket, map(PROT_READ | PROT_WRITE, MAP_PRIVATE), -1).error, 0);
  EXPECT_NE(Lend(socket, LendFile(0, 0x1000), -1).error, 0) << "no such mapping";
  uroce_lend part = shared;
  part.vma_start += 0x1000;
  EXPECT_NE(Lend(socket, part, -1).error, 0) << "no mapping starts there";
  for (const uroce_lend& each : {shared, readable}) {
    munmap(reinterpret_cast<void*>(each.vma_start), OwnFile::kBytes);
  }
}

/// A new file in memory with these seals.
Fd SealedFile(int seals, unsigned flags = 0) {
  Fd file(memfd_create("sealed", MFD_ALLOW_SEALING | MFD_CLOEXEC | flags));
  const bool is_sealed =
      ftruncate(file.get(), 2 << 20) == 0 && fcntl(file.get(), F_ADD_SEALS, seals) == 0;
  if (!is_sealed) file.Reset();
  return file;
}

// Of other users the daemon maps the files alone whose pages no process can free.
TEST(ControlTest, SealsAgainstWritesKeepThePagesOfAFile) {
  EXPECT_FALSE(KeepsItsPages(SealedFile(0).get()));
  EXPECT_FALSE(KeepsItsPages(SealedFile(F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL).get()));
  EXPECT_TRUE(KeepsItsPages(SealedFile(F_SEAL_WRITE).get()));
  EXPECT_TRUE(KeepsItsPages(SealedFile(F_SEAL_FUTURE_WRITE).get()));
  const Fd other(open("/dev/shm", O_RDWR | O_TMPFILE, 0600));
  EXPECT_FALSE(KeepsItsPages(other.get()));
  // Where a file of huge pages shrinks, threads that touch its pages may wait.
  const Fd huge = SealedFile(F_SEAL_WRITE, MFD_HUGETLB);
  const Fd constant = SealedFile(F_SEAL_WRITE | F_SEAL_SHRINK, MFD_HUGETLB);
  if (!huge) GTEST_SKIP() << "no files of huge pages";
  EXPECT_FALSE(KeepsItsPages(huge.get()));
  EXPECT_TRUE(KeepsItsPages(constant.get()));
}

TEST(ControlTest, NoProcessFreesPagesOfAFileThatKeepsThem) {
  const Fd file = SealedFile(0);
  void* const pages = mmap(nullptr, 2 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  ASSERT_NE(pages, MAP_FAILED);
  EXPECT_EQ(madvise(pages, 0x1000, MADV_REMOVE), 0);
  ASSERT_EQ(fcntl(file.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE), 0);
  ASSERT_TRUE(KeepsItsPages(file.get()));
  EXPECT_EQ(madvise(pages, 0x1000, MADV_REMOVE), -1);
  EXPECT_EQ(fallocate(file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 0x1000), -1);
  munmap(pages, 2 << 20);
}

TEST(ControlTest, AnImmutableFileKeepsItsPages) {
  const Fd file = SealedFile(0);
  KeepPages(file.get());
  const bool is_refused =
      fallocate(file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 0x1000) != 0;
  EXPECT_EQ(KeepsItsPages(file.get()), is_refused);
}

TEST(ControlTest, AFileWhosePagesCanBeFreedIsMappedForThoseAloneWhoMayMakeWorkersWait) {
  const Fd file = SealedFile(F_SEAL_SHRINK), sealed = SealedFile(F_SEAL_WRITE);
  const uroce_lend request = LendFile(0, 0x1000, /*writable=*/false);
  LentFile lent;
  EXPECT_EQ(MapLentFile(request, file, FilesToMap::kKeepingPages, lent), UROCE_LEND_FREEABLE);
  EXPECT_EQ(lent.mapping.length(), 0u);
  EXPECT_EQ(MapLentFile(request, file, FilesToMap::kAll, lent), 0);
  EXPECT_EQ(MapLentFile(request, sealed, FilesToMap::kKeepingPages, lent), 0);
  EXPECT_EQ(lent.mapping.length(), 0x1000u);
}

/// The mode of a region, and how many parts it has.
std::pair<std::string, size_t> ModeOf(uint32_t lkey) {
  const Json regions = Dump(UROCE_DUMP_MR)["mrs"];
  for (const Json& region : regions) {
    if (std::stoul(region["key"].get<std::string>(), nullptr, 16) != lkey) continue;
    return {region["mode"], region["segments"].size()};
  }
  return {"none", 0};
}

// Atomics through both must exclude each other.
TEST(ControlTest, WhatALaterRegionMapsAnOlderOneCopiesNoMore) {
  TestProgram program;
  const int socket = program.hello.fds[2].get();
  const Fd memory(open("/proc/self/mem", O_RDWR));
  ASSERT_EQ(Lend(socket, LendMemory(), memory.get()).error, 0);
  const uroce_reg_mr request{program.pd, 7, 0x5f00, 0x1200, 0x5f00, 1, UROCE_NONE};
  const auto older =
      program
          .Register(request,
                    {{0x5f00, 0x1200, UROCE_MR_COPIED, UROCE_NONE, 0, UROCE_WHY_HEAP_PAGE, 0}})
          .As<uroce_reg_mr_reply>();
  using Mode = std::pair<std::string, size_t>;
  EXPECT_EQ(ModeOf(older.lkey), Mode("copied", 1));
  for (int round = 0; round < 3; ++round) {
    const uint32_t segment =
        program.client.Call(UROCE_CREATE_SEGMENT, uroce_create_segment{0x6000, 0x1000}).handle();
    const Answer newer = program.RegisterMapped(0x6000, 0x1000, segment, round == 0 ? 0 : 7);
    ASSERT_EQ(newer.error, 0) << newer.text;
    EXPECT_EQ(ModeOf(older.lkey), Mode("mixed", 3));
    EXPECT_EQ(program.client.Handle(UROCE_DEREG_MR, newer.As<uroce_reg_mr_reply>().handle).error,
              0);
    EXPECT_EQ(ModeOf(older.lkey), Mode("mixed", 3));
    EXPECT_EQ(program.client.Handle(UROCE_DESTROY_SEGMENT, segment).error, 0);
    EXPECT_EQ(ModeOf(older.lkey), Mode("copied", 1)) << "the pages become private again";
  }
  EXPECT_EQ(program.client.Handle(UROCE_DEREG_MR, older.handle).error, 0);
}

TEST(ControlTest, AFollowerWithoutTheRightHoldsNoOtherUp) {
  TestProgram program;
  const int socket = program.hello.fds[2].get();
  const Fd memory(open("/proc/self/mem", O_RDWR));
  ASSERT_EQ(Lend(socket, LendMemory(), memory.get()).error, 0);
  const auto copied = [&](uint32_t access) {
    return program
        .Register({program.pd, access, 0x6000, 0x1000, 0x6000, 1, UROCE_NONE},
                  {{0x6000, 0x1000, UROCE_MR_COPIED, UROCE_NONE, 0, UROCE_WHY_HEAP_PAGE, 0}})
        .As<uroce_reg_mr_reply>();
  };
  // In whichever order the daemon goes through them, one that may not comes before one that may.
  std::vector<uroce_reg_mr_reply> writing, reading;
  for (int i = 0; i < 8; ++i) {
    writing.push_back(copied(IBV_ACCESS_LOCAL_WRITE));
    reading.push_back(copied(IBV_ACCESS_REMOTE_READ));
  }
  const OwnFile own;
  const Fd readable(open(("/proc/self/fd/" + std::to_string(own.fd.get())).c_str(), O_RDONLY));
  const uroce_lend_reply lent = Lend(socket, LendFile(0, 0x1000, false), readable.get());
  ASSERT_EQ(lent.error, 0);
  const Answer newer =
      program.Register({program.pd, IBV_ACCESS_REMOTE_READ, 0x6000, 0x1000, 0x6000, 1, UROCE_NONE},
                       {{0x6000, 0x1000, UROCE_MR_SHARED, lent.segment, 0, 0, 0}});
  ASSERT_EQ(newer.error, 0) << newer.text;
  for (const uroce_reg_mr_reply& each : reading) EXPECT_EQ(ModeOf(each.lkey).first, "shared");
  for (const uroce_reg_mr_reply& each : writing) EXPECT_EQ(ModeOf(each.lkey).first, "copied");
}

}  // namespace
}  // namespace uroce::nic
