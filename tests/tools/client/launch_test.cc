// SPDX-License-Identifier: Apache-2.0
#include "tools/client/launch.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <cstring>
#include <fstream>

namespace uroce::tools {
namespace {

// ---- The environment ----

TEST(LaunchTest, LibraryStandsBeforeWhatWasPreloaded) {
  EXPECT_EQ(PrependPreload("/l/liburoce.so", "/a.so:/b.so"), "/l/liburoce.so:/a.so:/b.so");
  EXPECT_EQ(PrependPreload("/l/liburoce.so", "/a.so /b.so"), "/l/liburoce.so:/a.so:/b.so");
}

TEST(LaunchTest, NestedRunPreloadsTheLibraryOnce) {
  EXPECT_EQ(PrependPreload("/l/liburoce.so", "/a.so:/l/liburoce.so"), "/l/liburoce.so:/a.so");
}

TEST(LaunchTest, EmptyPreloadGetsTheLibraryAlone) {
  EXPECT_EQ(PrependPreload("/l/liburoce.so", ""), "/l/liburoce.so");
}

TEST(LaunchTest, ShellExportsSurviveQuotesInPaths) {
  EXPECT_EQ(ToShellExports({.preload = "/it's.so", .socket = "/run/a b", .asan = "a=1"}),
            "export LD_PRELOAD='/it'\\''s.so'\nexport UROCE_SOCKET='/run/a b'\n"
            "export ASAN_OPTIONS='a=1'\n");
}

TEST(LaunchTest, AddressSanitizerDoesNotLookWhoComesFirst) {
  EXPECT_EQ(AppendAsanOptions(""), "verify_asan_link_order=0");
  EXPECT_EQ(AppendAsanOptions("detect_leaks=0"), "detect_leaks=0:verify_asan_link_order=0");
}

TEST(LaunchTest, WhatTheUserSaysToAddressSanitizerStays) {
  for (const char* existing : {"verify_asan_link_order=1", "a=b:verify_asan_link_order=0:c=d"}) {
    EXPECT_EQ(AppendAsanOptions(existing), existing);
  }
}

TEST(LaunchTest, MissingProgramIsAnErrorThatNamesIt) {
  const absl::Status status = Exec({}, {"/nonexistent/program"});
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(std::string(status.message()).find("/nonexistent/program"), std::string::npos);
}

// ---- Programs that take a preload ----

#ifdef __aarch64__
constexpr uint16_t kOwnMachine = EM_AARCH64;
constexpr uint16_t kOtherMachine = EM_X86_64;
#else
constexpr uint16_t kOwnMachine = EM_X86_64;
constexpr uint16_t kOtherMachine = EM_AARCH64;
#endif

/// A file that begins as a program without parts does.
class ProgramFile {
 public:
  explicit ProgramFile(uint16_t machine) {
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_machine = machine;
    std::ofstream(path_).write(reinterpret_cast<const char*>(&header), sizeof(header));
  }
  ~ProgramFile() { unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_ = testing::TempDir() + "program-" + std::to_string(getpid());
};

TEST(ProgramKindTest, DynamicProgramsScriptsAndUnknownOnesPass) {
  EXPECT_TRUE(CheckTakesPreload("/proc/self/exe").ok());
  EXPECT_TRUE(CheckTakesPreload("sh").ok()) << "found by PATH";
  EXPECT_TRUE(CheckTakesPreload("/etc/passwd").ok());
  EXPECT_TRUE(CheckTakesPreload("/nonexistent/program").ok());
}

TEST(ProgramKindTest, AProgramWithoutALinkerIsRefusedByItsName) {
  const ProgramFile program(kOwnMachine);
  const absl::Status status = CheckTakesPreload(program.path());
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find(program.path() + ": it is statically linked"),
            absl::string_view::npos)
      << status;
}

TEST(ProgramKindTest, AProgramOfAnotherMachineIsRefused) {
  const ProgramFile program(kOtherMachine);
  EXPECT_FALSE(CheckTakesPreload(program.path()).ok());
}

}  // namespace
}  // namespace uroce::tools
