// SPDX-License-Identifier: Apache-2.0
#include "nic/rdma_cm/types.h"

#include <algorithm>
#include <cerrno>

namespace uroce::nic::rdma_cm {

PrivateData::PrivateData(std::span<const uint8_t> data)
    : size(static_cast<uint8_t>(std::min(data.size(), kMost))) {
  std::copy_n(data.begin(), size, bytes.begin());
}

int ErrnoOf(Result result) {
  switch (result) {
    case Result::kOk:
      return 0;
    case Result::kNoSuchId:
      return ENOENT;
    case Result::kNoRoom:
      return ENOMEM;
    case Result::kAddressInUse:
      return EADDRINUSE;
    case Result::kAddressNotAvailable:
      return EADDRNOTAVAIL;
    case Result::kNotPermitted:
      return EACCES;
    case Result::kNotSupported:
      return EOPNOTSUPP;
    case Result::kNoRoute:
      return ENETUNREACH;
    case Result::kNoDevice:
      return ENODEV;
    case Result::kWrongState:
    case Result::kTooLong:
    case Result::kInvalid:
      return EINVAL;
  }
  return EINVAL;
}

}  // namespace uroce::nic::rdma_cm
