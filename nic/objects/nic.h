// SPDX-License-Identifier: Apache-2.0
// What all programs share: the NICs, the workers, and the numbers that must be unique.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "nic/devices/device_table.h"
#include "nic/devices/exception_path.h"
#include "nic/devices/nic_device.h"
#include "nic/net/followed_paths.h"
#include "nic/objects/numbers.h"
#include "nic/objects/resources.h"
#include "nic/objects/worker_inboxes.h"
#include "nic/objects/xrc_domain.h"
#include "nic/settings/config.h"
#include "pipeline/datapath/memory/memory_keys.h"
#include "pipeline/datapath/worker/worker.h"
#include "pipeline/os/fd.h"
#include "pipeline/os/side_thread.h"

namespace uroce::drivers {
class SwitchNetwork;
}

namespace uroce::nic {

struct AddressHandle;
class Program;

/// Control thread. The workers are stopped before the devices are destroyed.
class Nic {
 public:
  /// Gives the devices to the workers, one worker per seat, and starts them. Mempools outlive this
  /// object. `network` joins the devices at switches.
  Nic(const Config& config, std::vector<std::unique_ptr<NicDevice>> devices,
      std::span<const datapath::WorkerSeat> seats,
      std::shared_ptr<drivers::SwitchNetwork> network = nullptr);
  ~Nic();
  Nic(const Nic&) = delete;
  Nic& operator=(const Nic&) = delete;

  const Config& config() const { return config_; }
  /// Takes what may change while the daemon runs (nic/settings/config.h), but for the
  /// devices' own settings. Programs that are there keep their limits; those of their users apply
  /// to what they ask for from now on.
  void TakeSettings(const Config& next);
  /// The limits that this machine can bear.
  static Limits Bounded(Limits limits);
  using Devices = DeviceTable<NicDevice>::List;
  /// Those that are there.
  const Devices& devices() const { return devices_.present(); }
  /// The same devices, as nic/paths uses them.
  NetDevices net_devices() const;
  /// The device that is there with this index, or null.
  NicDevice* DeviceAt(uint32_t index) const { return devices_.At(index); }
  /// The index of the next device to add. Errors: ResourceExhausted.
  absl::StatusOr<std::vector<uint32_t>> NextDeviceIndices(size_t count) const;
  /// Gives the device, which has that index, to the workers.
  NicDevice& AddDevice(std::unique_ptr<NicDevice> device);
  /// The device is not there any more: programs that have it open are told by
  /// IBV_EVENT_DEVICE_FATAL, and its queue pairs go to error; its port is destroyed. Programs that
  /// hold the device can end their objects of it.
  void RemoveDevice(NicDevice& device);
  /// Destroys the removed devices that nobody holds any more.
  void ReleaseDevices();
  /// The network between the devices at switches, or null.
  drivers::SwitchNetwork* network() const { return network_.get(); }
  datapath::KeyTable& keys() { return keys_; }
  datapath::Workers& workers() { return workers_; }
  const datapath::Workers& workers() const { return workers_; }
  /// The worker that owns a queue pair.
  datapath::Worker& OwnerOf(const datapath::QueuePair& queue_pair);
  /// The worker that forwards the frames that are not RoCE, for a device with a host link.
  datapath::Worker& HostWorkerOf(const NicDevice& device);
  FailureInbox& failures() { return failures_; }
  OverflowInbox& overflows() { return overflows_; }
  /// All programs, by their ids.
  std::map<uint32_t, Program*>& programs() { return programs_; }
  /// The address handles of all programs: their paths follow the network.
  std::set<AddressHandle*>& address_handles() { return address_handles_; }
  Numbers& numbers() { return numbers_; }
  const Numbers& numbers() const { return numbers_; }
  XrcDomains& xrc_domains() { return xrc_domains_; }
  Domains& domains() { return domains_; }
  UserAccount& user(uint32_t uid) {
    return users_.try_emplace(uid, uid, config_.limits).first->second;
  }
  /// Unmaps large memory. Shared with objects that may outlive this one.
  const std::shared_ptr<SideThread>& reaper() const { return reaper_; }
  /// /dev/userfaultfd, or -1.
  int userfaultfd() const { return userfaultfd_.get(); }

  /// Has live queue pairs and address handles on these paths use the MACs in `paths`.
  void MovePaths(std::span<const FollowedPath> paths);
  /// Puts all queue pairs of the completion queues in `overflows` in error, on every worker.
  void FailOverflowed();
  /// Reads the device's port and interface again, and tells the workers about changes.
  NicDevice::Change Refresh(NicDevice& device);

  static Nanos Now();

 private:
  /// Calls `rewrite` for each address handle's path; it returns whether it changed the path.
  using PathRewriter = absl::FunctionRef<bool(const NicDevice& device, datapath::Path& path)>;
  void RewriteAddresses(PathRewriter rewrite);
  void ChangeMac(NicDevice& device);

  Config config_;
  std::shared_ptr<drivers::SwitchNetwork> network_;
  DeviceTable<NicDevice> devices_;
  datapath::KeyTable keys_;
  Numbers numbers_;
  XrcDomains xrc_domains_;
  Domains domains_;
  std::map<uint32_t, Program*> programs_;
  std::set<AddressHandle*> address_handles_;
  std::map<uint32_t, UserAccount> users_;  ///< Segments point into it.
  std::shared_ptr<SideThread> reaper_ = std::make_shared<SideThread>();
  Fd userfaultfd_;
  FailureInbox failures_;
  OverflowInbox overflows_;
  datapath::Workers workers_;
  std::vector<std::unique_ptr<ExceptionPath>> exception_paths_;
};

}  // namespace uroce::nic
