// SPDX-License-Identifier: Apache-2.0
#include "nic/control/device_tree.h"

#include <net/if.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "nic/devices/device_files.h"
#include "nic/devices/gid_entries.h"
#include "nic/objects/nic.h"
#include "nic/settings/port_congestion.h"

namespace uroce::nic {
namespace {

constexpr char kClass[] = "sys/class/infiniband/";
constexpr char kNodes[] = "dev/infiniband/";

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
  described.congestion = CongestionOf(device.config());
  std::ranges::transform(CongestionOfPriorities(device.config()), described.profiles.begin(),
                         &congestion::Settings::profile);
  described.cpus = static_cast<uint32_t>(std::max(1L, sysconf(_SC_NPROCESSORS_CONF)));
  return described;
}

}  // namespace

// Files that a killed daemon left beside this socket are stale.
DeviceTree::DeviceTree(OwnTree tree) : tree_(std::move(tree)) { Remove(); }

DeviceTree::~DeviceTree() { Remove(); }

void DeviceTree::Remove() {
  for (const char* const place : {"sys", "dev"}) tree_.Remove(place);
}

std::string DeviceTree::DirectoryOf(const NicDevice& device) {
  return kClass + device.name() + "/";
}

void DeviceTree::Publish(const Nic& nic, const NicDevice& device) {
  Files files = DeviceFiles(Describe(nic, device));
  Files& former = written_[device.name()];
  if (files == former) return;
  const std::string directory = DirectoryOf(device);
  for (const auto& [path, text] : former) {
    if (!files.contains(path)) tree_.Remove(directory + path);
  }
  for (const auto& [path, text] : files) {
    const auto old = former.find(path);
    if (old != former.end() && old->second == text) continue;
    Complain(tree_.WriteFile(directory + path, text + "\n"));
  }
  // Programs only check that they may read and write a character device there.
  Complain(tree_.Link(kNodes + device.name(), "/dev/null"));
  former = std::move(files);
}

void DeviceTree::Withdraw(const NicDevice& device) {
  written_.erase(device.name());
  tree_.Remove(kNodes + device.name());
  tree_.Remove(kClass + device.name());
}

void DeviceTree::Complain(const absl::Status& status) {
  if (status.ok() || has_failed_) return;
  has_failed_ = true;
  spdlog::warn("{}: programs miss what they look for in /sys", std::string(status.message()));
}

}  // namespace uroce::nic
