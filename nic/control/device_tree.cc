// SPDX-License-Identifier: Apache-2.0
#include "nic/control/device_tree.h"

#include <net/if.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "nic/control/gid_entries.h"
#include "nic/resources/device_files.h"

namespace uroce::nic {
namespace {

namespace fs = std::filesystem;

constexpr char kClass[] = "/sys/class/infiniband/";
constexpr char kNodes[] = "/dev/infiniband/";

std::string InterfaceName(uint32_t index) {
  char name[IF_NAMESIZE] = {};
  return index != 0 && if_indextoname(index, name) != nullptr ? name : "";
}

DescribedDevice Describe(const Nic& nic, const NicDevice& device) {
  DescribedDevice described;
  described.device = device.DeviceInfo(nic.config().limits);
  described.port = device.PortAttributes();
  described.gids = GidEntries(device);
  for (const uroce_gid_entry& entry : described.gids) {
    described.gid_interfaces.push_back(InterfaceName(entry.ifindex));
  }
  described.interface = device.info().interface;
  described.cpus = static_cast<uint32_t>(std::max(1L, sysconf(_SC_NPROCESSORS_CONF)));
  return described;
}

}  // namespace

// What a killed daemon left under this socket is stale.
DeviceTree::DeviceTree(const std::string& socket_path) : root_(socket_path + UROCE_TREE_SUFFIX) {
  Remove();
}

DeviceTree::~DeviceTree() { Remove(); }

// Only what such a tree holds: the directory might be somebody's who was not asked.
void DeviceTree::Remove() {
  std::error_code ignored;
  for (const std::string place : {kClass, kNodes}) {
    fs::remove_all(root_ + place, ignored);
    fs::path parent = fs::path(root_ + place).parent_path().parent_path();
    while (parent != root_ && fs::remove(parent, ignored)) parent = parent.parent_path();
    fs::remove(parent, ignored);
  }
}

void DeviceTree::Publish(const Nic& nic, const NicDevice& device) {
  Files files = DeviceFiles(Describe(nic, device));
  Files& former = written_[device.name()];
  if (files == former) return;
  const std::string directory = root_ + kClass + device.name() + "/";
  std::error_code ignored;
  for (const auto& [path, text] : former) {
    if (!files.contains(path)) fs::remove(directory + path, ignored);
  }
  for (const auto& [path, text] : files) {
    const auto old = former.find(path);
    if (old == former.end() || old->second != text) Write(directory + path, text + "\n");
  }
  AddNode(device.name());
  former = std::move(files);
}

// A reader sees the former text or the new one.
void DeviceTree::Write(const std::string& path, const std::string& text) {
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  const std::string fresh = path + ".new";
  if (!(std::ofstream(fresh) << text).flush()) error = std::make_error_code(std::errc::io_error);
  if (!error) fs::rename(fresh, path, error);
  if (!error || has_failed_) return;
  has_failed_ = true;
  spdlog::warn("{}: cannot be written ({}): programs miss what they look for in /sys", path,
               error.message());
}

// Programs look whether they may read and write a character device there, and no more.
void DeviceTree::AddNode(const std::string& name) {
  std::error_code ignored;
  fs::create_directories(root_ + kNodes, ignored);
  fs::create_symlink("/dev/null", root_ + kNodes + name, ignored);
}

}  // namespace uroce::nic
