// SPDX-License-Identifier: Apache-2.0
// Warns when another NIC serves an address of the kernel that one of the daemon's NICs serves.
#pragma once

#include <map>

#include "nic/net/address_signs.h"

namespace uroce::nic {

class NicDevice;

/// Two such NICs get the same packets. Queue pairs with numbers of one are mostly unknown to the
/// other, so that much works; but both answer what goes to queue pair 1: a connection may be
/// refused by the NIC that does not know the service. Which daemon was meant nobody can tell, and
/// anybody can put up a sign: a line in the log and no error. Control thread.
class ServedAddresses {
 public:
  /// Call it when the device is there, and when its addresses or its interface may have changed.
  void Update(const NicDevice& device);
  void Forget(const NicDevice& device) { signs_.erase(&device); }

 private:
  std::map<const NicDevice*, AddressSigns> signs_;
};

}  // namespace uroce::nic
