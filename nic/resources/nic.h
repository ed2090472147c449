// SPDX-License-Identifier: Apache-2.0
// What all programs share: the NICs, the worker, the numbers that must be unique.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "nic/config.h"
#include "nic/net/exception_path.h"
#include "nic/net/followed_paths.h"
#include "nic/resources/fd.h"
#include "nic/resources/flight_inbox.h"
#include "nic/resources/nic_device.h"
#include "nic/resources/number_pool.h"
#include "nic/resources/overflow_inbox.h"
#include "nic/resources/user_account.h"
#include "pipeline/datapath/key_table.h"
#include "pipeline/datapath/worker.h"

namespace uroce::nic {

/// Control thread. The worker is stopped before the devices go.
class Nic {
 public:
  /// Takes the devices to the worker and starts it. `pool` outlives this object.
  Nic(const Config& config, std::vector<std::unique_ptr<NicDevice>> devices, rte_mempool* pool);
  ~Nic();
  Nic(const Nic&) = delete;
  Nic& operator=(const Nic&) = delete;

  const Config& config() const { return config_; }
  const std::vector<std::unique_ptr<NicDevice>>& devices() const { return devices_; }
  datapath::KeyTable& keys() { return keys_; }
  datapath::Worker& worker() { return worker_; }
  FlightInbox& flights() { return flights_; }
  OverflowInbox& overflows() { return overflows_; }
  NumberPool& qpns() { return qpns_; }
  NumberPool& key_numbers() { return key_numbers_; }
  uint32_t NextPdNumber() { return next_pd_++; }
  UserAccount& user(uint32_t uid) {
    return users_.try_emplace(uid, uid, config_.limits).first->second;
  }
  /// /dev/userfaultfd, or -1.
  int userfaultfd() const { return userfaultfd_.get(); }

  /// The device that owns `entry` and reaches `from` without the world outside: itself, or another
  /// end of the same in-process wire, or another port of this daemon on a kernel interface. Both
  /// are in one VLAN.
  const NicDevice* FindOwner(const GidEntry& entry, const NicDevice& from) const;
  /// Has live queue pairs on these paths send to the MACs that are given there.
  void MovePaths(std::span<const FollowedPath> paths);
  /// Puts all queue pairs of the completion queues in `overflows` in error, on whatever worker.
  void FailOverflowed();
  /// Looks at the device's port and interface again; the worker follows.
  NicDevice::Change Refresh(NicDevice& device);

  static Nanos Now();

 private:
  Config config_;
  std::vector<std::unique_ptr<NicDevice>> devices_;
  datapath::KeyTable keys_;
  NumberPool qpns_{24, 0};
  NumberPool key_numbers_{32, 8};
  uint32_t next_pd_ = 1;
  std::map<uint32_t, UserAccount> users_;  ///< Segments point into it.
  Fd userfaultfd_;
  FlightInbox flights_;
  OverflowInbox overflows_;
  datapath::Worker worker_;
  std::vector<std::unique_ptr<ExceptionPath>> exception_paths_;
};

}  // namespace uroce::nic
