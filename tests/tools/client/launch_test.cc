// SPDX-License-Identifier: Apache-2.0
#include "tools/client/launch.h"

#include <gtest/gtest.h>

namespace uroce::tools {
namespace {

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

}  // namespace
}  // namespace uroce::tools
