// SPDX-License-Identifier: Apache-2.0
// What all programs share: the NICs, the workers, and the numbers that must be unique.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "pipeline/base/types.h"

namespace uroce {
class SideThread;
}

namespace uroce::drivers {
class SwitchNetwork;
}

namespace uroce::datapath {
class KeyTable;
class QueuePair;
class Worker;
class Workers;
struct WorkerSeat;
}  // namespace uroce::datapath

namespace uroce::nic {

struct AddressHandle;
struct Config;
struct DeviceChange;
class Domains;
class FailureInbox;
struct FollowedPath;
struct Limits;
class NetDevice;
class NicDevice;
struct Numbers;
class OverflowInbox;
class Program;
class UserAccount;
class XrcDomains;

/// Control thread. The workers are stopped before the devices are destroyed. A source that uses a
/// class to which Nic refers includes that class's header too.
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

  // ---- settings ----
  const Config& config() const;
  /// Takes what may change while the daemon runs (nic/settings/config.h), but for the devices' own
  /// settings. Programs that are there keep their limits; those of their users apply to what they
  /// ask for from now on.
  void TakeSettings(const Config& next);
  /// The limits that this machine can bear.
  static Limits Bounded(Limits limits);

  // ---- devices ----
  using Devices = std::vector<std::shared_ptr<NicDevice>>;
  /// Those that are there.
  const Devices& devices() const;
  /// The same devices, as nic/paths uses them.
  std::vector<const NetDevice*> net_devices() const;
  /// The device that is there with this index, or null.
  NicDevice* DeviceAt(uint32_t index) const;
  /// The indices of the next devices to add; fewer than `count` where the places do not suffice.
  std::vector<uint32_t> NextDeviceIndices(size_t count) const;
  /// The number of removed devices that programs still have open: each has a place.
  size_t held_devices() const;
  /// Gives the device, which has the next index, to the workers.
  NicDevice& AddDevice(std::unique_ptr<NicDevice> device);
  /// The device is not there any more: programs that have it open are told by
  /// IBV_EVENT_DEVICE_FATAL, and its queue pairs go to error; its port is destroyed. Programs that
  /// hold the device can end their objects of it.
  void RemoveDevice(NicDevice& device);
  /// Destroys the removed devices that no program holds any more.
  void ReleaseDevices();
  /// Reads the device's port and interface again, and tells the workers about changes.
  DeviceChange Refresh(NicDevice& device);
  /// The network between the devices at switches, or null.
  drivers::SwitchNetwork* network() const;

  // ---- workers ----
  datapath::Workers& workers();
  const datapath::Workers& workers() const;
  /// The worker that owns a queue pair.
  datapath::Worker& OwnerOf(const datapath::QueuePair& queue_pair);
  /// The worker that forwards the frames that are not RoCE, for a device with a host link.
  datapath::Worker& HostWorkerOf(const NicDevice& device);
  /// Has live queue pairs and address handles on these paths use the MACs in `paths`.
  void MovePaths(std::span<const FollowedPath> paths);
  FailureInbox& failures();
  OverflowInbox& overflows();
  /// Puts all queue pairs of the completion queues in `overflows` in error, on every worker.
  void FailOverflowed();

  // ---- programs, and what they share ----
  /// All programs, by their ids.
  std::map<uint32_t, Program*>& programs();
  /// The address handles of all programs: their paths follow the network.
  std::set<AddressHandle*>& address_handles();
  UserAccount& user(uint32_t uid);
  /// UserAccount::ForgetRead for all users.
  void ForgetRead();
  datapath::KeyTable& keys();
  Numbers& numbers();
  const Numbers& numbers() const;
  XrcDomains& xrc_domains();
  Domains& domains();
  /// Unmaps large memory. Shared with objects that may outlive this one.
  const std::shared_ptr<SideThread>& reaper() const;
  /// /dev/userfaultfd, or -1.
  int userfaultfd() const;

  static Nanos Now();

 private:
  struct Parts;
  const std::unique_ptr<Parts> parts_;
};

}  // namespace uroce::nic
