// SPDX-License-Identifier: Apache-2.0
// Which paths of programs lead into the daemon's directory.
#include "verbs-shim/hooks/redirected_path.h"

#include <gtest/gtest.h>

#include <string>

namespace uroce::shim {
namespace {

/// Where `path` leads, or "" for where it leads itself.
std::string Redirected(const char* path, size_t room = 64) {
  char place[64];
  return RedirectPath(path, "/run/u.d", place, room) ? place : "";
}

TEST(RedirectedPathTest, FilesOfDevicesLeadBelowTheTree) {
  EXPECT_EQ(Redirected("/sys/class/infiniband/uroce0/fw_ver"),
            "/run/u.d/sys/class/infiniband/uroce0/fw_ver");
  EXPECT_EQ(Redirected("/sys/class/infiniband"), "/run/u.d/sys/class/infiniband");
  EXPECT_EQ(Redirected("/sys/module/nvidia_peermem/version"),
            "/run/u.d/sys/module/nvidia_peermem/version");
  EXPECT_EQ(Redirected("/sys/kernel/mm/memory_peers/nv_mem/version"),
            "/run/u.d/sys/kernel/mm/memory_peers/nv_mem/version");
  EXPECT_EQ(Redirected("/dev/infiniband/uroce0"), "/run/u.d/dev/infiniband/uroce0");
  EXPECT_EQ(Redirected("/sys/devices/pcifffe:00/x"), "/run/u.d/sys/devices/pcifffe:00/x");
}

TEST(RedirectedPathTest, SlashesAndDotsChangeNothing) {
  const std::string place = "/run/u.d/sys/class/infiniband/uroce0/fw_ver";
  for (const char* path :
       {"//sys//class///infiniband/uroce0/fw_ver", "/sys/./class/infiniband/uroce0/fw_ver",
        "/sys/class/net/../infiniband/uroce0/fw_ver", "/../sys/class/infiniband/uroce0/fw_ver",
        "/dev/infiniband_x/../../sys/class/infiniband/uroce0/fw_ver",
        "/sys/class/infiniband_verbs/../infiniband/uroce0/fw_ver"}) {
    EXPECT_EQ(Redirected(path), place) << path;
  }
  EXPECT_EQ(Redirected("/dev/./infiniband/"), "/run/u.d/dev/infiniband/");
  // The kernel follows the links of the tree.
  EXPECT_EQ(Redirected("/sys/class/infiniband/a/../b"), "/run/u.d/sys/class/infiniband/a/../b");
}

TEST(RedirectedPathTest, PartsInAnotherOrderStayWhatTheyAre) {
  EXPECT_EQ(Redirected("/class/sys/infiniband"), "");
  EXPECT_EQ(Redirected("/sys/x/class/infiniband"), "");
  EXPECT_EQ(Redirected("/sys/class/../infiniband"), "");
  EXPECT_EQ(Redirected("sys/class/infiniband"), "");
}

// libibverbs looks for the kernel's devices there, and must find no others.
TEST(RedirectedPathTest, NamesThatOnlyBeginAlikeStayWhatTheyAre) {
  EXPECT_EQ(Redirected("/sys/class/infiniband_verbs/uverbs0"), "");
  EXPECT_EQ(Redirected("/sys/class/net/eth0"), "");
  EXPECT_EQ(Redirected("/dev/infinibandits"), "");
  EXPECT_EQ(Redirected("/sys/devices/pci0000:00/x"), "");
  EXPECT_EQ(Redirected("/sys/kernel/mm/transparent_hugepage/enabled"), "");
  EXPECT_EQ(Redirected(""), "");
}

TEST(RedirectedPathTest, WhatDoesNotFitIsLeftAlone) {
  const char* path = "/dev/infiniband/uroce0";
  const size_t length = Redirected(path).size();
  EXPECT_EQ(Redirected(path, length), "");
  EXPECT_NE(Redirected(path, length + 1), "");
}

}  // namespace
}  // namespace uroce::shim
