// SPDX-License-Identifier: Apache-2.0
// Memory regions and segments by commands, and contexts that programs share.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/os/credentials.h"
#include "pipeline/shm/abi/uroce_copies.h"
#include "pipeline/shm/abi/uroce_stage.h"
#include "tests/nic/control/memory/lending.h"
#include "tests/nic/control/test_program.h"

namespace uroce::nic {
namespace {

// docs/protocol/verbs-semantics.md, section 5.
TEST(ControlTest, RegionsAreCheckedBeforeTheyAreMade) {
  TestProgram program;
  constexpr uint64_t kAddr = 0x10000;
  const Answer made =
      program.client.Call(UROCE_CREATE_SEGMENT, uroce_create_segment{kAddr, 0x4000});
  ASSERT_EQ(made.error, 0) << made.text;
  const uint32_t segment = made.handle();
  EXPECT_EQ(program.RegisterMapped(kAddr, 0x4000, segment, IBV_ACCESS_REMOTE_WRITE).error, EINVAL);
  EXPECT_EQ(program.RegisterMapped(kAddr, 0x4000, segment, IBV_ACCESS_REMOTE_ATOMIC).error, EINVAL);
  EXPECT_EQ(program.RegisterMapped(kAddr, 0x4000, segment, 1u << 15).error, EINVAL);
  EXPECT_EQ(program.RegisterMapped(kAddr, 0x4001, segment).error, EINVAL) << "beyond the segment";
  EXPECT_EQ(program.RegisterMapped(~0ull - 10, 100, segment).error, EINVAL) << "wraps";
  EXPECT_EQ(program.RegisterMapped(kAddr, 0x1000, segment + 1).error, ENOENT) << "no such segment";
  const uroce_reg_mr request{program.pd, 7, kAddr, 0x3000, kAddr, 2, UROCE_NONE};
  const auto piece = [&](uint64_t addr, uint64_t length, uint64_t offset) {
    return uroce_mr_segment{addr, length, UROCE_MR_MAPPED, segment, offset, 0, 0};
  };
  EXPECT_EQ(
      program.Register(request, {piece(kAddr, 0x1000, 0), piece(kAddr + 0x2000, 0x1000, 0)}).error,
      EINVAL)
      << "a gap";
  EXPECT_EQ(
      program.Register(request, {piece(kAddr, 0x1000, 0), piece(kAddr + 0x1000, 0x1000, 0)}).error,
      EINVAL)
      << "too short";
  EXPECT_EQ(
      program.Register(request, {piece(kAddr, 0x1000, 0), piece(kAddr + 0x1000, ~0ull, 0)}).error,
      EINVAL)
      << "too long";
  EXPECT_EQ(
      program.Register(request, {piece(kAddr, 0x1000, 1), piece(kAddr + 0x1000, 0x2000, 0)}).error,
      EINVAL)
      << "bytes of a page in another place of it";
  const Answer good =
      program.Register(request, {piece(kAddr, 0x1000, 0x3000), piece(kAddr + 0x1000, 0x2000, 0)});
  EXPECT_EQ(good.error, 0) << good.text;
  EXPECT_EQ(program.client.Handle(UROCE_DESTROY_SEGMENT, segment).error, 0);
  EXPECT_EQ(program.client.Handle(UROCE_DEREG_MR, good.As<uroce_reg_mr_reply>().handle).error, 0);
}

/// The rights of this process's mapping of a segment of so many bytes, as /proc/self/maps has them.
std::string RightsOfSegment(uint64_t bytes) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    unsigned long start = 0, end = 0;
    char rights[5] = {};
    const bool is_segment = line.find("/memfd:" UROCE_SEGMENT_NAME) != std::string::npos;
    if (std::sscanf(line.c_str(), "%lx-%lx %4s", &start, &end, rights) != 3) continue;
    if (is_segment && end - start == bytes) return rights;
  }
  return "";
}

// The control thread would change the rights of a gigabyte of pages for 25 ms.
TEST(ControlTest, AMappingOfASegmentKeepsItsRights) {
  TestProgram program;
  constexpr uint64_t kAddr = 0x10000, kBytes = 0x23000;
  const uint32_t segment =
      program.client.Call(UROCE_CREATE_SEGMENT, uroce_create_segment{kAddr, kBytes}).handle();
  const std::string rights = RightsOfSegment(kBytes);
  EXPECT_EQ(rights, "rw-s");
  for (const uint32_t access : {0, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE}) {
    EXPECT_EQ(program.RegisterMapped(kAddr, kBytes, segment, access).error, 0);
    EXPECT_EQ(RightsOfSegment(kBytes), rights) << access;
  }
}

TEST(ControlTest, PagesOfASegmentThatAreGivenUpAreWholeAndItsOwn) {
  TestProgram program;
  const uint32_t segment =
      program.client.Call(UROCE_CREATE_SEGMENT, uroce_create_segment{0x10000, 0x4000}).handle();
  const auto trim = [&](uint32_t handle, uint64_t offset, uint64_t length) {
    return program.client.Call(UROCE_TRIM_SEGMENT, uroce_trim_segment{handle, 0, offset, length})
        .error;
  };
  EXPECT_EQ(trim(segment, 0x1000, 0x1000), 0);
  EXPECT_EQ(trim(segment, 0, 0x4000), 0);
  EXPECT_EQ(trim(segment, 0x1000, 0x4000), EINVAL) << "beyond its end";
  EXPECT_EQ(trim(segment, 0x5000, 0), EINVAL);
  EXPECT_EQ(trim(segment, 0x1000, ~0xfffull), EINVAL) << "wraps";
  EXPECT_EQ(trim(segment, 0x10, 0x1000), EINVAL);
  EXPECT_EQ(trim(segment, 0, 0x10), EINVAL);
  EXPECT_EQ(trim(segment + 1, 0, 0x1000), ENOENT) << "no such segment";
  EXPECT_EQ(program.client.Handle(UROCE_DESTROY_SEGMENT, segment).error, 0);
}

TEST(ControlTest, ARegionThatIsReplacedKeepsItsHandleAndKey) {
  TestProgram program;
  const uint32_t segment =
      program.client.Call(UROCE_CREATE_SEGMENT, uroce_create_segment{0x10000, 0x2000}).handle();
  const auto first = program.RegisterMapped(0x10000, 0x1000, segment).As<uroce_reg_mr_reply>();
  const uint32_t other_pd = program.client.Handle(UROCE_ALLOC_PD, program.context).handle();
  const uroce_reg_mr change{other_pd, 4, 0x11000, 0x1000, 0x11000, 1, first.handle};
  const std::vector<uroce_mr_segment> part = {
      {0x11000, 0x1000, UROCE_MR_MAPPED, segment, 0x1000, 0, 0}};
  const Answer changed = program.Register(change, part);
  ASSERT_EQ(changed.error, 0) << changed.text;
  EXPECT_EQ(changed.As<uroce_reg_mr_reply>().handle, first.handle);
  EXPECT_EQ(changed.As<uroce_reg_mr_reply>().rkey, first.rkey);
  EXPECT_EQ(program.client.Handle(UROCE_DEALLOC_PD, program.pd).error, 0) << "it has left this one";
  EXPECT_EQ(program.client.Handle(UROCE_DEALLOC_PD, other_pd).error, EBUSY);
  uroce_reg_mr wrong = change;
  wrong.access = IBV_ACCESS_REMOTE_WRITE;
  EXPECT_EQ(program.Register(wrong, part).error, EINVAL);
  EXPECT_EQ(program.client.Handle(UROCE_DEREG_MR, first.handle).error, 0) << "still there";
  EXPECT_EQ(program.Register(change, part).error, ENOENT) << "nothing to replace";
  EXPECT_EQ(program.client.Handle(UROCE_DEALLOC_PD, other_pd).error, 0);
}

/// The secret of a context, from the file that came with it.
uroce_context_name NameOf(const Answer& opened) {
  uroce_context_name name{};
  EXPECT_EQ(opened.fds.size(), 2u);
  EXPECT_EQ(pread(opened.fds.at(1).get(), &name, sizeof(name), 0),
            static_cast<ssize_t>(sizeof(name)));
  return name;
}

TEST(ControlTest, WhoHasAContextsNameSharesItsDomainsAndRegions) {
  TestProgram maker;
  const Answer opened = maker.client.Call(UROCE_OPEN_CONTEXT, uroce_open_context{0, 0});
  const uint32_t pd = maker.client.Handle(UROCE_ALLOC_PD, opened.handle()).handle();
  const uint32_t segment =
      maker.client.Call(UROCE_CREATE_SEGMENT, uroce_create_segment{0x10000, 0x1000}).handle();
  const auto mr = maker
                      .Register({pd, 7, 0x10000, 0x1000, 0x10000, 1, UROCE_NONE},
                                {{0x10000, 0x1000, UROCE_MR_MAPPED, segment, 0, 0, 0}})
                      .As<uroce_reg_mr_reply>();

  TestProgram other;
  uroce_context_name name = NameOf(opened);
  const Answer context = other.client.Call(UROCE_IMPORT_CONTEXT, name);
  ASSERT_EQ(context.error, 0) << context.text;
  EXPECT_EQ(context.fds.size(), 1u) << "its own events";
  const Answer shared = other.client.Call(UROCE_IMPORT_PD, uroce_import{context.handle(), pd});
  ASSERT_EQ(shared.error, 0) << shared.text;
  const Answer region =
      other.client.Call(UROCE_IMPORT_MR, uroce_import{shared.handle(), mr.handle});
  ASSERT_EQ(region.error, 0) << region.text;
  EXPECT_EQ(region.As<uroce_import_mr_reply>().lkey, mr.lkey);
  EXPECT_EQ(region.As<uroce_import_mr_reply>().length, 0x1000u);

  EXPECT_EQ(other.client.Call(UROCE_IMPORT_PD, uroce_import{context.handle(), maker.pd}).error,
            EINVAL)
      << "of another context";
  EXPECT_EQ(other.client.Call(UROCE_IMPORT_PD, uroce_import{other.context, pd}).error, EINVAL)
      << "of no imported context";
  EXPECT_EQ(other.client.Call(UROCE_IMPORT_MR, uroce_import{other.pd, mr.handle}).error, EINVAL);
  name.secret[1] ^= 1;
  EXPECT_EQ(other.client.Call(UROCE_IMPORT_CONTEXT, name).error, EINVAL);
  EXPECT_EQ(other.client.Handle(UROCE_DEALLOC_PD, shared.handle()).error, 0);
  EXPECT_EQ(other.client.Handle(UROCE_CLOSE_CONTEXT, context.handle()).error, 0);
}

TEST(ControlTest, KeysAreRandomAndAllDifferent) {
  TestProgram program;
  const uint32_t segment =
      program.client.Call(UROCE_CREATE_SEGMENT, uroce_create_segment{0x10000, 0x1000}).handle();
  std::set<uint32_t> keys;
  for (int i = 0; i < 200; ++i) {
    const auto mr = program.RegisterMapped(0x10000, 0x1000, segment).As<uroce_reg_mr_reply>();
    EXPECT_NE(mr.lkey, 0u);
    EXPECT_EQ(mr.lkey, mr.rkey);
    EXPECT_TRUE(keys.insert(mr.lkey >> 8).second);
    if (i % 2 == 0) program.client.Handle(UROCE_DEREG_MR, mr.handle);
  }
}

TEST(ControlTest, SegmentsAreSealedAndOfWholePages) {
  TestProgram program;
  const Answer made =
      program.client.Call(UROCE_CREATE_SEGMENT, uroce_create_segment{0x10000, 0x1000});
  ASSERT_EQ(made.fds.size(), 1u);
  EXPECT_NE(ftruncate(made.fds[0].get(), 0x1000), 0);
  for (const auto& [addr, length] : std::vector<std::pair<uint64_t, uint64_t>>{
           {0x10001, 0x1000}, {0x10000, 0xfff}, {0x10000, 0}, {0, ~0ull & ~0xfffull}}) {
    EXPECT_NE(program.client.Call(UROCE_CREATE_SEGMENT, uroce_create_segment{addr, length}).error,
              0);
  }
}

TEST(ControlTest, ProgramsCannotFreePagesOfASegment) {
  if (!HasCapability(CAP_LINUX_IMMUTABLE)) GTEST_SKIP() << "the daemon lacks CAP_LINUX_IMMUTABLE";
  TestProgram program;
  const Answer made =
      program.client.Call(UROCE_CREATE_SEGMENT, uroce_create_segment{0x10000, 0x1000});
  ASSERT_EQ(made.fds.size(), 1u);
  const int file = made.fds[0].get();
  constexpr int kKeepsSize = FALLOC_FL_KEEP_SIZE;
  for (const int mode : {FALLOC_FL_PUNCH_HOLE | kKeepsSize, FALLOC_FL_ZERO_RANGE | kKeepsSize,
                         FALLOC_FL_COLLAPSE_RANGE}) {
    EXPECT_NE(fallocate(file, mode, 0, 0x1000), 0) << mode;
  }
  void* const page = mmap(nullptr, 0x1000, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ASSERT_NE(page, MAP_FAILED);
  EXPECT_NE(madvise(page, 0x1000, MADV_REMOVE), 0);
  munmap(page, 0x1000);
}

// Pages that no program has touched would be memory of the daemon's.
TEST(ControlTest, RegisteringASegmentMakesNoPagesOfIt) {
  TestProgram program;
  constexpr uint64_t kLength = 64 << 20;
  const Answer segment =
      program.client.Call(UROCE_CREATE_SEGMENT, uroce_create_segment{0x10000, kLength});
  ASSERT_EQ(segment.fds.size(), 1u);
  const int file = segment.fds[0].get();
  ASSERT_EQ(pwrite(file, "x", 1, kLength / 2), 1);
  EXPECT_EQ(program.RegisterMapped(0x10000, kLength, segment.handle()).error, 0);
  struct stat status {};
  ASSERT_EQ(fstat(file, &status), 0);
  EXPECT_EQ(status.st_blocks * 512, kPageBytes) << "of the page that was written";
}

TEST(ControlTest, ALargeRegionIsBroughtInWithoutHoldingOthersUp) {
  TestProgram program;
  constexpr uint64_t kLength = 64 << 20;
  const uint32_t segment =
      program.client.Call(UROCE_CREATE_SEGMENT, uroce_create_segment{0x10000, kLength}).handle();
  const auto mr = program.RegisterMapped(0x10000, kLength, segment).As<uroce_reg_mr_reply>();
  EXPECT_NE(mr.lkey, 0u);
  EXPECT_EQ(program.client.Handle(UROCE_DEREG_MR, mr.handle).error, 0);
}

TEST(ControlTest, ANullRegionIsForLocalAccessAlone) {
  TestProgram program;
  const std::vector<uroce_mr_segment> all = {{0, UINT64_MAX, UROCE_MR_NULL, UROCE_NONE, 0, 0, 0}};
  const auto make = [&](uint32_t access) {
    return program.Register({program.pd, access, 0, UINT64_MAX, 0, 1, UROCE_NONE}, all);
  };
  const uint32_t refused[] = {IBV_ACCESS_REMOTE_READ, IBV_ACCESS_MW_BIND,
                              IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE};
  for (const uint32_t access : refused) {
    EXPECT_EQ(make(access).error, EINVAL) << access;
  }
  const Answer made = make(IBV_ACCESS_LOCAL_WRITE);
  ASSERT_EQ(made.error, 0) << made.text;
  EXPECT_EQ(Dump(UROCE_DUMP_MR)["mrs"][0]["mode"], "null");
  EXPECT_EQ(program.client.Handle(UROCE_DEREG_MR, made.handle()).error, 0);
}

/// A program with copied memory, and a domain in a context whose name others may know.
struct MakerWithCopies : TestProgram {
  MakerWithCopies() {
    const Fd memory(open("/proc/self/mem", O_RDWR | O_CLOEXEC));
    EXPECT_EQ(Lend(hello.fds[2].get(), LendMemory(), memory.get()).error, 0);
    const Answer opened = client.Call(UROCE_OPEN_CONTEXT, uroce_open_context{0, 0});
    name = NameOf(opened);
    domain = client.Handle(UROCE_ALLOC_PD, opened.handle()).handle();
  }
  Answer RegisterCopied(uint32_t in) {
    return Register({in, 7, 0x5000, 64, 0x5000, 1, UROCE_NONE},
                    {{0x5000, 64, UROCE_MR_COPIED, UROCE_NONE, 0, UROCE_WHY_STACK, 0}});
  }
  /// What `program` imports the domain as.
  Answer ImportInto(TestProgram& program) const {
    const uint32_t imported = program.client.Call(UROCE_IMPORT_CONTEXT, name).handle();
    return program.client.Call(UROCE_IMPORT_PD, uroce_import{imported, domain});
  }

  uroce_context_name name{};
  uint32_t domain = 0;
};

TEST(ControlTest, CopiedMemoryIsNotSharedBetweenPrograms) {
  MakerWithCopies maker;
  const uint32_t mr = maker.RegisterCopied(maker.domain).handle();
  TestProgram other;
  EXPECT_EQ(maker.ImportInto(other).error, EOPNOTSUPP);
  ASSERT_EQ(maker.client.Handle(UROCE_DEREG_MR, mr).error, 0);
  const Answer imported = maker.ImportInto(other);
  ASSERT_EQ(imported.error, 0);
  EXPECT_EQ(maker.RegisterCopied(maker.domain).error, EOPNOTSUPP);
  ASSERT_EQ(other.client.Handle(UROCE_DEALLOC_PD, imported.handle()).error, 0);
  EXPECT_EQ(maker.RegisterCopied(maker.domain).error, 0) << "it is the maker's alone again";
}

Answer RegisterStaged(TestProgram& program, uint32_t domain) {
  constexpr uint64_t kDevice = 0x7e00'0000'0000;
  return program.Register({domain, 7, kDevice, 64, kDevice, 1, UROCE_NONE},
                          {{kDevice, 64, UROCE_MR_STAGED, UROCE_NONE, 0, UROCE_WHY_DEVICE, 0}});
}

ino_t InodeOf(const Fd& fd) {
  struct stat file = {};
  EXPECT_EQ(fstat(fd.get(), &file), 0);
  return file.st_ino;
}

TEST(ControlTest, AProgramHasOneStageOfAFixedSize) {
  TestProgram program;
  EXPECT_EQ(program.client.Call(UROCE_CREATE_STAGE).error, EINVAL) << "it has lent no memory";
  EXPECT_EQ(RegisterStaged(program, program.pd).error, EINVAL);
  MakerWithCopies maker;
  EXPECT_EQ(RegisterStaged(maker, maker.domain).error, EINVAL) << "it has no stage";
  const Answer stage = maker.client.Call(UROCE_CREATE_STAGE);
  ASSERT_EQ(stage.error, 0) << stage.text;
  ASSERT_EQ(stage.fds.size(), 1u);
  constexpr auto kBytes = static_cast<off_t>(sizeof(uroce_stage) + sizeof(uroce_copy_lane));
  EXPECT_EQ(lseek(stage.fds[0].get(), 0, SEEK_END), kBytes) << "a lane for the one worker";
  EXPECT_NE(ftruncate(stage.fds[0].get(), 0), 0);
  // A program whose fds were all in use when the reply came asks again.
  const Answer again = maker.client.Call(UROCE_CREATE_STAGE);
  ASSERT_EQ(again.error, 0) << again.text;
  ASSERT_EQ(again.fds.size(), 1u);
  EXPECT_EQ(InodeOf(again.fds[0]), InodeOf(stage.fds[0]));
}

TEST(ControlTest, AProgramHasOneFileOfCopyLanesThatNoProgramCanWriteToOrShorten) {
  EXPECT_EQ(TestProgram().client.Call(UROCE_CREATE_COPIES).error, EINVAL) << "no memory is lent";
  MakerWithCopies maker;
  EXPECT_FALSE(Dump(UROCE_DUMP_CTX)["ctxs"][0].contains("own_read_bytes"));
  const Answer lanes = maker.client.Call(UROCE_CREATE_COPIES);
  ASSERT_EQ(lanes.error, 0) << lanes.text;
  ASSERT_EQ(lanes.fds.size(), 1u);
  const int file = lanes.fds[0].get();
  constexpr auto kBytes = static_cast<off_t>(sizeof(uroce_copies) + sizeof(uroce_copy_lane));
  EXPECT_EQ(lseek(file, 0, SEEK_END), kBytes) << "a lane for the one worker";
  EXPECT_NE(ftruncate(file, 0), 0);
  EXPECT_NE(fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), 0);
  const Answer again = maker.client.Call(UROCE_CREATE_COPIES);
  ASSERT_EQ(again.error, 0) << again.text;
  ASSERT_EQ(again.fds.size(), 1u);
  EXPECT_EQ(InodeOf(again.fds[0]), InodeOf(lanes.fds[0]));
  EXPECT_EQ(Dump(UROCE_DUMP_CTX)["ctxs"][0]["own_read_bytes"], 0);
}

TEST(ControlTest, StagedMemoryIsOfOneProgramAlone) {
  MakerWithCopies maker;
  ASSERT_EQ(maker.client.Call(UROCE_CREATE_STAGE).error, 0);
  const Answer made = RegisterStaged(maker, maker.domain);
  ASSERT_EQ(made.error, 0) << made.text;
  const auto region = Dump(UROCE_DUMP_MR)["mrs"][0];
  EXPECT_EQ(region["mode"], "staged");
  EXPECT_EQ(region["segments"][0]["reason"], "device memory");
  EXPECT_EQ(region["segments"][0]["copied_by"], "program");
  EXPECT_EQ(Dump(UROCE_DUMP_CTX)["ctxs"][0]["staged_read_bytes"], 0);
  TestProgram other;
  EXPECT_EQ(maker.ImportInto(other).error, EOPNOTSUPP);
  EXPECT_EQ(maker.client.Handle(UROCE_DEREG_MR, made.handle()).error, 0);
  EXPECT_EQ(maker.ImportInto(other).error, 0);
  EXPECT_EQ(RegisterStaged(maker, maker.domain).error, EOPNOTSUPP);
}

TEST(ControlTest, AProgramsOwnImportOfItsDomainIsTheSameDomain) {
  MakerWithCopies maker;
  const Answer alias = maker.ImportInto(maker);
  ASSERT_EQ(alias.error, 0) << alias.text;
  const uint32_t mr = maker.RegisterCopied(alias.handle()).handle();
  TestProgram other;
  EXPECT_EQ(maker.ImportInto(other).error, EOPNOTSUPP);
  ASSERT_EQ(maker.client.Handle(UROCE_DEREG_MR, mr).error, 0);
  ASSERT_EQ(maker.ImportInto(other).error, 0);
  EXPECT_EQ(maker.RegisterCopied(alias.handle()).error, EOPNOTSUPP) << "another program has it";
}

TEST(ControlTest, CopiedMemoryCountsFromItsRequestOn) {
  MakerWithCopies maker;
  constexpr uint64_t kLength = 64 << 20;  // Brought in on a thread, which takes its time.
  constexpr uint64_t kAddr = 0x10000;
  const uint32_t segment =
      maker.client.Call(UROCE_CREATE_SEGMENT, uroce_create_segment{kAddr, kLength}).handle();
  struct {
    uroce_reg_mr request;
    uroce_mr_segment parts[2];
  } message{{maker.domain, 7, kAddr, kLength + 64, kAddr, 2, UROCE_NONE},
            {{kAddr, kLength, UROCE_MR_MAPPED, segment, 0, 0, 0},
             {kAddr + kLength, 64, UROCE_MR_COPIED, UROCE_NONE, 0, UROCE_WHY_STACK, 0}}};
  const auto* bytes = reinterpret_cast<const uint8_t*>(&message);
  TestProgram other;
  const uint32_t context = other.client.Call(UROCE_IMPORT_CONTEXT, maker.name).handle();
  maker.client.Post(UROCE_REG_MR, {bytes, bytes + sizeof(message)});
  Dump(UROCE_DUMP_MR);  // Said later, and answered: the request has been taken.
  EXPECT_EQ(other.client.Call(UROCE_IMPORT_PD, uroce_import{context, maker.domain}).error,
            EOPNOTSUPP);
  EXPECT_EQ(maker.client.Receive().error, 0);
}

}  // namespace
}  // namespace uroce::nic
