// SPDX-License-Identifier: Apache-2.0
// The directory of files about the devices, beside the control socket, in a place where other users
// may make files too.
#include "nic/control/device_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <net/if.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "nic/base/log.h"
#include "nic/devices/device_files.h"
#include "nic/devices/device_info.h"
#include "nic/devices/nic_device.h"
#include "nic/devices/verbs_attributes.h"
#include "nic/objects/nic.h"
#include "nic/settings/config.h"
#include "nic/settings/congestion_settings.h"
#include "pipeline/os/shared_memory.h"
#include "pipeline/shm/abi/uroce_arena.h"
#include "pipeline/shm/abi/uroce_stage.h"

namespace uroce {
namespace {

constexpr int kOpenDirectory = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
constexpr mode_t kDirectoryMode = 0755;
constexpr mode_t kFileMode = 0644;

std::vector<std::string> NamesIn(const Fd& directory) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(fdopendir(dup(directory.get())), closedir);
  if (entries == nullptr) return names;
  while (const dirent* entry = readdir(entries.get())) {
    const absl::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  return names;
}

void RemoveAt(int parent, const std::string& name) {
  if (unlinkat(parent, name.c_str(), 0) == 0) return;
  const Fd directory(openat(parent, name.c_str(), kOpenDirectory));
  if (!directory) return;
  for (const std::string& inner : NamesIn(directory)) RemoveAt(directory.get(), inner);
  unlinkat(parent, name.c_str(), AT_REMOVEDIR);
}

}  // namespace

OwnTree::OwnTree(std::string path, Fd directory)
    : path_(std::move(path)), directory_(std::move(directory)) {}

absl::StatusOr<OwnTree> OwnTree::Make(const std::string& path) {
  if (mkdir(path.c_str(), kDirectoryMode) != 0 && errno != EEXIST) {
    return SystemError(path.c_str(), errno);
  }
  Fd directory(open(path.c_str(), kOpenDirectory));
  struct stat status {};
  if (!directory || fstat(directory.get(), &status) != 0) {
    return absl::PermissionDeniedError(absl::StrCat(path, " is no directory"));
  }
  if (status.st_uid != geteuid() || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return absl::PermissionDeniedError(absl::StrCat(path, " belongs to user ", status.st_uid,
                                                    ", or others than its user may write to it"));
  }
  return OwnTree(path, std::move(directory));
}

Fd OwnTree::OpenFolder(absl::string_view name, bool makes_it) const {
  Fd folder(openat(directory_.get(), ".", kOpenDirectory));
  for (const absl::string_view part : absl::StrSplit(name, '/', absl::SkipEmpty())) {
    const std::string its_name(part);
    Fd next(openat(folder.get(), its_name.c_str(), kOpenDirectory));
    if (!next && makes_it && mkdirat(folder.get(), its_name.c_str(), kDirectoryMode) == 0) {
      next = Fd(openat(folder.get(), its_name.c_str(), kOpenDirectory));
    }
    folder = std::move(next);
    if (!folder) break;
  }
  return folder;
}

absl::StatusOr<int> OwnTree::FolderOf(absl::string_view& name, bool makes_it) {
  const size_t slash = name.rfind('/');
  const absl::string_view folder = slash == name.npos ? "" : name.substr(0, slash);
  struct stat status {};
  const bool is_there =
      last_folder_ && fstat(last_folder_.get(), &status) == 0 && status.st_nlink != 0;
  if (!is_there || folder != last_folder_name_) {
    last_folder_ = OpenFolder(folder, makes_it);
    last_folder_name_ = std::string(folder);
  }
  if (!last_folder_) return SystemError(path_.c_str(), errno);
  if (slash != name.npos) name.remove_prefix(slash + 1);
  return last_folder_.get();
}

absl::Status OwnTree::WriteFile(absl::string_view name, absl::string_view text) {
  const absl::StatusOr<int> folder = FolderOf(name, /*makes_it=*/true);
  if (!folder.ok()) return folder.status();
  const std::string last(name);
  const std::string fresh = last + ".new";
  const Fd file(openat(*folder, fresh.c_str(),
                       O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, kFileMode));
  const ssize_t written = file ? write(file.get(), text.data(), text.size()) : -1;
  if (written < 0) return SystemError(path_.c_str(), errno);
  if (written != static_cast<ssize_t>(text.size())) return SystemError(path_.c_str(), ENOSPC);
  if (renameat(*folder, fresh.c_str(), *folder, last.c_str()) == 0) return absl::OkStatus();
  return SystemError(path_.c_str(), errno);
}

absl::StatusOr<Fd> OwnTree::Open(absl::string_view name) {
  const absl::StatusOr<int> folder = FolderOf(name, /*makes_it=*/false);
  if (!folder.ok()) return folder.status();
  Fd file(openat(*folder, std::string(name).c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC));
  if (!file) return SystemError(path_.c_str(), errno);
  return file;
}

absl::Status OwnTree::Link(absl::string_view name, const std::string& target) {
  const absl::StatusOr<int> folder = FolderOf(name, /*makes_it=*/true);
  if (!folder.ok()) return folder.status();
  const bool is_there =
      symlinkat(target.c_str(), *folder, std::string(name).c_str()) == 0 || errno == EEXIST;
  return is_there ? absl::OkStatus() : SystemError(path_.c_str(), errno);
}

void OwnTree::Remove(absl::string_view name) {
  const absl::StatusOr<int> folder = FolderOf(name, /*makes_it=*/false);
  if (folder.ok()) RemoveAt(*folder, std::string(name));
}

OwnTree::~OwnTree() {
  // If another user has put something there, rmdir removes an empty directory at most.
  if (directory_) rmdir(path_.c_str());
}

}  // namespace uroce

namespace uroce::nic {
namespace {

// Names in the tree begin without a slash.
constexpr absl::string_view kClass(UROCE_TREE_CLASS + 1);
constexpr absl::string_view kBus(UROCE_TREE_BUS + 1);
constexpr absl::string_view kNodes(UROCE_TREE_NODES + 1);
constexpr absl::string_view kPeermem(UROCE_TREE_PEERMEM + 1);
constexpr absl::string_view kPeers(UROCE_TREE_PEERS + 1);
constexpr char kDevice[] = "device/";
// Programs only check that they may read and write a character device there.
constexpr char kNode[] = "/dev/null";

/// The address as which programs that read the topology of a machine take the parent.
std::string AddressOf(const NicDevice& device) {
  constexpr uint32_t kDevicesOfBus = 32;
  return absl::StrFormat("fffe:%02x:%02x.0", device.index() / kDevicesOfBus,
                         device.index() % kDevicesOfBus);
}

/// There is no link "subsystem" to PCI there: NCCL would look for the device among those of the
/// machine, and without one puts the NIC beside the first CPU.
std::string ParentOf(const NicDevice& device) {
  return absl::StrCat(kBus, "/", AddressOf(device), "/");
}

std::string ClassLink(const NicDevice& device) { return absl::StrCat(kClass, "/", device.name()); }

std::string NamedNode(const NicDevice& device) { return absl::StrCat(kNodes, "/", device.name()); }

/// The name that the kernel gives to the node of an adapter.
std::string VerbsNode(const NicDevice& device) {
  return absl::StrCat(kNodes, "/uverbs", device.index());
}

std::string InterfaceName(uint32_t index) {
  char name[IF_NAMESIZE] = {};
  return index != 0 && if_indextoname(index, name) != nullptr ? name : "";
}

DescribedDevice Describe(const Nic& nic, const NicDevice& device) {
  DescribedDevice described;
  described.device = DeviceInfo(device, nic.config().limits);
  described.port = PortAttributes(device.info());
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
DeviceTree::DeviceTree(OwnTree tree) : tree_(std::move(tree)) {
  Remove();
  Complain(tree_.WriteFile(absl::StrCat(kPeermem, "/version"), UROCE_VERSION "\n"));
  Complain(tree_.WriteFile(absl::StrCat(kPeers, "/nv_mem/version"), UROCE_VERSION "\n"));
}

DeviceTree::~DeviceTree() { Remove(); }

void DeviceTree::Remove() {
  for (const char* const place : {"sys", "dev"}) tree_.Remove(place);
}

std::string DeviceTree::DirectoryOf(const NicDevice& device) {
  return absl::StrCat(ParentOf(device), "infiniband/", device.name(), "/");
}

std::string DeviceTree::PathOf(const NicDevice& device, absl::string_view file) {
  const bool is_parents = absl::ConsumePrefix(&file, kDevice);
  return absl::StrCat(is_parents ? ParentOf(device) : DirectoryOf(device), file);
}

void DeviceTree::Publish(const Nic& nic, const NicDevice& device) {
  Files files = DeviceFiles(Describe(nic, device));
  Files& former = written_[device.name()];
  if (files == former) return;
  for (const auto& [path, text] : former) {
    if (!files.contains(path)) tree_.Remove(PathOf(device, path));
  }
  for (const auto& [path, text] : files) {
    const auto old = former.find(path);
    if (old != former.end() && old->second == text) continue;
    Complain(tree_.WriteFile(PathOf(device, path), text + "\n"));
  }
  Complain(tree_.Link(DirectoryOf(device) + "device", "../../../" + AddressOf(device)));
  Complain(tree_.Link(ClassLink(device),
                      absl::StrCat("../../devices/" UROCE_TREE_BUS_NAME "/", AddressOf(device),
                                   "/infiniband/", device.name())));
  for (const std::string& node :
       {NamedNode(device), VerbsNode(device), absl::StrCat(kNodes, "/rdma_cm")}) {
    Complain(tree_.Link(node, kNode));
  }
  former = std::move(files);
}

void DeviceTree::Withdraw(const NicDevice& device) {
  written_.erase(device.name());
  tree_.Remove(NamedNode(device));
  tree_.Remove(VerbsNode(device));
  tree_.Remove(ClassLink(device));
  tree_.Remove(ParentOf(device));
}

void DeviceTree::Complain(const absl::Status& status) {
  if (status.ok() || has_failed_) return;
  has_failed_ = true;
  LogWarning("{}: programs miss what they look for in /sys", std::string(status.message()));
}

}  // namespace uroce::nic
