// SPDX-License-Identifier: Apache-2.0
#include "nic/ucma/command.h"

#include "nic/ucma/abi.h"

namespace uroce::nic::ucma {

int ParseCommand(std::span<const uint8_t> bytes, Command& command) {
  rdma_ucm_cmd_hdr header;
  if (bytes.size() < sizeof(header)) return EINVAL;
  std::memcpy(&header, bytes.data(), sizeof(header));
  const std::span<const uint8_t> rest = bytes.subspan(sizeof(header));
  if (header.in > rest.size()) return EINVAL;
  command = {header.cmd, rest.first(header.in), rest.subspan(header.in), header.out};
  return 0;
}

}  // namespace uroce::nic::ucma
