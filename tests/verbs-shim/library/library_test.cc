// SPDX-License-Identifier: Apache-2.0
// liburoce.so as the dynamic linker sees it: libc alone, public verbs with libibverbs' own nodes.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>

#include <array>
#include <cstdio>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

std::string RunCommand(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  std::string output;
  std::array<char, 4096> buffer;
  while (size_t count = fread(buffer.data(), 1, buffer.size(), pipe)) {
    output.append(buffer.data(), count);
  }
  EXPECT_EQ(pclose(pipe), 0) << command;
  return output;
}

/// The last field of every dynamic symbol that is defined, or not.
std::vector<std::string> Symbols(const std::string& library, bool defined) {
  std::istringstream lines(RunCommand("readelf --dyn-syms -W " + library));
  std::vector<std::string> symbols;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string number, value, size, type, bind, visibility, index, name;
    fields >> number >> value >> size >> type >> bind >> visibility >> index >> name;
    if (name.empty() || number.back() != ':' || (index != "UND") != defined) continue;
    if (bind == "WEAK" && !defined) continue;
    if (type != "OBJECT" || !defined) symbols.push_back(name);
  }
  return symbols;
}

/// Functions of libc that ours stand in front of, and no others.
const std::set<std::string> kHooks = {"__fxstat",
                                      "__fxstat64",
                                      "__lxstat",
                                      "__lxstat64",
                                      "__open64_2",
                                      "__open_2",
                                      "__openat64_2",
                                      "__openat_2",
                                      "__realpath_chk",
                                      "__sigaction",
                                      "__sysv_signal",
                                      "__xstat",
                                      "__xstat64",
                                      "access",
                                      "bsd_signal",
                                      "canonicalize_file_name",
                                      "chdir",
                                      "dlopen",
                                      "dup",
                                      "dup2",
                                      "dup3",
                                      "eaccess",
                                      "euidaccess",
                                      "faccessat",
                                      "fcntl",
                                      "fcntl64",
                                      "fopen",
                                      "fopen64",
                                      "freopen",
                                      "freopen64",
                                      "fstat",
                                      "fstat64",
                                      "fstatat",
                                      "fstatat64",
                                      "fts64_open",
                                      "fts_open",
                                      "ftw",
                                      "ftw64",
                                      "getxattr",
                                      "glob",
                                      "glob64",
                                      "inotify_add_watch",
                                      "lgetxattr",
                                      "listxattr",
                                      "llistxattr",
                                      "lstat",
                                      "lstat64",
                                      "madvise",
                                      "nftw",
                                      "nftw64",
                                      "open",
                                      "open64",
                                      "openat",
                                      "openat64",
                                      "opendir",
                                      "readlink",
                                      "readlinkat",
                                      "realpath",
                                      "scandir",
                                      "scandir64",
                                      "sigaction",
                                      "sigignore",
                                      "signal",
                                      "sigset",
                                      "ssignal",
                                      "stat",
                                      "stat64",
                                      "statfs",
                                      "statfs64",
                                      "statvfs",
                                      "statvfs64",
                                      "statx",
                                      "sysv_signal",
                                      "write"};

/// Where the linker finds the installed library.
std::string PathOfLibibverbs() {
  void* library = dlopen("libibverbs.so.1", RTLD_LAZY);
  link_map* map = nullptr;
  if (library == nullptr || dlinfo(library, RTLD_DI_LINKMAP, &map) != 0) return "";
  return map->l_name;
}

const std::string kReal = PathOfLibibverbs();

TEST(LibraryTest, NeedsNothingButLibc) {
  EXPECT_EQ(RunCommand("readelf -dW " UROCE_LIBRARY " | grep -c NEEDED"), "1\n");
  EXPECT_NE(RunCommand("readelf -dW " UROCE_LIBRARY " | grep NEEDED").find("[libc.so.6]"),
            std::string::npos);
}

TEST(LibraryTest, EveryUndefinedSymbolIsLibcs) {
  for (const std::string& symbol : Symbols(UROCE_LIBRARY, false)) {
    EXPECT_NE(symbol.find("@GLIBC_2."), std::string::npos) << symbol;
  }
}

TEST(LibraryTest, ExportsCarryTheNodesOfTheInstalledLibrary) {
  const std::vector<std::string> real = Symbols(kReal, true);
  const std::set<std::string> known(real.begin(), real.end());
  const std::vector<std::string> exported = Symbols(UROCE_LIBRARY, true);
  EXPECT_GT(exported.size(), 50u);
  const std::set<std::string> newer = {
      "ibv_reg_mr_ex@@IBVERBS_1.15", "ibv_query_port_speed@@IBVERBS_1.16",
      "ibv_alloc_buf@@IBVERBS_1.17", "ibv_free_buf@@IBVERBS_1.17", "ibv_reg_buf_mr@@IBVERBS_1.17"};
  for (const std::string& symbol : exported) {
    if (symbol == "ibv_query_gid_type") continue;  // Private to rdma-core: without a node.
    if (newer.contains(symbol)) continue;          // Debian 12's library has none of them.
    EXPECT_TRUE(known.contains(symbol) || kHooks.contains(symbol)) << symbol;
  }
}

// A call of the real library on an object of ours would read its private structures in front of it.
TEST(LibraryTest, EveryPublicVerbOnAnObjectIsOurs) {
  const std::set<std::string> without_object_of_ours = {
      "ibv_copy_ah_attr_from_kern", "ibv_copy_path_rec_from_kern", "ibv_copy_path_rec_to_kern",
      "ibv_copy_qp_attr_from_kern", "ibv_dofork_range", "ibv_dontfork_range", "ibv_event_type_str",
      "ibv_fork_init", "ibv_get_sysfs_path", "ibv_import_device", "ibv_is_fork_initialized",
      "ibv_node_type_str", "ibv_port_state_str", "ibv_rate_to_mbps", "ibv_rate_to_mult",
      "ibv_wc_status_str", "mbps_to_ibv_rate", "mult_to_ibv_rate",
      // Reaches the device by verbs that are ours.
      "ibv_resolve_eth_l2_from_gid",
      // Verbs of newer libraries, which refuse them by the private part of our contexts, or serve
      // them by memory of the program.
      "_ibv_query_comp_cntr_caps", "ibv_alloc_buf", "ibv_alloc_dmah", "ibv_create_comp_cntr",
      "ibv_dealloc_dmah", "ibv_destroy_comp_cntr", "ibv_dm_export_dmabuf_fd",
      "ibv_export_buf_dmabuf_fd", "ibv_free_buf", "ibv_inc_comp_cntr", "ibv_inc_err_comp_cntr",
      "ibv_qp_attach_comp_cntr", "ibv_read_comp_cntr", "ibv_read_err_comp_cntr",
      "ibv_set_comp_cntr", "ibv_set_err_comp_cntr", "ibv_wr_opcode_str"};
  const std::vector<std::string> ours = Symbols(UROCE_LIBRARY, true);
  const std::set<std::string> exported(ours.begin(), ours.end());
  for (const std::string& symbol : Symbols(kReal, true)) {
    const size_t at = symbol.find("@@IBVERBS_1");
    if (at == std::string::npos || without_object_of_ours.contains(symbol.substr(0, at))) continue;
    EXPECT_TRUE(exported.contains(symbol)) << symbol;
  }
}

TEST(LibraryTest, EveryHookIsThere) {
  const std::vector<std::string> ours = Symbols(UROCE_LIBRARY, true);
  const std::set<std::string> exported(ours.begin(), ours.end());
  for (const std::string& hook : kHooks) EXPECT_TRUE(exported.contains(hook)) << hook;
}

TEST(LibraryTest, ThreadLocalsWouldBeInitialExec) {
  EXPECT_EQ(RunCommand("readelf -rW " UROCE_LIBRARY " | grep -c -e DTPMOD -e TLSDESC || true"),
            "0\n");
}

}  // namespace
