// SPDX-License-Identifier: Apache-2.0
// A tree of files that stands for /proc, /sys and /dev of some machine.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "tools/doctor/machine.h"

namespace uroce::tools {

class FixtureTree {
 public:
  FixtureTree() {
    char place[] = "/tmp/uroce-test-XXXXXX";
    root_ = mkdtemp(place);
  }
  FixtureTree(const FixtureTree&) = delete;
  FixtureTree& operator=(const FixtureTree&) = delete;
  ~FixtureTree() { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    MakeDirectoryOf(path);
    std::ofstream(root_ + path) << text;
  }
  void Link(const std::string& path, const std::string& target) {
    MakeDirectoryOf(path);
    std::filesystem::create_symlink(target, root_ + path);
  }
  Machine machine() const { return Machine(root_); }

 private:
  void MakeDirectoryOf(const std::string& path) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
  }
  std::string root_;
};

}  // namespace uroce::tools
